"""One `peer serve`: its servers, ports and data directory, and the commands that tests give it."""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import select
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from peerlib.base import START_TIMEOUT, PeerError, check, say
from peerlib.process import Server

# Below the range that the kernel takes ports for outgoing connections from, so that nobody gets
# the port of a server that a test has stopped and is about to start again.
_PORTS = range(20000, 32000)


class Session:
    """Servers that live and die together. A context manager: leaving it kills them all and deletes
    their data."""

    def __init__(self, name: str) -> None:
        self._root = Path(tempfile.gettempdir()) / f"paddle-operator-peers-{os.getuid()}"
        self._root.mkdir(mode=0o700, exist_ok=True)
        check(self._root.stat().st_uid == os.getuid(), f"{self._root} belongs to another user")
        self._sweep()
        identity = f"{name}-{secrets.token_hex(4)}"
        # The lock is taken before the directory is there: whoever sees an unlocked directory may
        # delete it.
        self._lock_path = self._root / f"{identity}.lock"
        self._lock = _try_lock(self._lock_path)
        self._port_locks: list[IO[str]] = []
        self._servers: dict[str, Server] = {}
        self.data = self._root / identity
        self.data.mkdir(mode=0o700)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        # Nothing of the data is wanted any more, so there is no reason to ask politely.
        for server in reversed(self._servers.values()):
            server.kill()
        shutil.rmtree(self.data, ignore_errors=True)
        self._lock_path.unlink(missing_ok=True)

    def free_port(self) -> int:
        """A port of 127.0.0.1 that is ours until the session ends, even while nothing listens."""
        ports = self._root / "ports"
        ports.mkdir(exist_ok=True)
        for port in random.sample(_PORTS, 200):
            lock = _try_lock(ports / str(port))
            if lock is None:
                continue
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    lock.close()
                    continue
            self._port_locks.append(lock)
            return port
        raise PeerError("found no free port on 127.0.0.1")

    def server(
        self,
        name: str,
        argv: Sequence[str],
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        patience: float = 15.0,
    ) -> Server:
        """Declares a server that works in the data directory; `start` runs it. Told to stop, it
        has `patience` seconds before it is killed."""
        log = self.data / f"{name}.log"
        self._servers[name] = Server(name, argv, log, ready, environment, self.data, patience)
        return self._servers[name]

    def start(self, *servers: Server) -> None:
        """Starts the servers side by side and returns when all of them answer."""
        for server in servers:
            server.launch()
        deadline = time.monotonic() + START_TIMEOUT
        for server in servers:
            while not server.ready():
                if time.monotonic() > deadline:
                    raise PeerError(server.failure())
                time.sleep(0.02)

    def describe(self) -> dict[str, Any]:
        return {
            "data_dir": str(self.data),
            "pids": {server.name: server.pid for server in self._servers.values()},
        }

    def obey(self, parent: list[int]) -> None:
        """Carries out the commands on standard input until it ends, or `parent` does."""
        unread = b""
        while True:
            # The timeout bounds how late a server that died by itself is reported.
            readable, _, _ = select.select([0, *parent], [], [], 1.0)
            self._report_deaths()
            if any(handle in readable for handle in parent):
                return
            if 0 in readable:
                read = os.read(0, 4096)
                if not read:
                    return
                *lines, unread = (unread + read).split(b"\n")
                for line in lines:
                    _answer(self._command(line.decode(errors="replace")))

    def _command(self, line: str) -> dict[str, Any]:
        try:
            verb, name = line.split()
        except ValueError:
            return {"ok": False, "error": f"expected VERB NAME, got: {line}"}
        server = self._servers.get(name)
        if server is None:
            return {
                "ok": False,
                "error": f"no server {name}; there are: {', '.join(self._servers)}",
            }
        verbs: dict[str, Callable[[], None]] = {
            "start": lambda: self.start(server),
            "stop": server.stop,
            "kill": server.kill,
            "pause": server.pause,
            "resume": server.resume,
        }
        if verb not in verbs:
            return {"ok": False, "error": f"no command {verb}; there are: {', '.join(verbs)}"}
        try:
            verbs[verb]()
        except PeerError as error:
            return {"ok": False, "error": str(error)}
        return {"ok": True}

    def _report_deaths(self) -> None:
        for server in self._servers.values():
            status = server.died()
            if status is not None:
                say(f"{server.name} ended by itself with {status}")

    def _sweep(self) -> None:
        """Deletes what sessions left that were killed by SIGKILL."""
        for directory in self._root.iterdir():
            lock_path = self._root / f"{directory.name}.lock"
            if directory.name == "ports" or not directory.is_dir() or not lock_path.exists():
                continue
            lock = _try_lock(lock_path)
            if lock is not None:
                shutil.rmtree(directory, ignore_errors=True)
                lock_path.unlink(missing_ok=True)
                lock.close()


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def serve(session: Session, start: Callable[[], dict[str, Any]]) -> None:
    """Starts, tells in one line of JSON how to reach what was started, and stays."""
    parent = _watch_parent()
    reached = start()
    try:
        _answer({**reached, **session.describe()})
        session.obey(parent)
    except BrokenPipeError:
        # Whoever asked is gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _watch_parent() -> list[int]:
    """A file descriptor that becomes readable when our parent ends, where there can be one: a
    parent outside of our container cannot be watched."""
    try:
        return [os.pidfd_open(os.getppid())]
    except OSError:
        return []


def _try_lock(path: Path) -> IO[str] | None:
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
