"""Kubeflow's training-operator: another operator with a PaddleJob, to measure ours against."""

from __future__ import annotations

import argparse
import base64
import json
import os
from pathlib import Path
from typing import Any

from peerlib import loopback
from peerlib.base import START_TIMEOUT, check, loopback_environment, wait_until
from peerlib.golang import GoPeer
from peerlib.kube import Kube
from peerlib.kube_api import KubeApi
from peerlib.process import Server, run
from peerlib.session import Session

_MODULE = "github.com/kubeflow/training-operator"
_SECRET = "training-operator-webhook-cert"
_SECRETS = "/api/v1/namespaces/kubeflow/secrets"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_CERTIFICATES = ("ca.crt", "ca.key", "tls.crt", "tls.key")

# It looks for its certificates below this path, whatever it is told. In a cluster kubelet mounts
# the Secret there; here each process gets a mount of its own.
_FIXED = Path("/tmp/k8s-webhook-server")
_WITH_OWN_MOUNT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


class TrainingOperator(GoPeer):
    name = "training-operator"
    version = "v1.8.1"
    group = "bench"
    module = "training-operator"
    packages = {"training-operator": f"{_MODULE}/cmd/training-operator.v1"}
    files = {"crds": (_MODULE, "manifests/base/crds")}
    requires = ("kube", "kwok")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        Kube().add_options(parser)

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        """A cluster, as `serve kube` makes it, in which the operator runs as well. Its webhook,
        which would need a Service, checks nothing."""
        options.crds = [self.program("crds/kubeflow.org_paddlejobs.yaml"), *options.crds]
        reached = Kube().start(session, options)
        api = KubeApi(
            int(reached["server"].rsplit(":", 1)[1]), Path(reached["ca"]), reached["token"]
        )
        for path, body in _OBJECTS:
            status, answer = api.request("POST", path, body)
            check(status == 201, f"training-operator: POST {path} gave {status} {answer}")
        metrics = session.free_port()
        mount = session.data / "webhook"
        mount.mkdir()
        server = self._server(session, reached["kubeconfig"], mount, metrics)
        server.launch()
        wait_until(lambda: _copied(api, mount, server), "training-operator: its certificates")
        wait_until(server.ready, "training-operator: ready", START_TIMEOUT)
        return {**reached, "metrics": f"http://127.0.0.1:{metrics}/metrics"}

    def _server(self, session: Session, kubeconfig: str, mount: Path, metrics: int) -> Server:
        _FIXED.mkdir(exist_ok=True)
        probes = session.free_port()
        argv = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
        argv += ["sh", "-c", _WITH_OWN_MOUNT, "sh", str(mount), str(_FIXED)]
        argv += [
            self.program("training-operator"),
            f"--kubeconfig={kubeconfig}",
            "--enable-scheme=paddlejob",
            f"--health-probe-bind-address=127.0.0.1:{probes}",
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            f"--webhook-server-port={session.free_port()}",
        ]
        return session.server(
            self.name,
            argv,
            lambda: loopback.healthy(probes, "/readyz"),
            {**loopback_environment(), "TMPDIR": str(_FIXED.parent)},
        )

    def smoke(self) -> None:
        with Session(self.name) as session:
            reached = self.start(session, self.default_options("--controllers", "--kwok", "1"))
            kubectl = [reached["kubectl"], f"--kubeconfig={reached['kubeconfig']}"]
            environment = loopback_environment()
            run([*kubectl, "create", "-f", "-"], environment, stdin=json.dumps(_JOB))
            run(
                [*kubectl, "wait", "--for=condition=Running", "paddlejob/smoke", "--timeout=60s"],
                environment,
                timeout=90,
            )
            phases = run(
                [*kubectl, "get", "pods", "-o=jsonpath={.items[*].status.phase}"], environment
            )
            check(phases == "Running Running", f"training-operator: its pods are {phases}")


def _copied(api: KubeApi, mount: Path, server: Server) -> bool:
    """Puts the certificates, once the operator has made them, where it waits for them."""
    server.ready()  # raises if it has ended
    secret = api.get(f"{_SECRETS}/{_SECRET}") or {}
    data = secret.get("data") or {}
    if not all(data.get(name) for name in _CERTIFICATES):
        return False
    unfinished = mount / "unfinished"
    unfinished.mkdir()
    for name in _CERTIFICATES:
        (unfinished / name).write_bytes(base64.b64decode(data[name]))
    # All at once: a half-written key would end the operator.
    unfinished.rename(mount / "serving-certs")
    return True


_OBJECTS: list[tuple[str, dict[str, Any]]] = [
    (
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}},
    ),
    (_SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET}}),
    (
        _WEBHOOKS,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validator.training-operator.kubeflow.org"},
            "webhooks": [],
        },
    ),
]

_JOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PaddleJob",
    "metadata": {"name": "smoke"},
    "spec": {
        "paddleReplicaSpecs": {
            "Worker": {
                "replicas": 2,
                "restartPolicy": "OnFailure",
                "template": {"spec": {"containers": [{"name": "paddle", "image": "none"}]}},
            }
        }
    },
}
