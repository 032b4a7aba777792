"""Where peers are kept, and how one gets there: whole, once, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from peerlib.base import say


def root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "paddle-operator" / "peers"


def entry(name: str, version: str) -> Path:
    return root() / f"{name}-{version}"


def find(name: str, version: str) -> Path | None:
    directory = entry(name, version)
    return directory if directory.is_dir() else None


def install(name: str, version: str, build: Callable[[Path], None]) -> Path:
    """Returns the entry; if there is none, has `build` fill an empty directory that becomes it.

    The directory gets its name only when `build` has returned. What an interrupted build leaves
    (at worst, after SIGKILL, a hidden directory) is removed at once or by the next call. A second
    caller waits for the first and finds its work done.
    """
    directory = entry(name, version)
    if directory.is_dir():
        return directory
    root().mkdir(parents=True, exist_ok=True)
    with _locked(root() / f".{name}-{version}.lock", f"{name} {version}"):
        if directory.is_dir():
            return directory
        unfinished = root() / f".{name}-{version}.unfinished"
        remove(unfinished)
        unfinished.mkdir()
        try:
            build(unfinished)
            unfinished.rename(directory)
        finally:
            remove(unfinished)
    return directory


def remove(directory: Path) -> None:
    """Deletes a tree, even one with read-only directories in it."""
    if not directory.exists():
        return
    for path, folders, _ in os.walk(directory):
        for folder in folders:
            inner = os.path.join(path, folder)
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path, what: str) -> Iterator[None]:
    # The file stays: deleting a lock that somebody waits for would let two callers in.
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{what}: waiting for another process that is getting it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
