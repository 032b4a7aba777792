"""Kubernetes: etcd and kube-apiserver; on request the controllers, the scheduler and fake nodes."""

from __future__ import annotations

import argparse
import json
import secrets
from pathlib import Path
from typing import Any

from peerlib import kwok, loopback
from peerlib.base import PeerError, check, loopback_environment, wait_until
from peerlib.etcd import Etcd
from peerlib.golang import GoPeer
from peerlib.kube_api import KubeApi
from peerlib.kube_build import LINKER_FLAGS, VERSION
from peerlib.kube_credentials import Credentials
from peerlib.kubectl import Kubectl
from peerlib.process import Server, run
from peerlib.session import Session

_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")


class Kube(GoPeer):
    name = "kube"
    version = VERSION
    module = "kube"
    packages = {"hyperkube": "./hyperkube"}
    links = {component: "hyperkube" for component in _COMPONENTS}
    linker_flags = LINKER_FLAGS
    requires = ("etcd", "kubectl")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--controllers", action="store_true", help="controller-manager and scheduler too"
        )
        parser.add_argument(
            "--kwok", type=int, default=0, metavar="N", help="KWOK with N fake nodes"
        )
        parser.add_argument(
            "--crds",
            action="append",
            default=[],
            metavar="FILE",
            help="create before the controllers start, which learn of others slowly; repeatable",
        )
        parser.add_argument(
            "--arg",
            action="append",
            default=[],
            metavar="COMPONENT=FLAG",
            help="e.g. kube-apiserver=--etcd-compaction-interval=1s; repeatable",
        )

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        port = session.free_port()
        credentials = Credentials(session.data / "pki", f"https://127.0.0.1:{port}")
        api = KubeApi(port, credentials.ca, credentials.admin_token)
        etcd, etcd_url = Etcd().declare(session)
        session.start(etcd)
        session.start(self._apiserver(session, options, credentials, api, etcd_url))
        wait_until(
            lambda: api.get("/api/v1/namespaces/default") is not None, "kube: namespace default"
        )

        for path in options.crds:
            self._create_crds(credentials, path)
        servers: list[Server] = []
        if options.controllers:
            servers.append(self._controller_manager(session, options, credentials))
            servers.append(self._scheduler(session, options, credentials))
        else:
            # Pods need it, and it is the controller-manager that would make it.
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default"},
            }
            wait_until(
                lambda: api.made(_ACCOUNTS, account), "kube: creating the default ServiceAccount"
            )
        if options.kwok:
            servers.append(kwok.Kwok().declare(session, credentials.kubeconfig))
        session.start(*servers)
        wait_until(
            lambda: api.get(f"{_ACCOUNTS}/default") is not None, "kube: the default ServiceAccount"
        )
        return {
            "server": credentials.server,
            "kubeconfig": str(credentials.kubeconfig),
            "kubeconfig_cert": str(credentials.kubeconfig_cert),
            "token": credentials.admin_token,
            "ca": str(credentials.ca),
            "client_cert": str(credentials.admin.certificate),
            "client_key": str(credentials.admin.key),
            "etcd": etcd_url,
            "kubectl": Kubectl().program("kubectl"),
            "nodes": kwok.add_nodes(api, options.kwok),
        }

    def _apiserver(
        self,
        session: Session,
        options: argparse.Namespace,
        credentials: Credentials,
        api: KubeApi,
        etcd: str,
    ) -> Server:
        flags = [
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={api.port}",
            # It would publish its address as an Endpoints object, where loopback is not allowed.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--tls-cert-file={credentials.serving.certificate}",
            f"--tls-private-key-file={credentials.serving.key}",
            f"--client-ca-file={credentials.ca}",
            f"--token-auth-file={credentials.tokens}",
            # How it shows itself to kubelets, for logs and exec.
            f"--kubelet-client-certificate={credentials.admin.certificate}",
            f"--kubelet-client-key={credentials.admin.key}",
            f"--service-account-issuer={credentials.issuer}",
            f"--service-account-key-file={credentials.account_key}",
            f"--service-account-signing-key-file={credentials.account_key}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            *credentials.front_proxy_flags(),
        ]
        return self._component(
            session, options, "kube-apiserver", flags, lambda: api.status("GET", "/readyz") == 200
        )

    def _controller_manager(
        self, session: Session, options: argparse.Namespace, credentials: Credentials
    ) -> Server:
        flags = [
            "--use-service-account-credentials",
            f"--service-account-private-key-file={credentials.account_key}",
            f"--root-ca-file={credentials.ca}",
            f"--cluster-signing-cert-file={credentials.ca}",
            f"--cluster-signing-key-file={credentials.ca_key}",
            # The default of 15 s is what a claim on an existing volume would wait.
            "--pvclaimbinder-sync-period=1s",
            # On a busy machine the fake nodes are late, and their pods would be moved.
            "--node-monitor-grace-period=30m",
        ]
        return self._controller(session, options, credentials, "kube-controller-manager", flags)

    def _scheduler(
        self, session: Session, options: argparse.Namespace, credentials: Credentials
    ) -> Server:
        return self._controller(session, options, credentials, "kube-scheduler", [])

    def _controller(
        self,
        session: Session,
        options: argparse.Namespace,
        credentials: Credentials,
        name: str,
        flags: list[str],
    ) -> Server:
        kubeconfig = credentials.component_kubeconfig(name)
        port = session.free_port()
        flags = [
            *(
                f"--{purpose}kubeconfig={kubeconfig}"
                for purpose in ("", "authentication-", "authorization-")
            ),
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={credentials.serving.certificate}",
            f"--tls-private-key-file={credentials.serving.key}",
            "--leader-elect=false",
            *flags,
        ]
        return self._component(
            session, options, name, flags, lambda: loopback.healthy(port, ca=credentials.ca)
        )

    def _component(
        self, session: Session, options: argparse.Namespace, name: str, flags: list[str], ready: Any
    ) -> Server:
        for extra in options.arg:
            component, _, flag = extra.partition("=")
            check(component in _COMPONENTS, f"--arg {extra}: no component {component}")
            if component == name:
                flags.append(flag)
        # kube-apiserver would wait a minute for its watches to end.
        argv = [self.program(name), *flags]
        return session.server(name, argv, ready, loopback_environment(), patience=3.0)

    def _create_crds(self, credentials: Credentials, path: str) -> None:
        kubectl = [Kubectl().program("kubectl"), f"--kubeconfig={credentials.kubeconfig}"]
        environment = loopback_environment()
        run([*kubectl, "create", "-f", path], environment)

        # Not `kubectl wait`: it fails on an object that has no conditions yet.
        def established() -> bool:
            got = json.loads(run([*kubectl, "get", "-o", "json", "-f", path], environment))
            return all(
                any(
                    condition["type"] == "Established" and condition["status"] == "True"
                    for condition in item.get("status", {}).get("conditions") or []
                )
                for item in got.get("items", [got])
            )

        wait_until(established, f"kube: the API server serves {path}")

    def smoke(self) -> None:
        with Session("kube") as session:
            reached = self.start(session, self.default_options())
            for kubeconfig in (reached["kubeconfig"], reached["kubeconfig_cert"]):
                name = f"smoke-{secrets.token_hex(4)}"
                kubectl = [reached["kubectl"], f"--kubeconfig={kubeconfig}"]
                environment = loopback_environment()
                run(
                    [*kubectl, "create", "configmap", name, "--from-literal=key=value"], environment
                )
                got = json.loads(
                    run([*kubectl, "get", "configmap", name, "-o", "json"], environment)
                )
                check(got["data"] == {"key": "value"}, f"kube: read {got}")
            version = json.loads(run([*kubectl, "version", "-o", "json"], environment))
            check(version["serverVersion"]["gitVersion"] == VERSION, f"kube: is {version}")
            stranger = KubeApi(
                int(reached["server"].rsplit(":", 1)[1]), Path(reached["ca"]), "wrong"
            )
            status = stranger.status("GET", "/api/v1/nodes")
            check(status == 401, f"kube: a wrong token gave {status}")

    def smoke_pod(self, arguments: list[str], node: str | None) -> None:
        """Has a pod become Running on a fake node; the scheduler chooses it if `node` is None."""
        with Session("kube") as session:
            reached = self.start(session, self.default_options(*arguments))
            pod: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "smoke"},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            }
            if node is not None:
                pod["spec"]["nodeName"] = node
            kubectl = [reached["kubectl"], f"--kubeconfig={reached['kubeconfig']}"]
            environment = loopback_environment()
            run([*kubectl, "create", "-f", "-"], environment, stdin=json.dumps(pod))
            try:
                run(
                    [
                        *kubectl,
                        "wait",
                        "--for=jsonpath={.status.phase}=Running",
                        "pod/smoke",
                        "--timeout=60s",
                    ],
                    environment,
                )
            except PeerError as error:
                state = run([*kubectl, "describe", "pod/smoke"], environment)
                raise PeerError(f"kwok: the pod does not run: {error}\n{state}") from error


_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
