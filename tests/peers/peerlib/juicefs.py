"""The official juicefs program: the judge of the volume format."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from peerlib.base import PeerError, check, loopback_environment, wait_until
from peerlib.golang import GoPeer
from peerlib.process import run
from peerlib.session import Session


class JuiceFs(GoPeer):
    name = "juicefs"
    version = "v1.3.1"
    module = "juicefs"
    packages = {"juicefs": "github.com/juicedata/juicefs"}
    cgo = True  # for SQLite

    def smoke(self) -> None:
        with Session("juicefs") as session:
            _Volume(self.program("juicefs"), session).check()


class _Volume:
    """A volume with its metadata in SQLite and its blocks in files."""

    def __init__(self, juicefs: str, session: Session) -> None:
        self._juicefs = juicefs
        self._session = session
        self._data = session.data
        self._meta = f"sqlite3://{self._data}/meta.db"
        self._environment = {
            **loopback_environment(),
            "HOME": str(self._data),
            "volume": self._meta,
        }

    def check(self) -> None:
        content = os.urandom(5 << 20)  # more than one block of 4 MiB
        source, copy = self._data / "source", self._data / "copy"
        (source / "folder").mkdir(parents=True)
        (source / "folder" / "file").write_bytes(content)
        self._run(
            "format",
            "--storage",
            "file",
            "--bucket",
            f"{self._data}/blocks/",
            "--trash-days",
            "0",
            self._meta,
            "smoke",
        )
        self._run("sync", f"{source}/", "jfs://volume/")
        self._run("fsck", self._meta)
        self._run("sync", "jfs://volume/", f"{copy}/")
        check(
            (copy / "folder" / "file").read_bytes() == content,
            "juicefs: read something else than it was given",
        )
        if os.access("/dev/fuse", os.R_OK | os.W_OK):
            self._check_mount(content)

    def _check_mount(self, content: bytes) -> None:
        mount = self._data / "mount"
        mount.mkdir()
        argv = [
            self._juicefs,
            "mount",
            "--no-usage-report",
            "--cache-dir",
            str(self._data / "cache"),
            self._meta,
            str(mount),
        ]
        server = self._session.server("juicefs", argv, lambda: mount.is_mount(), self._environment)
        try:
            self._session.start(server)
            check(
                (mount / "folder" / "file").read_bytes() == content,
                "juicefs: the mount shows something else",
            )
            (mount / "new").write_text("written through the mount")
            info = self._run("info", str(mount / "new"))
            check("/new" in info, f"juicefs: info says {info}")
        finally:
            _unmount(mount)
        wait_until(lambda: not server.running(), "juicefs: ends after umount", timeout=30)

    def _run(self, *arguments: str) -> str:
        return run([self._juicefs, *arguments], self._environment)


def _unmount(mount: Path) -> None:
    for argv in (["fusermount3", "-u", str(mount)], ["fusermount3", "-uz", str(mount)]):
        if not os.path.ismount(mount) or subprocess.run(argv, capture_output=True).returncode == 0:
            return
    raise PeerError(f"cannot unmount {mount}")
