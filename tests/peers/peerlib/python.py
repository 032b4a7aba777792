"""Peers that are Python packages, each in an environment of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path

from peerlib import cache
from peerlib.base import HERE, Peer, PeerError, say, tail
from peerlib.process import run, run_with_progress

# Debian's, whatever else comes first on PATH: the pinned wheels are for it.
_PYTHON = "/usr/bin/python3"

# What a lost connection looks like in the output of pip: worth a second try.
_NETWORK_TROUBLE = re.compile(
    r"Connection(Reset|Refused|Error)|Read timed out|Max retries|IncompleteRead|SSLError|50[234] "
)


class PythonPeer(Peer):
    """A peer whose directory is a virtual environment: `<directory>/bin/python` runs it.

    `modules/<module>/requirements.txt` names every package with its version; nothing else gets in.
    """

    module = ""

    def get(self) -> None:
        cache.install(self.name, self.version, self._build)

    def find(self) -> Path | None:
        return cache.find(self.name, self.version)

    def python(self) -> str:
        return self.program("bin/python")

    def requirements(self) -> Path:
        return HERE / "modules" / self.module / "requirements.txt"

    def _build(self, directory: Path) -> None:
        environment = clean_environment()
        say(f"installing {self.name} {self.version}")
        try:
            argv = [_PYTHON, "-m", "venv", "--prompt", self.name, str(directory)]
            run(argv, environment, timeout=120)
        except PeerError as error:
            raise PeerError(f"{error}\n{self.name}: no venv; run tools/deps.sh") from error
        # What comes as source only is built with the pinned setuptools, so that comes first.
        self._pip(directory, "-c", str(self.requirements()), "setuptools")
        self._pip(directory, "--no-build-isolation", "--use-pep517", "-r", str(self.requirements()))
        _move(directory, cache.entry(self.name, self.version))

    def _pip(self, directory: Path, *arguments: str) -> None:
        what = f"installing {self.name} {self.version}"
        log = directory / "pip.log"
        argv = [str(directory / "bin" / "python"), "-m", "pip", "install", "--no-deps"]
        argv += ["--disable-pip-version-check", "--progress-bar", "off", *arguments]
        for attempt in (1, 2, 3):
            if run_with_progress(
                what, ["nice", "-n", "5", *argv], log, clean_environment(), directory, _progress
            ):
                log.unlink()
                return
            if attempt == 3 or not _NETWORK_TROUBLE.search(tail(log)):
                raise PeerError(f"{what} failed; the end of its output:\n{tail(log)}")
            say(f"{what}: trying again after: {tail(log, 1)}")


def _move(built: Path, final: Path) -> None:
    """Prepares an environment for its renaming: the interpreter finds its packages from wherever
    it is, but the scripts beside it name it by its full path."""
    scripts = [path for path in (built / "bin").iterdir() if not path.is_symlink()]
    for path in [*scripts, built / "pyvenv.cfg"]:
        content = path.read_bytes()
        moved = content.replace(os.fsencode(built), os.fsencode(final))
        if moved != content:
            path.write_bytes(moved)  # in place, so that the mode stays


def _progress(log: str) -> str:
    return f"{log.count('Downloading ') + log.count('Using cached ')} packages downloaded"


def clean_environment() -> dict[str, str]:
    """Ours, without what would lead a Python elsewhere. Where packages come from stays."""
    strange = {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"}
    strange |= {"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_HASHES"}
    return {key: value for key, value in os.environ.items() if key not in strange}
