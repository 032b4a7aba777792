"""The PaddleJob controller on a real API server, whose fake nodes (KWOK) run the pods: one manager for all namespaces,
cases side by side."""

import unittest

import behaviour_cases
import seed_cases
import shared
from cluster import Cluster, Manager
from parallel import ParallelSuite


def set_up():
    shared.cluster = Cluster("--controllers", "--kwok", "3")
    for node in shared.cluster.info["nodes"]:
        shared.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"accelerator": "nvidia-tesla-p100"}}})
    shared.manager = Manager(shared.cluster, "--leader-elect").wait_ready()


def tear_down():
    try:
        if shared.manager:
            code = shared.manager.stop()
            assert code == 0, f"the manager ended with {code}"
    finally:
        if shared.cluster:
            shared.cluster.close()


def load_tests(loader, _, __):
    cases = [loader.loadTestsFromModule(module) for module in (behaviour_cases, seed_cases)]
    return ParallelSuite(cases, set_up, tear_down)


if __name__ == "__main__":
    unittest.main()
