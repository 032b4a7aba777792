"""The PaddleJob controller on a real API server, whose fake nodes (KWOK) run the pods: one manager for all namespaces, with
the rights that deploy/ gives it; cases side by side."""

import unittest

import behaviour_cases
import seed_cases
import shared
from cluster import ROOT, Cluster, Manager
from parallel import ParallelSuite


def set_up():
    shared.cluster = Cluster("--controllers", "--kwok", "3")
    for node in shared.cluster.info["nodes"]:
        shared.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"accelerator": "nvidia-tesla-p100"}}})
    for manifest in ("v1/operator.yaml", "extensions/controllers.yaml", "elastic/etcd.yaml"):
        shared.cluster.kubectl("apply", "-f", ROOT / "deploy" / manifest)
    shared.identity = shared.cluster.kubeconfig_of("paddle-system", "paddle-controller-manager")
    shared.manager = Manager(shared.cluster, "--leader-elect", kubeconfig=shared.identity.name).wait_ready()


def tear_down():
    try:
        if shared.manager:
            code = shared.manager.stop()
            shared.identity.close()
            assert code == 0, f"the manager ended with {code}"
    finally:
        if shared.cluster:
            shared.cluster.close()


def load_tests(loader, _, __):
    cases = [loader.loadTestsFromModule(module) for module in (behaviour_cases, seed_cases)]
    return ParallelSuite(cases, set_up, tear_down)


if __name__ == "__main__":
    unittest.main()
