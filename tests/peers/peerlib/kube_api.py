"""Just enough of a Kubernetes client to start a cluster with."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class KubeApi:
    """A server on 127.0.0.1. An empty token makes anonymous requests."""

    port: int
    ca: Path
    token: str = ""

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        context = ssl.create_default_context(cafile=str(self.ca))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def status(self, method: str, path: str, body: Any = None) -> int:
        """The status alone; 0 if there was no answer."""
        try:
            return self.request(method, path, body)[0]
        except (OSError, http.client.HTTPException):
            return 0

    def get(self, path: str) -> Any:
        """The object, or None if it is not there (yet)."""
        status, body = self.request("GET", path)
        return json.loads(body) if status == 200 else None

    def made(self, path: str, body: Any) -> bool:
        """Creates the object; true also if it exists."""
        return self.status("POST", path, body) in (201, 409)
