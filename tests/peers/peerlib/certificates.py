"""Certificates for one session: authorities of its own, valid for a day."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from peerlib.process import run

_NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
_LOOPBACK = "IP:127.0.0.1,IP:::1,DNS:localhost"


@dataclass(frozen=True)
class KeyPair:
    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files lie in `directory`."""

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self._directory = directory
        self.pair = KeyPair(directory / f"{name}.crt", directory / f"{name}.key")
        usage = "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"
        _openssl(
            f"req -x509 {_NEW_KEY} -addext {usage} -subj /CN={name}",
            keyout=self.pair.key,
            out=self.pair.certificate,
        )

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def server(self, name: str, more_names: str = "") -> KeyPair:
        """A certificate for loopback servers; `more_names` are further subjectAltNames."""
        names = f"{_LOOPBACK},{more_names}" if more_names else _LOOPBACK
        extensions = f"-addext subjectAltName={names} -addext extendedKeyUsage=serverAuth"
        return self._issue(name, f"/CN={name}", extensions)

    def client(self, name: str, subject: str) -> KeyPair:
        return self._issue(name, subject, "-addext extendedKeyUsage=clientAuth")

    def _issue(self, name: str, subject: str, extensions: str) -> KeyPair:
        pair = KeyPair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        request = self._directory / f"{name}.csr"
        _openssl(f"req -new {_NEW_KEY} -subj {subject} {extensions}", keyout=pair.key, out=request)
        _openssl(
            "x509 -req -copy_extensions copy -days 1 -CAcreateserial",
            CA=self.pair.certificate,
            CAkey=self.pair.key,
            **{"in": request},
            out=pair.certificate,
        )
        return pair


def _openssl(command: str, **files: Path) -> None:
    """Runs `openssl command`, with an option for each file (whose names may contain spaces)."""
    options = [word for option, path in files.items() for word in (f"-{option}", str(path))]
    run(["openssl", *command.split(), *options])
