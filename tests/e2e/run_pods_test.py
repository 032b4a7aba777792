#!/usr/bin/python3
"""Tests of run_pods.py itself, without Paddle."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any

RUN_PODS = pathlib.Path(__file__).resolve().parent / "run_pods.py"


def pod(name: str, script: str, last: int = 2, **fields: Any) -> dict[str, Any]:
    command = ["sh", "-c", script]
    return {"name": name, "ip": f"127.0.0.{last}", "env": {}, "command": command, **fields}


def processes(marker: str) -> list[str]:
    """The command lines that contain the marker."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if marker in line and "run_pods" not in line:
            found.append(line)
    return found


def eventually(condition: Callable[[], bool], timeout: float = 20.0) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class RunPodsTest(unittest.TestCase):
    def run_pods(self, value: Any, *arguments: str, status: int = 0) -> dict[str, Any]:
        done = subprocess.run(
            [RUN_PODS, *arguments], input=json.dumps(value), capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout) if done.stdout else {"error": done.stderr}

    def test_a_pod_sees_its_own_world(self) -> None:
        script = "echo $A on $(hostname) is $(getent hosts $(hostname)), $$ in ${PWD##*/}"
        result = self.run_pods([pod("one", script, env={"A": "value"})])
        self.assertEqual(result["pods"]["one"]["exit_code"], 0)
        self.assertIn("value on one is 127.0.0.2 ", result["pods"]["one"]["log"])
        self.assertIn(", 1 in one.0\n", result["pods"]["one"]["log"])

    def test_only_services_resolve_in_other_pods(self) -> None:
        script = "getent hosts one; getent hosts two; true"
        result = self.run_pods([pod("one", script, 2, service=True), pod("two", script, 3)])
        self.assertNotIn("127.0.0.3", result["pods"]["one"]["log"])
        self.assertIn("127.0.0.2", result["pods"]["two"]["log"])

    def test_a_failure_ends_the_job(self) -> None:
        result = self.run_pods(
            [pod("good", "sleep 1000", 2), pod("bad", "echo oh; exit 3", 3)], status=1
        )
        self.assertEqual(result["problem"], "bad failed with 3")
        self.assertEqual(result["pods"]["good"]["state"], "stopped")
        self.assertIsNone(result["pods"]["good"]["exit_code"])
        self.assertEqual(result["pods"]["bad"]["log"], "oh\n")

    def test_a_signal_is_a_failure(self) -> None:
        script = "import os; pid = os.fork(); pid or os.kill(os.getpid(), 9); "
        script += "exit(os.waitstatus_to_exitcode(os.wait()[1]) + 128 + 18)"
        command = ["/usr/bin/python3", "-c", script]
        result = self.run_pods([pod("one", "", command=command)], status=1)
        self.assertEqual(result["problem"], "one failed with 137")

    def test_a_command_that_is_not_there(self) -> None:
        result = self.run_pods([pod("one", "", command=["no-such-command"])], status=1)
        self.assertIn("cannot run no-such-command", result["pods"]["one"]["log"])

    def test_servers_are_not_waited_for(self) -> None:
        marker = f"10{os.getpid()}"
        server = f"setsid sleep {marker} & exec sleep {marker}"
        result = self.run_pods([pod("ps", server, 2, server=True), pod("worker", "true", 3)])
        self.assertEqual(result["pods"]["ps"]["state"], "stopped")
        self.assertEqual(processes(marker), [])

    def test_the_deadline_ends_everything(self) -> None:
        marker = f"20{os.getpid()}"
        script = f"setsid sh -c 'trap \"\" TERM; sleep {marker}' & exec sleep {marker}"
        result = self.run_pods([pod("one", script)], "--deadline", "0.5", status=1)
        self.assertIn("not done", result["problem"])
        self.assertEqual(processes(marker), [])

    def test_nothing_outlives_a_killed_harness(self) -> None:
        marker = f"30{os.getpid()}"
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        for number in (signal.SIGKILL, signal.SIGTERM):
            with subprocess.Popen(
                [RUN_PODS],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": temporary.name},
                text=True,
            ) as harness:
                harness.stdin.write(json.dumps([pod("one", f"setsid sleep {marker} & wait")]))
                harness.stdin.close()
                self.assertTrue(eventually(lambda: len(processes(marker)) > 1))
                harness.send_signal(number)
            self.assertTrue(eventually(lambda: not processes(marker)))

    def test_events_kill_and_start(self) -> None:
        def when(log: str, **action: str) -> dict[str, Any]:
            return {"when": {"pod": "goes", "log": log}, **action}

        result = self.run_pods(
            {
                "pods": [pod("stays", "sleep 1000", 2), pod("goes", "echo up; sleep 1000", 3)],
                "events": [
                    when("up", kill="goes"),
                    when("up", start="goes"),
                    when("up\nup", kill="stays"),
                    when("up\nup", kill="goes"),
                ],
            }
        )
        self.assertEqual(result["pods"]["goes"]["log"], "up\nup\n")
        self.assertEqual({each["state"] for each in result["pods"].values()}, {"killed"})

    def test_a_failed_pod_is_restarted_if_asked_for(self) -> None:
        script = "echo begin; [ -e ../mark ] || { touch ../mark; exit 1; }"
        result = self.run_pods([pod("one", script, restart=True)])
        self.assertEqual(
            result["pods"]["one"],
            {"state": "exited", "exit_code": 0, "restarts": 1, "log": "begin\nbegin\n"},
        )

    def test_an_event_that_never_happens_is_a_failure(self) -> None:
        event = {"when": {"pod": "one", "log": "never"}, "kill": "one"}
        result = self.run_pods({"pods": [pod("one", "true")], "events": [event]}, status=1)
        self.assertIn("never had 'never'", result["problem"])

    def test_two_jobs_may_use_the_same_port(self) -> None:
        listen = "import socket, time; s = socket.create_server(('127.0.0.2', 2379)); time.sleep(1)"
        command = ["/usr/bin/python3", "-c", listen]
        jobs = [
            subprocess.Popen([RUN_PODS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for job in jobs:
            job.stdin.write(json.dumps([pod("one", "", command=command)]))
            job.stdin.flush()
        for job in jobs:
            output, _ = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, output)

    def test_bad_input_is_named(self) -> None:
        good = pod("one", "true")
        for value, message in [
            ("text", "expected a list"),
            ([], "expected a list"),
            ([{"name": "one"}], "ip is missing"),
            ([{**good, "ip": "10.0.0.1"}], "not a loopback address"),
            ([{**good, "name": "One"}], "not a host name"),
            ([{**good, "command": "true"}], "command must be"),
            ([{**good, "env": {"A": 1}}], "must be text"),
            ([{**good, "color": "red"}], "no field 'color'"),
            ([good, good], "one name"),
            ({"pods": [good], "events": [{"kill": "one"}]}, "event"),
            ({"pods": [good], "events": [
                {"when": {"pod": "two", "log": "x"}, "kill": "one"}]}, "no pod 'two'"),
        ]:  # fmt: skip
            with self.subTest(message):
                self.assertIn(message, self.run_pods(value, status=2)["error"])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
