"""Child processes that never outlive us, whichever way we end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from peerlib.base import PeerError, say, tail

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

_PROGRESS_EVERY = 15.0


def _die_with(parent: int) -> Callable[[], None]:
    def in_child() -> None:
        # The kernel kills the child when the thread that started it ends: start children from
        # the main thread only.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(1)

    return in_child


def spawn(
    argv: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a program in a process group of its own, with its output appended to `log`."""
    with log.open("ab") as output:
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                cwd=directory,
                preexec_fn=_die_with(os.getpid()),
                start_new_session=True,
            )
        except OSError as error:
            raise PeerError(f"cannot start {argv[0]}: {error.strerror}") from error


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def stop(process: subprocess.Popen[bytes], patience: float = 0.0) -> None:
    """Ends the whole group: politely for `patience` seconds, then by SIGKILL."""
    if process.poll() is None and patience > 0:
        process.terminate()
        signal_group(process, signal.SIGCONT)  # a paused process would not see SIGTERM
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    if process.poll() is None:
        signal_group(process, signal.SIGKILL)
        process.wait()


def run_with_progress(
    what: str,
    argv: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    directory: Path,
    progress: Callable[[str], str],
) -> bool:
    """Runs a long command, telling every 15 s that it lives; `progress` reads the log so far.

    Returns whether it succeeded.
    """
    started = time.monotonic()
    process = spawn(argv, log, environment, directory)
    try:
        while True:
            try:
                status = process.wait(_PROGRESS_EVERY)
                break
            except subprocess.TimeoutExpired:
                elapsed = time.monotonic() - started
                say(f"{what}: {elapsed:.0f} s, {progress(log.read_text(errors='replace'))}")
    finally:
        stop(process)
    if status == 0:
        say(f"{what}: done in {time.monotonic() - started:.0f} s")
    return status == 0


def run(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    timeout: float = 60.0,
    stdin: str | None = None,
) -> str:
    """Runs a short command and returns its output; a failure tells all that it printed."""
    try:
        done = subprocess.run(
            list(argv),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            env=None if environment is None else dict(environment),
            cwd=directory,
            timeout=timeout,
            preexec_fn=_die_with(os.getpid()),
        )
    except FileNotFoundError as error:
        raise PeerError(f"{argv[0]} is not installed: run tools/deps.sh") from error
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{' '.join(argv[:3])}: no end after {timeout:.0f} s") from error
    if done.returncode != 0:
        raise PeerError(
            f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}".rstrip()
        )
    return done.stdout


class Server:
    """One server of a session: a command to start (again), and how to see that it answers."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        patience: float = 15.0,
    ) -> None:
        self.name = name
        self._argv = list(argv)
        self._log = log
        self._ready = ready
        self._environment = environment
        self._directory = directory
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        if self.running():
            raise PeerError(f"{self.name} is already running")
        self._process = spawn(self._argv, self._log, self._environment, self._directory)

    def ready(self) -> bool:
        """Whether it answers. Raises PeerError if it has ended instead."""
        if self._process is None or self._process.poll() is not None:
            status = self._process.returncode if self._process else "nothing"
            raise PeerError(
                f"{self.name} ended with {status}; the end of its log:\n{tail(self._log)}"
            )
        return self._ready()

    def failure(self) -> str:
        return f"{self.name} does not answer; the end of its log:\n{tail(self._log)}"

    def stop(self) -> None:
        """Asks it to end, as an administrator would; it keeps its data."""
        self._end(self._patience)

    def kill(self) -> None:
        self._end(patience=0.0)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def died(self) -> int | None:
        """The exit status, once, if it ended without being told to."""
        if self._process is None or self._process.poll() is None:
            return None
        status = self._process.returncode
        self._process = None
        return status

    def _end(self, patience: float) -> None:
        if self._process:
            stop(self._process, patience)
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        if not self.running():
            raise PeerError(f"{self.name} is not running")
        assert self._process is not None
        signal_group(self._process, number)
