"""etcd: Debian's etcd-server. kube-apiserver keeps its objects there."""

from __future__ import annotations

import argparse
import base64
import json
from typing import Any

from peerlib import loopback
from peerlib.base import check, loopback_environment
from peerlib.process import Server
from peerlib.session import Session
from peerlib.system import SystemPeer


class Etcd(SystemPeer):
    name = "etcd"
    version = "3.4 or newer"
    programs = ("etcd",)
    oldest = (3, 4)

    def declare(self, session: Session) -> tuple[Server, str]:
        """The server, not yet started, and its URL."""
        port = session.free_port()
        url = f"http://127.0.0.1:{port}"
        peer_url = f"http://127.0.0.1:{session.free_port()}"
        argv = [self.program("etcd"), "--name=peer", f"--data-dir={session.data / 'etcd'}"]
        argv += [f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
        argv += [f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}"]
        argv += [f"--initial-cluster=peer={peer_url}"]
        # What a power failure may lose is no loss to a test; a killed process loses nothing.
        argv += ["--unsafe-no-fsync"]
        return session.server("etcd", argv, lambda: _healthy(port), loopback_environment()), url

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        server, url = self.declare(session)
        session.start(server)
        return {"url": url}

    def smoke(self) -> None:
        with Session("etcd") as session:
            url = self.start(session, self.default_options())["url"]
            port = int(url.rsplit(":", 1)[1])
            key, value = (base64.b64encode(word).decode() for word in (b"key", b"value"))
            _call(port, "/v3/kv/put", {"key": key, "value": value})
            got = _call(port, "/v3/kv/range", {"key": key})
            check(got["kvs"][0]["value"] == value, f"etcd: read {got}")


def _healthy(port: int) -> bool:
    try:
        return bool(json.loads(loopback.call("GET", port, "/health")[1])["health"] == "true")
    except (*loopback.ERRORS, ValueError, KeyError):
        return False


def _call(port: int, path: str, body: dict[str, str]) -> Any:
    status, answer = loopback.call("POST", port, path, json.dumps(body))
    check(status == 200, f"etcd: {path} gave {status} {answer}")
    return json.loads(answer)
