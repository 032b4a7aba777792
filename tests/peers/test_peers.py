#!/usr/bin/python3
"""Tests of `peer` itself: it leaves nothing half made, and nothing running."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

from peerlib import golang  # noqa: E402

PEER = str(HERE / "peer")


def eventually(condition: Callable[[], bool], timeout: float = 20.0) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has reaped yet does not."""
    try:
        return (
            pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        )
    except (FileNotFoundError, ProcessLookupError):
        return False


class Served:
    """A `peer serve` as a test uses it."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [PEER, "serve", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.reached = self._answer()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def command(self, line: str) -> dict[str, Any]:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def gone(self) -> bool:
        """Whether neither the servers nor their data are left."""
        pids = self.reached["pids"].values()
        return not any(map(alive, pids)) and not os.path.exists(self.reached["data_dir"])

    def redis(self, *words: str) -> str:
        argv = ["redis-cli", "-h", self.reached["host"], "-p", str(self.reached["port"]), *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=20).stdout.strip()

    def _answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        assert line, f"peer serve ended with {self.process.wait(20)}"
        return json.loads(line)


class ServeTest(unittest.TestCase):
    def test_stops_when_standard_input_ends(self) -> None:
        served = Served("redis")
        self.assertEqual(served.redis("PING"), "PONG")
        with served:
            pass
        self.assertEqual(served.process.returncode, 0)
        self.assertTrue(served.gone())

    def test_stops_on_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), Served("redis") as served:
                served.process.send_signal(number)
                self.assertEqual(served.process.wait(20), 0)
                self.assertTrue(served.gone())

    def test_stops_when_its_parent_is_gone(self) -> None:
        # The parent's standard input is ours, so that no end of it tells `peer` anything.
        script = f"import os, subprocess; subprocess.Popen(['{PEER}', 'serve', 'redis']); input()"
        parent = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with parent:
            reached = json.loads(parent.stdout.readline())
            parent.kill()
            parent.wait()
            self.assertTrue(eventually(lambda: not alive(reached["pids"]["redis"])))
            self.assertTrue(eventually(lambda: not os.path.exists(reached["data_dir"])))

    def test_servers_die_with_a_killed_peer(self) -> None:
        with Served("redis") as served:
            served.command("pause redis")  # not even a stopped one may stay
            served.process.kill()
            served.process.wait()
            self.assertTrue(eventually(lambda: not alive(served.reached["pids"]["redis"])))
            self.assertTrue(os.path.exists(served.reached["data_dir"]))
        with Served("redis"):
            self.assertFalse(
                os.path.exists(served.reached["data_dir"]), "the next session sweeps up"
            )

    def test_two_at_once_share_nothing(self) -> None:
        with Served("redis") as one, Served("redis") as two:
            self.assertNotEqual(one.reached["port"], two.reached["port"])
            self.assertNotEqual(one.reached["data_dir"], two.reached["data_dir"])
            one.redis("SET", "key", "one")
            self.assertEqual(two.redis("GET", "key"), "")

    def test_stop_and_start_keep_port_and_data(self) -> None:
        with Served("redis") as served:
            served.redis("SET", "key", "value")
            self.assertEqual(served.command("stop redis"), {"ok": True})
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection((served.reached["host"], served.reached["port"]))
            self.assertEqual(served.command("start redis"), {"ok": True})
            self.assertEqual(served.redis("GET", "key"), "value")

    def test_kill_and_start_keep_what_was_appended(self) -> None:
        with Served("redis", "--appendonly") as served:
            served.redis("SET", "key", "value")
            self.assertEqual(served.command("kill redis"), {"ok": True})
            self.assertEqual(served.command("start redis"), {"ok": True})
            self.assertEqual(served.redis("GET", "key"), "value")

    def test_pause_and_resume(self) -> None:
        with Served("redis") as served:
            self.assertEqual(served.command("pause redis"), {"ok": True})
            with socket.create_connection(
                (served.reached["host"], served.reached["port"])
            ) as client:
                client.sendall(b"PING\r\n")
                client.settimeout(0.3)
                with self.assertRaises(TimeoutError):
                    client.recv(100)
                self.assertEqual(served.command("resume redis"), {"ok": True})
                client.settimeout(20)
                self.assertEqual(client.recv(100), b"+PONG\r\n")

    def test_wrong_commands_are_answered(self) -> None:
        with Served("redis") as served:
            for line in ("", "stop", "stop nobody", "praise redis", "start redis"):
                self.assertFalse(served.command(line)["ok"], line)
            self.assertEqual(served.redis("PING"), "PONG")

    def test_a_server_that_cannot_start_shows_its_log(self) -> None:
        done = subprocess.run(
            [PEER, "serve", "redis", "--config", "no-such-option 1"],
            stdin=subprocess.PIPE, capture_output=True, text=True, timeout=20,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertIn("no-such-option", done.stderr)


class GetTest(unittest.TestCase):
    """With a cache of its own; the peer is a real one, which takes long enough to interrupt."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.cache = pathlib.Path(temporary.name) / "paddle-operator" / "peers"
        self.environment = {**os.environ, "XDG_CACHE_HOME": temporary.name}
        # The same Go, and its own cache: only the cache of peers is empty.
        go = golang.find_go()
        go_cache = subprocess.run(
            [go, "env", "GOCACHE"], capture_output=True, text=True, check=True
        )
        self.environment["GOCACHE"] = go_cache.stdout.strip()
        self.environment["PATH"] = f"{pathlib.Path(go).parent}:{os.environ['PATH']}"

    def start_get(self) -> subprocess.Popen[str]:
        """A `peer get minio` that has begun to build."""
        process = subprocess.Popen(
            [PEER, "get", "minio"], env=self.environment, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stderr.close)
        for line in process.stderr:
            if "building" in line:
                break
        self.assertTrue(eventually(lambda: bool(self.builders(process.pid))))
        return process

    def builders(self, parent: int) -> list[int]:
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children")
        return [int(pid) for pid in children.read_text().split()]

    def entries(self) -> list[str]:
        return [path.name for path in self.cache.iterdir() if not path.name.endswith(".lock")]

    def test_a_terminated_get_leaves_nothing(self) -> None:
        process = self.start_get()
        builders = self.builders(process.pid)
        process.terminate()
        self.assertEqual(process.wait(20), 128 + signal.SIGTERM)
        self.assertEqual(self.entries(), [])
        self.assertFalse(any(map(alive, builders)))

    def test_a_killed_get_leaves_no_peer(self) -> None:
        process = self.start_get()
        builders = self.builders(process.pid)
        process.kill()
        process.wait()
        self.assertTrue(eventually(lambda: not any(map(alive, builders))))
        path = subprocess.run(
            [PEER, "path", "minio"], env=self.environment, capture_output=True, text=True
        )
        self.assertEqual(path.returncode, 1)
        self.assertIn("get minio", path.stderr)
        self.assertTrue(all(name.endswith(".unfinished") for name in self.entries()))

        again = self.start_get()  # the lock is free, and what was left is swept away
        again.terminate()
        again.wait(20)
        self.assertEqual(self.entries(), [])

    def test_a_python_peer_works_in_its_final_place(self) -> None:
        # Nothing but the pinned setuptools, so that little is downloaded.
        script = (
            f"import pathlib, sys; sys.path.insert(0, {str(HERE)!r})\n"
            "from peerlib.python import PythonPeer\n"
            "class Thing(PythonPeer):\n"
            "    name, version = 'thing', 'v1'\n"
            "    def requirements(self):\n"
            "        return pathlib.Path(sys.argv[1])\n"
            "thing = Thing()\n"
            "assert thing.find() is None\n"
            "thing.get()\n"
            "print(thing.program('bin/pip'))\n"
        )
        pinned = (HERE / "modules" / "paddle" / "requirements.txt").read_text()
        requirements = self.cache.parent.parent / "requirements.txt"
        requirements.write_text(re.search(r"^setuptools==\S+$", pinned, re.MULTILINE)[0])
        argv = [sys.executable, "-B", "-c", script, str(requirements)]
        done = subprocess.run(
            argv, env=self.environment, stdout=subprocess.PIPE, text=True, check=True
        )
        self.assertEqual(self.entries(), ["thing-v1"])
        pip = done.stdout.strip()
        listed = subprocess.run(
            [pip, "list", "--format=freeze"], capture_output=True, text=True, check=True
        )
        self.assertIn(requirements.read_text(), listed.stdout.split())
        where = subprocess.run([pip, "--version"], capture_output=True, text=True, check=True)
        self.assertIn(str(self.cache / "thing-v1"), where.stdout)
        unfinished = subprocess.run(
            ["grep", "-rlI", "unfinished", str(self.cache / "thing-v1" / "bin")],
            capture_output=True, text=True,
        )  # fmt: skip
        self.assertEqual(unfinished.stdout, "")

    def test_two_at_once_build_once(self) -> None:
        script = (
            f"import sys, time; sys.path.insert(0, {str(HERE)!r})\n"
            "from peerlib import cache\n"
            "def build(directory):\n"
            "    print('built', flush=True)\n"
            "    time.sleep(0.5)\n"
            "    (directory / 'program').touch()\n"
            "assert (cache.install('thing', 'v1', build) / 'program').exists()\n"
        )
        argv = [sys.executable, "-B", "-c", script]
        both = [
            subprocess.Popen(
                argv,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for _ in range(2)
        ]
        outputs = [process.communicate(timeout=20)[0] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0])
        self.assertEqual("".join(outputs), "built\n")
        self.assertEqual(self.entries(), ["thing-v1"])

    def test_a_failed_build_leaves_nothing(self) -> None:
        script = (
            f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
            "from peerlib import cache\n"
            "def build(directory):\n"
            "    (directory / 'half').touch()\n"
            "    raise RuntimeError('out of luck')\n"
            "cache.install('thing', 'v1', build)\n"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", script],
            env=self.environment,
            capture_output=True,
            text=True,
        )
        self.assertIn("out of luck", done.stderr)
        self.assertEqual(self.entries(), [])


if __name__ == "__main__":
    unittest.main()
