"""Jobs handed to the operator on a real API server, and their pods as run_pods.py runs them: the
environment is what kubelet would give to the containers, only the addresses are of this machine."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration/operator"))

from cluster import Cluster, Manager  # noqa: E402

_NAMESPACE = "default"


class Operator:
    """A cluster of fake nodes with a manager. Pods run there in name only; `pods` tells what a
    kubelet would run."""

    def __init__(self, *flags: str) -> None:
        self._cluster = Cluster("--controllers", "--kwok", "4")
        try:
            self._manager = Manager(self._cluster, *flags).wait_ready()
        except BaseException:
            self._cluster.close()
            raise

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.stop()
        self._cluster.close()

    def submit(self, job: dict[str, Any]) -> None:
        self._cluster.create(_NAMESPACE, job)

    def pods(self, name: str, network: int) -> list[dict[str, Any]]:
        """The job's pods, once all of them run. Their addresses become 127.0.`network`.x."""
        self._cluster.wait_phase(_NAMESPACE, name, "Running")
        config_map = self._cluster.config_map(_NAMESPACE, name)
        services = self._cluster.services(_NAMESPACE)
        found = sorted(self._cluster.pods(_NAMESPACE, name).items())
        local: dict[str, str] = {}
        for _, pod in found:
            address = pod["status"]["podIP"]
            local.setdefault(address, f"127.0.{network}.{len(local) + 2}")
        return [
            {
                "name": pod_name,
                "ip": local[pod["status"]["podIP"]],
                "env": {
                    key: _localize(value, local) for key, value in resolve(pod, config_map).items()
                },
                "command": _words(pod["spec"]["containers"][0]),
                "service": pod_name in services,
                "server": pod["metadata"]["labels"]["paddle-res-type"] == "ps",
                "restart": pod["spec"]["restartPolicy"] == "OnFailure",
            }
            for pod_name, pod in found
        ]


def _words(container: dict[str, Any]) -> list[str]:
    return [*container.get("command", []), *container.get("args", [])]


def _localize(value: str, local: dict[str, str]) -> str:
    return re.sub(r"\d+(?:\.\d+){3}", lambda found: local.get(found[0], found[0]), value)


def resolve(pod: dict[str, Any], config_map: dict[str, str] | None) -> dict[str, str]:
    """The environment of the pod's first container, by kubelet's rules."""
    container = pod["spec"]["containers"][0]
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        assert source["configMapRef"]["name"] == pod["metadata"]["name"].rsplit("-", 2)[0], source
        assert config_map is not None, "the container would wait for its ConfigMap"
        found |= config_map
    # Only what `env` has so far can be referred to, and what envFrom brought.
    for entry in container.get("env", []):
        found[entry["name"]] = _value(entry, pod, config_map, found)
    return found


def _value(
    entry: dict[str, Any],
    pod: dict[str, Any],
    config_map: dict[str, str] | None,
    so_far: dict[str, str],
) -> str:
    origin = entry.get("valueFrom")
    if origin is None:
        text = entry.get("value", "")
        return re.sub(r"\$\((\w+)\)", lambda found: so_far.get(found[1], found[0]), text)
    if "fieldRef" in origin:
        value: Any = pod
        for part in origin["fieldRef"]["fieldPath"].split("."):
            value = value[part]
        return str(value)
    assert config_map is not None, entry
    return config_map[origin["configMapKeyRef"]["key"]]
