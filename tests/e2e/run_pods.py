#!/usr/bin/python3
"""Runs the pods of a job as processes of this machine, and tells in a line of JSON how they ended.

Reads JSON from standard input: a list of pods, or an object {"pods": [...], "events": [...]}.

A pod is {"name", "ip", "command", "env", and perhaps "peer", "service", "server", "restart"}:
  ip       a loopback address (127.0.0.2, ...); the pod's host name resolves to it
  env      what the operator gives to the container, all of it literal
  peer     whose Python is the image's: "paddle" or "paddle-ps"; without it, the machine's programs
  service  true: the pod's name resolves in all pods, as with a Service of that name
  server   true: the job does not wait for it; it is killed when the others are done
  restart  true: as with restartPolicy OnFailure, it is started again when it fails, after 0, 10,
           20, ... seconds; the answer counts the "restarts"

An event is {"when": {"pod": NAME, "log": REGEX}, "kill": NAME} (or "start", a killed pod anew): it
happens when that pod has printed that. Events happen in their order.

Every pod has PIDs, a host name, /etc/hosts and a working directory of its own; its log is what it
prints and what launchers write to ./log. All share one network, which is private to the job, or
with --network host the machine's own. A pod that fails ends the job. Exit status: 0 if all went
well.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import functools
import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
PEER = HERE.parent / "peers" / "peer"
INIT = HERE / "pod_init.py"

_LOG_LIMIT = 20_000  # characters of each pod's log that the answer carries
_POLL = 0.1
_BACK_OFF = 10.0  # seconds more before each further restart, as kubelet's (which doubles them)

_CLONE_NEWUSER, _CLONE_NEWNET, _PR_SET_PDEATHSIG = 0x10000000, 0x40000000, 1
_libc = ctypes.CDLL(None, use_errno=True)


class BadInput(Exception):
    """The message names the field and what it should be."""


@dataclasses.dataclass(frozen=True)
class Pod:
    name: str
    ip: str
    command: Sequence[str]
    env: Mapping[str, str]
    peer: str | None = None
    service: bool = False
    server: bool = False
    restart: bool = False

    @staticmethod
    def parse(value: Any) -> Pod:
        if not isinstance(value, dict):
            raise BadInput(f"a pod must be an object, not {value!r}")
        known = {field.name for field in dataclasses.fields(Pod)}
        for key in value:
            if key not in known:
                raise BadInput(f"pod {value.get('name')}: no field {key!r}")
        for key in ("name", "ip", "command", "env"):
            if key not in value:
                raise BadInput(f"pod {value.get('name')}: {key} is missing")
        pod = Pod(**value)
        pod._validate()
        return pod

    def _validate(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", str(self.name)):
            raise BadInput(f"pod name {self.name!r} is not a host name")
        try:
            loopback = ipaddress.ip_address(self.ip).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise BadInput(f"pod {self.name}: ip {self.ip!r} is not a loopback address")
        words = self.command
        if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
            raise BadInput(f"pod {self.name}: command must be a list of words")
        if not isinstance(self.env, dict) or not all(
            isinstance(value, str) for value in self.env.values()
        ):
            raise BadInput(f"pod {self.name}: the values of env must be text")


@dataclasses.dataclass(frozen=True)
class Event:
    pod: str
    log: re.Pattern[str]
    action: str  # kill or start
    target: str

    @staticmethod
    def parse(value: Any, names: set[str]) -> Event:
        try:
            (action,) = {"kill", "start"} & set(value)
            event = Event(
                value["when"]["pod"], re.compile(value["when"]["log"]), action, value[action]
            )
        except (TypeError, ValueError, KeyError, re.error) as error:
            raise BadInput(f"event {value!r}: {error}") from error
        for name in (event.pod, event.target):
            if name not in names:
                raise BadInput(f"event {value!r}: there is no pod {name!r}")
        return event


class Running:
    """A pod from its first start to its last end."""

    def __init__(self, pod: Pod, root: pathlib.Path, hosts: pathlib.Path) -> None:
        self.pod = pod
        self.restarts = 0
        self.state = ""  # running, waiting (for its restart), exited, killed (by an event), stopped
        self._root = root
        self._hosts = hosts
        self._directories: list[pathlib.Path] = []  # one for each time it was started
        self._restart_at = 0.0
        self.start()

    def start(self) -> None:
        self.end("killed")
        directory = self._root / f"{self.pod.name}.{len(self._directories)}"
        directory.mkdir()
        self._directories.append(directory)
        argv = ["/usr/bin/python3", "-IS", str(INIT), str(self._hosts), self.pod.name]
        with (directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [*argv, *self.pod.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**_image(self.pod, directory), **self.pod.env},
                preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
                start_new_session=True,
            )
        self.state = "running"

    def poll(self) -> None:
        if self.state == "running" and self._process.poll() is not None:
            self.state = "exited"
            if self.pod.restart and self._process.returncode != 0:
                self.state = "waiting"
                self._restart_at = time.monotonic() + _BACK_OFF * self.restarts
        if self.state == "waiting" and time.monotonic() >= self._restart_at:
            self.restarts += 1
            self.start()

    def alive(self) -> bool:
        return self.state in ("running", "waiting")

    def exit_code(self) -> int | None:
        """As Kubernetes tells it: 137 after SIGKILL. None if the pod was ended by us."""
        return self._process.returncode if self.state == "exited" else None

    def end(self, state: str) -> None:
        """Kills all of the pod's processes, and returns when they are gone."""
        if not self.alive():
            return
        self.state = state
        deadline = time.monotonic() + 5
        while self._process.poll() is None:
            # The kernel reports the end of the pod's first process when the others have ended.
            children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for child in children.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            if time.monotonic() > deadline:
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)

    def log(self) -> str:
        """What it printed, and what its launcher wrote for the training processes."""
        return "".join(
            file.read_text(errors="replace")
            for directory in self._directories
            for file in [directory / "output", *sorted(directory.glob("log/workerlog.*"))]
        )

    def describe(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "exit_code": self.exit_code(),
            "restarts": self.restarts,
            "log": self.log()[-_LOG_LIMIT:],
        }


def _image(pod: Pod, directory: pathlib.Path) -> dict[str, str]:
    """The environment that a container has without the operator."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if pod.peer is not None:
        path = f"{peer_path(pod.peer)}/bin:{path}"
    return {
        "PATH": path,
        "HOME": str(directory),
        "HOSTNAME": pod.name,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # The models are tiny and the machine is shared.
        "OMP_NUM_THREADS": "1",
    }


@functools.cache
def peer_path(name: str) -> str:
    """Where the peer is; it is got if it is not there."""
    subprocess.run([PEER, "get", name], check=True, stdout=sys.stderr)
    done = subprocess.run([PEER, "path", name], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


class Job:
    """Pods that run together. A context manager: leaving it kills what still runs, and deletes
    what they wrote."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self._pods = {pod.name: pod for pod in pods}
        self._root = pathlib.Path(tempfile.mkdtemp(prefix="paddle-operator-pods-"))
        self._running: dict[str, Running] = {}

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        shutil.rmtree(self._root, ignore_errors=True)

    def run(self, events: Sequence[Event], deadline: float) -> dict[str, Any]:
        """Runs the job to its end, or for `deadline` seconds."""
        started = time.monotonic()
        waiting = list(events)
        for pod in self._pods.values():
            self._running[pod.name] = Running(pod, self._root, self._hosts(pod))
        problem = None
        while problem is None and self._goes_on():
            time.sleep(_POLL)
            for running in self._running.values():
                running.poll()
            while waiting and waiting[0].log.search(self._running[waiting[0].pod].log()):
                self._happen(waiting.pop(0))
            problem = self._failure()
            if problem is None and time.monotonic() - started > deadline:
                problem = f"not done after {deadline:.0f} s"
        self._stop()
        if problem is None and waiting:
            problem = f"the log of {waiting[0].pod} never had {waiting[0].log.pattern!r}"
        return {
            "ok": problem is None,
            "problem": problem,
            "seconds": round(time.monotonic() - started, 1),
            "pods": {name: running.describe() for name, running in self._running.items()},
        }

    def _goes_on(self) -> bool:
        return any(running.alive() and not running.pod.server for running in self._running.values())

    def _happen(self, event: Event) -> None:
        target = self._running[event.target]
        if event.action == "start":
            target.start()
        else:
            target.end("killed")

    def _failure(self) -> str | None:
        for running in self._running.values():
            if running.exit_code() not in (None, 0):
                return f"{running.pod.name} failed with {running.exit_code()}"
            if running.state == "exited" and running.pod.server:
                return f"{running.pod.name} ended, but a server stays"
        return None

    def _stop(self) -> None:
        for running in self._running.values():
            running.end("stopped")

    def _hosts(self, pod: Pod) -> pathlib.Path:
        file = self._root / f"{pod.name}.hosts"
        lines = ["127.0.0.1 localhost", f"{pod.ip} {pod.name}"]
        lines += [
            f"{other.ip} {other.name}"
            for other in self._pods.values()
            if other.service and other.name != pod.name
        ]
        file.write_text("\n".join(lines) + "\n")
        return file


def become_root() -> None:
    """Without root's rights, takes them in a user namespace: mounts and host names need them."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        return
    _unshare(_CLONE_NEWUSER, "a user namespace")
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def enter_private_network() -> None:
    """Moves this process, and all that it will start, to a network with nothing but loopback."""
    become_root()
    _unshare(_CLONE_NEWNET, "a network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _unshare(flag: int, what: str) -> None:
    if _libc.unshare(flag) != 0:
        raise OSError(ctypes.get_errno(), f"cannot make {what}; pods need one")


def parse(text: str) -> tuple[list[Pod], list[Event]]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadInput(f"not JSON: {error}") from error
    if isinstance(value, list):
        value = {"pods": value}
    if not isinstance(value, dict) or not isinstance(value.get("pods"), list) or not value["pods"]:
        raise BadInput("expected a list of pods, or an object with one")
    pods = [Pod.parse(each) for each in value["pods"]]
    names = {pod.name for pod in pods}
    if len(names) != len(pods):
        raise BadInput("two pods have one name")
    return pods, [Event.parse(each, names) for each in value.get("events", [])]


def _interrupt(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--deadline", type=float, default=120, metavar="SECONDS")
    parser.add_argument("--network", choices=("private", "host"), default="private")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        pods, events = parse(sys.stdin.read())
    except BadInput as error:
        print(f"run_pods.py: {error}", file=sys.stderr)
        return 2
    for peer in {pod.peer for pod in pods if pod.peer is not None}:
        peer_path(peer)  # while there still is a network to get it from
    if options.network == "private":
        enter_private_network()
    else:
        become_root()
    with Job(pods) as job:
        result = job.run(events, options.deadline)
    print(json.dumps(result), flush=True)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
