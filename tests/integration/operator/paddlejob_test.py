"""The PaddleJob controller on a real API server, whose fake nodes (KWOK) run the pods: one manager for all namespaces, with
the rights that deploy/ gives it; cases side by side."""

import unittest

import behaviour_cases
import seed_cases
import shared
from cluster import ROOT, Cluster, Manager
from parallel import ParallelSuite

NODES = ("node-0", "node-1", "node-2")


def set_up():
    shared.cluster = Cluster("--controllers", "--kwok", "3")
    # The last two say who caches which part of a SampleSet, as its controller does before the set is Ready.
    labels = {"accelerator": NODES, "paddlepaddle.org/juicefs-imagenet": NODES[1:2],
              "paddlepaddle.org/juicefs-affine": NODES[::2]}
    values = {"accelerator": "nvidia-tesla-p100", "paddlepaddle.org/juicefs-imagenet": "imagenet-runtime-0",
              "paddlepaddle.org/juicefs-affine": "affine-runtime-0"}
    for key, nodes in labels.items():
        for node in nodes:
            shared.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {key: values[key]}}})
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
