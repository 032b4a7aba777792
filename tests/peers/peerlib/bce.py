"""The SDK of Baidu AI Cloud, whose client of BOS is not ours."""

from __future__ import annotations

from peerlib.base import check
from peerlib.process import run
from peerlib.python import PythonPeer, clean_environment

_SIGN = """
from baidubce.auth.bce_credentials import BceCredentials
from baidubce.auth.bce_v1_signer import sign
headers = {b"Host": b"127.0.0.1:8080", b"x-bce-date": b"2021-11-08T12:00:00Z"}
keys = BceCredentials("AKIDTEST0001", "sk-0123456789abcdef")
print(sign(keys, b"GET", b"/b", headers, {}, 1636372800, 1800).decode())
"""


class BceSdk(PythonPeer):
    name = "bce-sdk"
    version = "0.9.79"
    module = "bce-sdk"

    def smoke(self) -> None:
        output = run([self.python(), "-c", _SIGN], clean_environment(), timeout=60)
        start = "bce-auth-v1/AKIDTEST0001/2021-11-08T12:00:00Z/1800//"
        check(output.startswith(start), f"{self.name}: signs {output}")
