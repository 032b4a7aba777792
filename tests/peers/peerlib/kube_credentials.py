"""Keys, certificates, tokens and kubeconfigs of one cluster."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Any

from peerlib.certificates import Authority
from peerlib.process import run

# Who the controllers are: RBAC's bootstrap roles know these names.
_COMPONENTS = ("kube-controller-manager", "kube-scheduler")


class Credentials:
    def __init__(self, directory: Path, server: str) -> None:
        self.server = server
        self.issuer = "https://kubernetes.default.svc.cluster.local"
        self._directory = directory
        authority = Authority(directory, "kube-ca")
        self.ca, self.ca_key = authority.certificate, authority.pair.key
        services = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        self.serving = authority.server("serving", ",".join(f"DNS:{name}" for name in services))
        self.admin = authority.client("admin", "/O=system:masters/CN=admin")
        self._front_ca = Authority(directory, "front-proxy-ca")
        self._front = self._front_ca.client("front-proxy", "/CN=front-proxy-client")
        self.account_key = directory / "service-account.key"
        # Not genpkey: kube-apiserver does not read a public key out of PKCS #8.
        run(
            [
                "openssl",
                "ecparam",
                "-genkey",
                "-noout",
                "-name",
                "prime256v1",
                "-out",
                str(self.account_key),
            ]
        )

        self.admin_token = secrets.token_hex(16)
        self._component_tokens = {name: secrets.token_hex(16) for name in _COMPONENTS}
        self.tokens = directory / "tokens.csv"
        lines = [f'{self.admin_token},admin,admin,"system:masters"']
        lines += [f"{token},system:{name},{name}" for name, token in self._component_tokens.items()]
        self.tokens.write_text("\n".join(lines) + "\n")

        self.kubeconfig = self._write("admin", {"token": self.admin_token}, embed=False)
        pair = {
            "client-certificate-data": _base64(self.admin.certificate),
            "client-key-data": _base64(self.admin.key),
        }
        self.kubeconfig_cert = self._write("admin-cert", pair, embed=True)

    def component_kubeconfig(self, name: str) -> Path:
        return self._write(name, {"token": self._component_tokens[name]}, embed=False)

    def front_proxy_flags(self) -> list[str]:
        """What lets kube-apiserver stand in front of other API servers, as in every cluster."""
        return [
            f"--requestheader-client-ca-file={self._front_ca.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._front.certificate}",
            f"--proxy-client-key-file={self._front.key}",
        ]

    def _write(self, name: str, user: dict[str, str], embed: bool) -> Path:
        """Writes a kubeconfig (JSON is YAML), which names its files or, if `embed`, holds them."""
        authority = (
            {"certificate-authority-data": _base64(self.ca)}
            if embed
            else {"certificate-authority": str(self.ca)}
        )
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "peer", "cluster": {"server": self.server, **authority}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "peer", "context": {"cluster": "peer", "user": name}}],
            "current-context": "peer",
        }
        path = self._directory.parent / f"{name}.kubeconfig"
        path.write_text(json.dumps(content, indent=2) + "\n")
        path.chmod(0o600)
        return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
