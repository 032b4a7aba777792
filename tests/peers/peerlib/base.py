"""What every peer is, and the errors and small helpers that all share."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerlib.session import Session

HERE = Path(__file__).resolve().parent.parent
REPOSITORY = HERE.parent.parent

# Long, because a build or other tests may share the machine; a server that dies is noticed at once.
START_TIMEOUT = 120.0


class PeerError(Exception):
    """Something a user can act on: the message says what and how. Ends the program with 1."""


class Interrupted(BaseException):
    """SIGTERM, SIGINT or SIGHUP came. Not an Exception: only clean-up may stop on its way."""


class Peer:
    """A program that tests run against. A subclass says how to get it and how to start it."""

    name = ""
    version = ""
    group = "test"  # `peer get all` gets the group "test" only
    requires: tuple[str, ...] = ()  # peers without which this one cannot be served

    def get(self) -> None:
        """Makes the peer available, or raises PeerError. Quick when it already is."""
        raise NotImplementedError

    def find(self) -> Path | None:
        """The directory that holds the programs, or None if the peer is not there."""
        raise NotImplementedError

    def directory(self) -> Path:
        found = self.find()
        if found is None:
            raise PeerError(
                f"{self.name} {self.version} is not there: run {HERE / 'peer'} get {self.name}"
            )
        return found

    def program(self, name: str) -> str:
        return str(self.directory() / name)

    def found_version(self) -> str:
        """The exact version where `version` is only the least one that will do."""
        return self.version

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declares what `peer serve NAME` accepts."""

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        """Starts the servers and returns what a client needs once they answer."""
        raise PeerError(f"{self.name} is a program, not a server: use `peer path {self.name}`")

    def smoke(self) -> None:
        """Talks to the peer with a client that is not ours; raises PeerError if that fails."""
        raise NotImplementedError

    def default_options(self, *arguments: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        self.add_options(parser)
        return parser.parse_args(arguments)


def say(message: str) -> None:
    """Progress for people. Standard output belongs to the answers that programs read."""
    print(f"peers: {message}", file=sys.stderr, flush=True)


def wait_until(condition: Callable[[], bool], what: str, timeout: float = START_TIMEOUT) -> None:
    """Polls until `condition` holds. The condition may raise PeerError to give up early."""
    deadline = time.monotonic() + timeout
    pause = 0.01
    while not condition():
        if time.monotonic() > deadline:
            raise PeerError(f"{what}: not after {timeout:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def check(condition: bool, message: str) -> None:
    if not condition:
        raise PeerError(message)


def loopback_environment() -> dict[str, str]:
    """The environment for clients of loopback servers: no proxy, no user's own configuration."""
    environment = {
        key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")
    }
    environment.pop("KUBECONFIG", None)
    environment["NO_PROXY"] = "*"
    return environment


def tail(path: Path, lines: int = 30) -> str:
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"
