"""etcd: Debian's etcd-server. kube-apiserver keeps its objects there."""

from __future__ import annotations

import argparse
import base64
import json
import urllib.error
import urllib.request
from typing import Any

from peerlib.base import check, loopback_environment
from peerlib.process import Server
from peerlib.session import Session
from peerlib.system import SystemPeer

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Etcd(SystemPeer):
    name = "etcd"
    version = "3.4 or newer"
    programs = ("etcd",)
    oldest = (3, 4)

    def declare(self, session: Session) -> tuple[Server, str]:
        """The server, not yet started, and its URL."""
        url = f"http://127.0.0.1:{session.free_port()}"
        peer_url = f"http://127.0.0.1:{session.free_port()}"
        argv = [self.program("etcd"), "--name=peer", f"--data-dir={session.data / 'etcd'}"]
        argv += [f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
        argv += [f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}"]
        argv += [f"--initial-cluster=peer={peer_url}"]
        # What a power failure may lose is no loss to a test; a killed process loses nothing.
        argv += ["--unsafe-no-fsync"]
        return session.server("etcd", argv, lambda: _healthy(url), loopback_environment()), url

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        server, url = self.declare(session)
        session.start(server)
        return {"url": url}

    def smoke(self) -> None:
        with Session("etcd") as session:
            url = self.start(session, self.default_options())["url"]
            key, value = (base64.b64encode(word).decode() for word in (b"key", b"value"))
            _call(f"{url}/v3/kv/put", {"key": key, "value": value})
            got = _call(f"{url}/v3/kv/range", {"key": key})
            check(got["kvs"][0]["value"] == value, f"etcd: read {got}")


def _healthy(url: str) -> bool:
    try:
        return _call(f"{url}/health")["health"] == "true"
    except (OSError, ValueError, KeyError):
        return False


def _call(url: str, body: dict[str, str] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with _opener.open(url, data, timeout=5) as response:
        return json.load(response)
