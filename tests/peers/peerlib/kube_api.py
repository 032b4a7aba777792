"""Just enough of a Kubernetes client to start a cluster with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerlib import loopback


@dataclass(frozen=True)
class KubeApi:
    """A server on 127.0.0.1, as the owner of `token` sees it."""

    port: int
    ca: Path
    token: str

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        return loopback.call(
            method, self.port, path, None if body is None else json.dumps(body), headers, self.ca
        )

    def status(self, method: str, path: str, body: Any = None) -> int:
        """The status alone; 0 if there was no answer."""
        try:
            return self.request(method, path, body)[0]
        except loopback.ERRORS:
            return 0

    def get(self, path: str) -> Any:
        """The object, or None if it is not there (yet)."""
        status, body = self.request("GET", path)
        return json.loads(body) if status == 200 else None

    def made(self, path: str, body: Any) -> bool:
        """Creates the object; true also if it exists."""
        return self.status("POST", path, body) in (201, 409)
