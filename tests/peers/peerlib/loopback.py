"""HTTP requests to a server on 127.0.0.1."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from pathlib import Path

# What a request to a server that starts, or ends, may raise.
ERRORS = (OSError, http.client.HTTPException)


def call(
    method: str,
    port: int,
    path: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    ca: Path | None = None,
) -> tuple[int, str]:
    """Returns status and body. With `ca` the connection is TLS and the server must prove itself."""
    connection: http.client.HTTPConnection
    if ca is not None:
        context = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()


def healthy(port: int, path: str = "/healthz", ca: Path | None = None) -> bool:
    try:
        return call("GET", port, path, ca=ca)[0] == 200
    except ERRORS:
        return False
