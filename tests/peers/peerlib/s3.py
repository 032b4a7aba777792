"""Just enough S3 to create buckets: requests signed with AWS Signature Version 4.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client
import ssl
import urllib.parse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class S3:
    endpoint: str
    access_key: str
    secret_key: str
    region: str
    ca: Path | None = None

    def request(self, method: str, path: str) -> tuple[int, str]:
        """Sends a request without query and body; returns status and body."""
        url = urllib.parse.urlsplit(self.endpoint)
        connection: http.client.HTTPConnection
        if url.scheme == "https":
            context = ssl.create_default_context(cafile=str(self.ca) if self.ca else None)
            connection = http.client.HTTPSConnection(url.netloc, timeout=10, context=context)
        else:
            connection = http.client.HTTPConnection(url.netloc, timeout=10)
        try:
            connection.request(method, path, headers=self._signed(method, url.netloc, path))
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        finally:
            connection.close()

    def _signed(self, method: str, host: str, path: str) -> dict[str, str]:
        time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
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
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope},SignedHeaders={names},Signature={signature}"
        )
        return headers


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
