"""Volcano: a scheduler that starts the pods of a group together or not at all."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from peerlib import loopback
from peerlib.base import check, loopback_environment
from peerlib.golang import GoPeer
from peerlib.kube import Kube
from peerlib.process import Server, run
from peerlib.session import Session


class Volcano(GoPeer):
    name = "volcano"
    version = "v1.14.1"
    group = "bench"
    module = "volcano"
    packages = {
        "vc-scheduler": "volcano.sh/volcano/cmd/scheduler",
        "vc-controller-manager": "volcano.sh/volcano/cmd/controller-manager",
    }
    files = {
        "crds": ("volcano.sh/volcano", "config/crd/volcano/bases"),
        "jobflow-crds": ("volcano.sh/volcano", "config/crd/jobflow/bases"),
        "scheduler.conf": (
            "volcano.sh/volcano",
            "installer/helm/chart/volcano/config/volcano-scheduler.conf",
        ),
    }
    requires = ("kube", "kwok")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        Kube().add_options(parser)

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        """A cluster, as `serve kube` makes it, in which Volcano runs as well."""
        options.crds = [self.program("crds"), self.program("jobflow-crds"), *options.crds]
        reached = Kube().start(session, options)
        kubeconfig = Path(reached["kubeconfig"])
        kubectl = [reached["kubectl"], f"--kubeconfig={kubeconfig}"]
        run([*kubectl, "create", "namespace", "volcano-system"], loopback_environment())
        session.start(
            self._server(session, "vc-controller-manager", kubeconfig),
            self._server(
                session,
                "vc-scheduler",
                kubeconfig,
                f"--scheduler-conf={self.program('scheduler.conf')}",
                "--schedule-period=200ms",
            ),
        )
        return reached

    def _server(self, session: Session, name: str, kubeconfig: Path, *flags: str) -> Server:
        port = session.free_port()
        argv = [
            self.program(name),
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--enable-healthz=true",
            f"--healthz-address=127.0.0.1:{port}",
            f"--listen-address=127.0.0.1:{session.free_port()}",
            "--logtostderr",
            *flags,
        ]
        return session.server(name, argv, lambda: loopback.healthy(port), loopback_environment())

    def smoke(self) -> None:
        """On 8 GPUs, a group that needs 12 waits as a whole while one that needs 8 runs."""
        with Session("volcano") as session:
            reached = self.start(session, self.default_options("--controllers", "--kwok", "1"))
            kubectl = [reached["kubectl"], f"--kubeconfig={reached['kubeconfig']}"]
            environment = loopback_environment()
            objects = [*_group("large", 3), *_group("small", 2)]
            manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
            run([*kubectl, "create", "-f", "-"], environment, stdin=manifest)
            run(
                [
                    *kubectl,
                    "wait",
                    "--for=jsonpath={.status.phase}=Running",
                    "pod/small-0",
                    "pod/small-1",
                    "--timeout=60s",
                ],
                environment,
                timeout=90,
            )
            nodes = run(
                [
                    *kubectl,
                    "get",
                    "pods",
                    "-l=group=large",
                    "-o=jsonpath={.items[*].spec.nodeName}",
                ],
                environment,
            )
            check(nodes == "", f"volcano: pods of a group that does not fit are on {nodes}")


def _group(name: str, pods: int) -> list[dict[str, Any]]:
    """A group of pods that want 4 GPUs each."""
    gpus = {"nvidia.com/gpu": "4"}
    group: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": pods, "queue": "default"},
    }
    return [group] + [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{index}",
                "labels": {"group": name},
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {
                "schedulerName": "volcano",
                "containers": [
                    {"name": "main", "image": "none", "resources": {"limits": gpus}},
                ],
            },
        }
        for index in range(pods)
    ]
