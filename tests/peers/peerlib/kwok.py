"""KWOK: nodes and kubelets that are only simulated, so that pods run without containers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from peerlib import loopback
from peerlib.base import PeerError, check, loopback_environment, wait_until
from peerlib.golang import GoPeer
from peerlib.kube_api import KubeApi
from peerlib.process import Server
from peerlib.session import Session

_STAGES = Path(__file__).with_name("kwok_stages.yaml")
_MANAGED = "kwok.x-k8s.io/node"
_CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}


class Kwok(GoPeer):
    name = "kwok"
    version = "v0.7.0"
    module = "kwok"
    packages = {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}
    requires = ("kube", "kubectl")

    def declare(self, session: Session, kubeconfig: Path) -> Server:
        port = session.free_port()
        argv = [
            self.program("kwok"),
            f"--kubeconfig={kubeconfig}",
            f"--config={_STAGES}",
            f"--manage-nodes-with-annotation-selector={_MANAGED}=fake",
            # No node leases: KWOK 0.7 competes with itself for them.
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{port}",
        ]
        return session.server("kwok", argv, lambda: loopback.healthy(port), loopback_environment())

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        raise PeerError("KWOK needs a cluster: use `peer serve kube --kwok N`")

    def smoke(self) -> None:
        from peerlib.kube import Kube  # which imports this module

        # Without controllers and scheduler the pod must name its node; with them it need not.
        Kube().smoke_pod(["--kwok", "1"], node="node-0")
        Kube().smoke_pod(["--controllers", "--kwok", "3"], node=None)


def add_nodes(api: KubeApi, count: int) -> list[str]:
    """Creates the nodes and returns when all are Ready."""
    names = [f"node-{index}" for index in range(count)]
    for index, name in enumerate(names):
        status, body = api.request("POST", "/api/v1/nodes", _node(name, index))
        check(status == 201, f"kwok: cannot create {name}: {status} {body}")
    for name in names:
        _wait_ready(api, name)
    return names


def _wait_ready(api: KubeApi, name: str) -> None:
    wait_until(lambda: _is_ready(api.get(f"/api/v1/nodes/{name}")), f"kwok: {name} is Ready")


def _node(name: str, index: int) -> dict[str, Any]:
    # Pods in the host's network get the node's address, which must differ from node to node.
    address = f"10.199.{index // 250}.{index % 250 + 1}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_MANAGED: "fake"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "status": {
            "capacity": _CAPACITY,
            "allocatable": _CAPACITY,
            "addresses": [{"type": "InternalIP", "address": address}],
        },
    }


def _is_ready(node: Any) -> bool:
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
