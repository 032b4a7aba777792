#!/usr/bin/python3
"""Real Paddle processes train in the environment that a PaddleJob's pods get."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

import run_pods  # noqa: E402
from paddle_environment import Elastic, Job, environment  # noqa: E402

TRAINERS = HERE.parent / "data" / "trainers"
STARTERS = {
    "python": ["python"],
    "launch": ["python", "-m", "paddle.distributed.launch"],
    "fleet.launch": ["python", "-m", "paddle.distributed.fleet.launch"],
}


def setUpModule() -> None:
    for peer in ("paddle", "paddle-ps"):
        run_pods.peer_path(peer)
    # The ports of a job are fixed, and the machine may be running another one.
    run_pods.enter_private_network()


class PaddleTest(unittest.TestCase):
    def run_job(
        self,
        job: Job,
        command: list[str],
        peer: str = "paddle",
        events: list[Any] | None = None,
        image: dict[str, str] | None = None,
        deadline: float = 180,
    ) -> dict[str, Any]:
        """Runs the pods of the job, which must succeed."""
        pods = [
            {
                "name": pod.name(job),
                "ip": pod.ip(),
                "env": {**(image or {}), **environment(job, pod)},
                "command": command,
                "peer": peer,
                "service": job.intranet == "Service",
                "server": pod.role == "ps",
                "restart": job.elastic is not None,
            }
            for pod in job.pods()
        ]
        # Through JSON, as others hand their pods over.
        parsed = run_pods.parse(json.dumps({"pods": pods, "events": events or []}))
        with run_pods.Job(parsed[0]) as running:
            result = running.run(parsed[1], deadline)
        print(f"{self.id()}: {result['seconds']} s", file=sys.stderr)
        logs = "".join(
            f"\n--- {name}: {pod['state']} {pod['exit_code']}\n{pod['log'][-3000:]}"
            for name, pod in result["pods"].items()
        )
        self.assertTrue(result["ok"], f"{result['problem']}{logs}")
        return result

    def results(self, job: Job, result: dict[str, Any]) -> list[dict[str, Any]]:
        """What each worker told at its end, in the order of the pods."""
        told = []
        for pod in job.pods():
            if pod.role == "worker":
                log = result["pods"][pod.name(job)]["log"]
                lines = set(re.findall(r"^RESULT (.*)$", log, re.MULTILINE))
                self.assertEqual(len(lines), 1, log)
                told.append(json.loads(lines.pop()))
        return told


class CollectiveTest(PaddleTest):
    def train(self, workers: int, intranet: str, starter: str, **options: Any) -> None:
        job = Job("job", workers=workers, intranet=intranet, **options)
        script = [str(TRAINERS / "collective.py"), "--world", str(workers)]
        told = self.results(job, self.run_job(job, [*STARTERS[starter], *script]))
        # A pod's rank is its index: the data beside a worker is what its rank will read.
        self.assertEqual([each["rank"] for each in told], list(range(workers)))
        self.assertEqual({each["world"] for each in told}, {workers})
        for each in told:
            self.assertEqual(each["weights"], told[0]["weights"])

    def test_one_worker(self) -> None:
        self.train(1, "PodIP", "python")

    def test_host_mode_uses_the_ports_of_the_job(self) -> None:
        self.train(2, "Host", "python", port=20100)


def _add_collective_tests() -> None:
    for intranet in ("PodIP", "Service"):
        for starter in STARTERS:
            for workers in (2, 3):
                name = f"test_{workers}_workers_by_{starter.replace('.', '_')}_{intranet.lower()}"

                def test(
                    self: CollectiveTest,
                    workers: int = workers,
                    intranet: str = intranet,
                    starter: str = starter,
                ) -> None:
                    self.train(workers, intranet, starter)

                setattr(CollectiveTest, name, test)


_add_collective_tests()


class ParameterServerTest(PaddleTest):
    def train(self, gloo: int, intranet: str = "PodIP", **options: Any) -> None:
        job = Job("job", workers=2, servers=2, gloo=gloo, intranet=intranet, **options)
        script = ["python", str(TRAINERS / "parameter_server.py")]
        result = self.run_job(job, script, peer="paddle-ps")
        told = self.results(job, result)
        self.assertEqual([each["rank"] for each in told], [0, 1])
        self.assertEqual({(each["world"], each["servers"]) for each in told}, {(2, 2)})
        if gloo:
            # Without it a worker may begin before the first one has set the parameters, and then
            # learns nothing.
            for each in told:
                self.assertLess(each["last"], each["first"])
        for index in (0, 1):
            # They never end by themselves: a job is complete when its workers are.
            self.assertEqual(result["pods"][f"job-ps-{index}"]["state"], "stopped")

    def test_without_gloo(self) -> None:
        self.train(gloo=0)

    def test_gloo_among_workers_by_names(self) -> None:
        self.train(gloo=1, intranet="Service")

    def test_gloo_among_all_in_host_mode(self) -> None:
        self.train(gloo=2, intranet="Host", port=20100)


class ElasticTest(PaddleTest):
    def setUp(self) -> None:
        self.etcd = subprocess.Popen(
            [run_pods.PEER, "serve", "etcd"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.etcd.communicate, timeout=30)
        reached = json.loads(self.etcd.stdout.readline())
        self.endpoint = reached["url"].removeprefix("http://")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.state = pathlib.Path(temporary.name)

    def test_goes_on_without_a_lost_worker_and_takes_it_back(self) -> None:
        job = Job("job", workers=2, elastic=Elastic(self.endpoint, 1, 2, timeout=10))
        script = [str(TRAINERS / "elastic.py"), "--state", str(self.state), "--last-world", "2"]

        def when(log: str, **action: str) -> dict[str, Any]:
            return {"when": {"pod": "job-worker-0", "log": log}, **action}

        result = self.run_job(
            job,
            [*STARTERS["launch"], *script, "--steps", "5"],
            # What the image must bring for etcd3 with a protobuf of today.
            image={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
            events=[
                when("STEP [1-9] world 2", kill="job-worker-1"),
                when("STEP [0-9]+ world 1", start="job-worker-1"),
            ],
            deadline=400,
        )
        for told in self.results(job, result):
            self.assertEqual(told["world"], 2)
        lines = (self.state / "history").read_text().splitlines()
        history = [tuple(map(int, line.split())) for line in lines]
        steps = [step for step, _ in history]
        self.assertEqual(steps, sorted(set(steps)), "no step is made twice")
        worlds = [world for world, _ in itertools.groupby(world for _, world in history)]
        self.assertEqual(worlds, [2, 1, 2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
