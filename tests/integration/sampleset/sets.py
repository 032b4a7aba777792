"""Sets, jobs and Secrets as objects, and what the tests beside this file do with them on a cluster."""

import base64
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "operator"))

from cluster import wait_for  # noqa: E402

NS = "paddle-system"
SETS = "/apis/batch.paddlepaddle.org/v1alpha1/namespaces/{}/samplesets/{}"
JOBS = "/apis/batch.paddlepaddle.org/v1alpha1/namespaces/{}/samplejobs/{}"
PATHS = {"Secret": "/api/v1/namespaces/{}/secrets/{}", "SampleSet": SETS, "SampleJob": JOBS,
         "PaddleJob": "/apis/batch.paddlepaddle.org/v1/namespaces/{}/paddlejobs/{}"}


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def secret(name, ns, /, **values):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": ns}, "type": "Opaque",
            "data": {key.replace("_", "-"): encoded(value) for key, value in values.items()}}


def sample_set(name, ns=NS, **spec):
    spec = {"secretRef": {"name": name}, "source": {"uri": "bos://b.bj.bcebos.com/p"}, **spec}
    return {"apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": "SampleSet",
            "metadata": {"name": name, "namespace": ns}, "spec": spec}


def sample_job(name, kind, target, ns=NS, **spec):
    return {"apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": "SampleJob",
            "metadata": {"name": name, "namespace": ns},
            "spec": {"type": kind, "sampleSetRef": {"name": target}, **spec}}


class SetHelpers(unittest.TestCase):
    """A case with a cluster. Every wait only bounds failure, on a machine that may be busy."""

    cluster = None

    def create(self, *objects):
        for body in objects:
            meta = body["metadata"]
            self.cluster.post(PATHS[body["kind"]].format(meta["namespace"], "").rstrip("/"), body)

    def change(self, body, patch):
        meta = body["metadata"]
        self.cluster.patch(PATHS[body["kind"]].format(meta["namespace"], meta["name"]), patch)

    def set(self, name, ns=NS):
        return self.cluster.get(SETS.format(ns, name))

    def job(self, name, ns=NS):
        return self.cluster.get(JOBS.format(ns, name))

    def status_of(self, what, name, ns=NS):
        return ((self.set if what == "sampleset" else self.job)(name, ns) or {}).get("status", {})

    def wait_phase(self, what, name, *phases, ns=NS, seconds=240):
        """Its status, once it is in one of the phases."""
        def reached():
            status = self.status_of(what, name, ns)
            return status if status.get("phase") in phases else None
        return wait_for(reached, lambda: f"{what} {name} is {phases}: {self.described(what, name, ns)}", seconds)

    def described(self, what, name, ns=NS):
        """For a failure: what is known of it."""
        return (json.dumps(self.status_of(what, name, ns), indent=1) + "\n"
                + json.dumps(self.cluster.events(ns, name), indent=1))

    def condition(self, what, name, kind, ns=NS):
        for condition in self.status_of(what, name, ns).get("conditions", []):
            if condition["type"] == kind:
                return condition
        return {}

    def rows(self, *args):
        lines = self.cluster.kubectl(*args).splitlines()
        return re.split(r"  +", lines[0].strip()), [re.split(r"  +", line.strip()) for line in lines[1:]]

    def delete(self, kind, name, ns=NS):
        """And waits until it is gone."""
        path = PATHS[kind].format(ns, name)
        self.cluster.request("DELETE", path)
        wait_for(lambda: self.cluster.request("GET", path)[0] == 404, lambda: f"{kind} {name} is gone: " + (
            self.described(kind.lower(), name, ns) if kind != "Secret" else ""))

    def drop(self, *names, ns=NS):
        """Sets, and the Secrets of their volumes."""
        for name in names:
            self.delete("SampleSet", name, ns)
            self.delete("Secret", name, ns)
