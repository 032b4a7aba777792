"""The CRDs on a real API server: they install with client-side apply, and refuse what the C++ rules refuse."""

import json
import unittest

from cluster import DATA, ROOT, Cluster, wait_for

VERSIONS = {"PaddleJob": ("v1", "paddlejobs"), "SampleSet": ("v1alpha1", "samplesets"), "SampleJob": ("v1alpha1", "samplejobs")}


def path(kind):
    version, plural = VERSIONS[kind]
    return f"/apis/batch.paddlepaddle.org/{version}/namespaces/default/{plural}"


def make(kind, name, spec):
    return {"apiVersion": f"batch.paddlepaddle.org/{VERSIONS[kind][0]}", "kind": kind,
            "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class Crds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.cases = json.loads((DATA / "validation.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def test_client_side_apply_twice(self):
        for _ in range(2):
            self.cluster.kubectl("delete", "crd", "--all", "--wait")
            self.cluster.kubectl("apply", "-f", ROOT / "deploy/v1/crd.yaml")
        again = self.cluster.kubectl("apply", "-f", ROOT / "deploy/v1/crd.yaml")
        self.assertEqual(again.count("unchanged"), 3, again)
        for kind in VERSIONS:
            wait_for(lambda: self.cluster.get(path(kind)), f"{kind} is served")

    def test_rules_refuse_what_they_should(self):
        for case in self.cases["create"]:
            with self.subTest(case["case"]):
                status, reply = self.cluster.request(
                    "POST", path(case["kind"]) + "?dryRun=All&fieldValidation=Strict",
                    make(case["kind"], case["name"], case["spec"]))
                self.assertEqual(status, 422 if case["refused"] else 201, reply)
                for message in case["refused"]:
                    self.assertIn(message, reply["message"])

    def test_rules_about_changes(self):
        for number, case in enumerate(self.cases["update"]):
            with self.subTest(case["case"]):
                name = f"s{number}"
                where = path(case["kind"])
                status, reply = self.cluster.request("POST", where, make(case["kind"], name, case["before"]))
                self.assertEqual(status, 201, reply)
                if case["phase"]:
                    self.cluster.request("PATCH", f"{where}/{name}/status", {"status": {"phase": case["phase"]}},
                                         "application/merge-patch+json")
                now = self.cluster.get(f"{where}/{name}")
                now["spec"] = case["after"]
                status, reply = self.cluster.request("PUT", f"{where}/{name}", now)
                self.assertEqual(status, 422 if case["refused"] else 200, reply)
                for message in case["refused"]:
                    self.assertIn(message, reply["message"])

    def test_seeds_are_accepted_by_kubectl(self):
        self.cluster.kubectl("create", "namespace", "paddle-system", check=False)
        for name in ("ps-demo", "wide-and-deep", "resnet", "wide-and-deep-gpu", "data-demo", "nfs", "sampleset"):
            with self.subTest(name):
                self.cluster.kubectl("apply", "--dry-run=server", "-f", DATA / f"seeds-{name}.yaml")

    def test_the_short_name(self):
        self.assertIn("No resources found", self.cluster.kubectl("get", "pdj", check=False).stderr)


if __name__ == "__main__":
    unittest.main()
