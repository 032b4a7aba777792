"""Just enough S3 to create buckets: requests signed with AWS Signature Version 4.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from peerlib import loopback


@dataclass(frozen=True)
class S3:
    """A server on 127.0.0.1; https if `ca` is given."""

    port: int
    access_key: str
    secret_key: str
    region: str
    ca: Path | None = None

    def request(self, method: str, path: str) -> tuple[int, str]:
        """Sends a request without query and body; returns status and body."""
        headers = self._signed(method, f"127.0.0.1:{self.port}", path)
        return loopback.call(method, self.port, path, headers=headers, ca=self.ca)

    def _signed(self, method: str, host: str, path: str) -> dict[str, str]:
        time = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        empty = hashlib.sha256(b"").hexdigest()
        headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": time}
        names = ";".join(headers)
        canonical = [method, urllib.parse.quote(path), ""]
        canonical += [f"{name}:{value}" for name, value in headers.items()]
        canonical += ["", names, empty]
        scope = f"{time[:8]}/{self.region}/s3/aws4_request"
        digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = _hmac(key, part)
        signature = _hmac(key, f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}").hex()
        credential = f"{self.access_key}/{scope}"
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={signature}"
        )
        return headers


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
