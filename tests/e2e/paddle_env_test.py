#!/usr/bin/python3
"""Real Paddle processes train in the environment that the operator gives to a PaddleJob's pods.

All jobs are first handed to the operator on a real API server; then their pods run here.
"""

from __future__ import annotations

import dataclasses
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
from operator_pods import Operator  # noqa: E402
from parallel import ParallelSuite  # noqa: E402

TRAINERS = HERE.parent / "data" / "trainers"
STARTERS = {
    "python": ["python"],
    "launch": ["python", "-m", "paddle.distributed.launch"],
    "fleet": ["python", "-m", "paddle.distributed.fleet.launch"],
}


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    command: list[str]
    workers: int
    servers: int = 0
    image: dict[str, str] = dataclasses.field(default_factory=dict)  # environment it brings
    spec: dict[str, Any] = dataclasses.field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        env = [{"name": name, "value": value} for name, value in self.image.items()]
        container = {"name": "paddle", "image": "paddle", "command": self.command, "env": env}
        template = {"spec": {"containers": [container]}}
        spec = dict(self.spec)
        for role, replicas in (("ps", self.servers), ("worker", self.workers)):
            if replicas:
                spec[role] = {"replicas": replicas, "template": template}
        return {
            "apiVersion": "batch.paddlepaddle.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": self.name},
            "spec": spec,
        }


class World:
    """What setUpModule finds out, for all tests."""

    jobs: dict[str, Job] = {}
    pods: dict[str, list[dict[str, Any]]] = {}
    etcd: subprocess.Popen[str] | None = None
    state: tempfile.TemporaryDirectory[str] | None = None


def _collective(name: str, workers: int, starter: str, intranet: str) -> Job:
    script = [str(TRAINERS / "collective.py"), "--world", str(workers)]
    return Job(name, [*STARTERS[starter], *script], workers, spec={"intranet": intranet})


def _parameter_server(name: str, gloo: int, intranet: str) -> Job:
    command = ["python", str(TRAINERS / "parameter_server.py")]
    return Job(name, command, 2, servers=2, spec={"intranet": intranet, "withGloo": gloo})


def _elastic(name: str, state: str) -> Job:
    script = [str(TRAINERS / "elastic.py"), "--state", state, "--last-world", "2", "--steps", "5"]
    image = {
        # What the image must bring for etcd3 with a protobuf of today.
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
        "PADDLE_ELASTIC_TIMEOUT": "10",
    }
    return Job(name, [*STARTERS["launch"], *script], 2, image=image, spec={"elastic": 1})


def _all_jobs(state: str) -> list[Job]:
    jobs = [
        _collective(f"c{workers}-{starter}-{intranet.lower()}", workers, starter, intranet)
        for intranet in ("PodIP", "Service")
        for starter in STARTERS
        for workers in (2, 3)
    ]
    jobs += [
        _collective("c1", 1, "python", "PodIP"),
        _collective("c2-launch-host", 2, "launch", "Host"),
        _parameter_server("ps-gloo0", 0, "PodIP"),
        _parameter_server("ps-gloo1", 1, "Service"),
        _parameter_server("ps-gloo2", 2, "Host"),
        _elastic("elastic", state),
    ]
    return jobs


def set_up() -> None:
    for peer in ("paddle", "paddle-ps", "kube", "kwok", "kubectl"):
        run_pods.peer_path(peer)
    # The ports of a job are fixed, and the machine may be running another one.
    run_pods.enter_private_network()
    World.state = tempfile.TemporaryDirectory()
    World.etcd = subprocess.Popen(
        [run_pods.PEER, "serve", "etcd"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert World.etcd.stdout is not None
    etcd = json.loads(World.etcd.stdout.readline())["url"].removeprefix("http://")
    jobs = _all_jobs(World.state.name)
    with Operator(f"--etcd-server={etcd}") as operator:
        for job in jobs:
            operator.submit(job.manifest())
        for number, job in enumerate(jobs, start=1):
            World.jobs[job.name] = job
            World.pods[job.name] = operator.pods(job.name, number)


def tear_down() -> None:
    if World.etcd is not None:
        World.etcd.communicate(timeout=60)
    if World.state is not None:
        World.state.cleanup()


class PaddleTest(unittest.TestCase):
    def run_job(
        self,
        name: str,
        peer: str = "paddle",
        events: list[Any] | None = None,
        network: str = "private",
    ) -> dict[str, Any]:
        """Runs the pods of the job, which must succeed."""
        pods = [{**pod, "peer": peer} for pod in World.pods[name]]
        done = subprocess.run(
            [HERE / "run_pods.py", "--deadline", "400", "--network", network],
            input=json.dumps({"pods": pods, "events": events or []}),
            stdout=subprocess.PIPE,
            text=True,
            timeout=450,
        )
        result: dict[str, Any] = json.loads(done.stdout)
        print(f"{name}: {result['seconds']} s", file=sys.stderr)
        logs = "".join(
            f"\n--- {pod_name}: {pod['state']} {pod['exit_code']}\n{pod['log'][-3000:]}"
            for pod_name, pod in result["pods"].items()
        )
        self.assertTrue(result["ok"], f"{result['problem']}{logs}")
        return result

    def results(self, name: str, result: dict[str, Any]) -> list[dict[str, Any]]:
        """What each worker told at its end, in the order of the pods."""
        told = []
        for index in range(World.jobs[name].workers):
            log = result["pods"][f"{name}-worker-{index}"]["log"]
            lines = set(re.findall(r"^RESULT (.*)$", log, re.MULTILINE))
            self.assertEqual(len(lines), 1, log)
            told.append(json.loads(lines.pop()))
        return told


class ElasticTest(PaddleTest):
    def test_goes_on_without_a_lost_worker_and_takes_it_back(self) -> None:
        def when(log: str, **action: str) -> dict[str, Any]:
            return {"when": {"pod": "elastic-worker-0", "log": log}, **action}

        result = self.run_job(
            "elastic",
            events=[
                when("STEP [1-9] world 2", kill="elastic-worker-1"),
                when("STEP [0-9]+ world 1", start="elastic-worker-1"),
            ],
            network="host",  # where etcd is
        )
        for told in self.results("elastic", result):
            self.assertEqual(told["world"], 2)
        assert World.state is not None
        lines = (pathlib.Path(World.state.name) / "history").read_text().splitlines()
        history = [tuple(map(int, line.split())) for line in lines]
        steps = [step for step, _ in history]
        self.assertEqual(steps, sorted(set(steps)), "no step is made twice")
        worlds = [world for world, _ in itertools.groupby(world for _, world in history)]
        self.assertEqual(worlds, [2, 1, 2])


class CollectiveTest(PaddleTest):
    def train(self, name: str) -> None:
        told = self.results(name, self.run_job(name))
        workers = World.jobs[name].workers
        # A pod's rank is its index: the data beside a worker is what its rank will read.
        self.assertEqual([each["rank"] for each in told], list(range(workers)))
        self.assertEqual({each["world"] for each in told}, {workers})
        for each in told:
            self.assertEqual(each["weights"], told[0]["weights"])

    def test_one_worker(self) -> None:
        self.train("c1")

    def test_two_workers_on_hosts(self) -> None:
        self.train("c2-launch-host")


def _add_collective_tests() -> None:
    for intranet in ("podip", "service"):
        for starter in STARTERS:
            for workers in (2, 3):
                name = f"c{workers}-{starter}-{intranet}"

                def test(self: CollectiveTest, name: str = name) -> None:
                    self.train(name)

                setattr(CollectiveTest, f"test_{workers}_workers_by_{starter}_{intranet}", test)


_add_collective_tests()


class ParameterServerTest(PaddleTest):
    def train(self, gloo: int) -> None:
        name = f"ps-gloo{gloo}"
        result = self.run_job(name, peer="paddle-ps")
        told = self.results(name, result)
        self.assertEqual([each["rank"] for each in told], [0, 1])
        self.assertEqual({(each["world"], each["servers"]) for each in told}, {(2, 2)})
        if gloo:
            # Without it a worker may begin before the first one has set the parameters, and then
            # learns nothing.
            for each in told:
                self.assertLess(each["last"], each["first"])
        for index in (0, 1):
            # They never end by themselves: a job is complete when its workers are.
            self.assertEqual(result["pods"][f"{name}-ps-{index}"]["state"], "stopped")

    def test_without_gloo(self) -> None:
        self.train(gloo=0)

    def test_gloo_among_workers_by_names(self) -> None:
        self.train(gloo=1)

    def test_gloo_among_all_in_host_mode(self) -> None:
        self.train(gloo=2)


class Trainings(ParallelSuite):
    threads = 2  # the elastic job mostly waits


def load_tests(loader: unittest.TestLoader, _: Any, __: Any) -> unittest.BaseTestSuite:
    # The longest first.
    cases = (ElasticTest, CollectiveTest, ParameterServerTest)
    return Trainings([loader.loadTestsFromTestCase(case) for case in cases], set_up, tear_down)


if __name__ == "__main__":
    unittest.main(verbosity=2)
