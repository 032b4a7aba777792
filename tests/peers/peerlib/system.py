"""Peers that Debian packages: any version from a known one on will do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from peerlib.base import REPOSITORY, Peer, PeerError, say
from peerlib.process import run


class SystemPeer(Peer):
    programs: tuple[str, ...] = ()  # all must be there; the first one tells the version
    version_arguments: tuple[str, ...] = ("--version",)
    oldest: tuple[int, int] = (0, 0)

    def get(self) -> None:
        if self.find() is not None:
            return
        say(f"{self.name} is missing: running tools/deps.sh")
        # Its output is for people, and ours is read by programs.
        subprocess.run([str(REPOSITORY / "tools" / "deps.sh")], check=False, stdout=2)
        if self.find() is None:
            raise PeerError(
                f"{self.name}: needs {' and '.join(self.programs)}, version {self.version}, "
                "and tools/deps.sh did not bring them"
            )

    def find(self) -> Path | None:
        paths = [shutil.which(program) for program in self.programs]
        if not all(paths) or self._installed() < self.oldest:
            return None
        assert paths[0] is not None
        return Path(paths[0]).parent

    def program(self, name: str) -> str:
        self.directory()
        path = shutil.which(name)
        if path is None:
            raise PeerError(f"{name} is not installed: run tools/deps.sh")
        return path

    def found_version(self) -> str:
        return ".".join(map(str, self._installed())) if self.find() else self.version

    def _installed(self) -> tuple[int, ...]:
        output = run([self.programs[0], *self.version_arguments])
        match = re.search(r"(\d+)\.(\d+)\.(\d+)", output)
        return tuple(int(part) for part in match.groups()) if match else (0, 0)
