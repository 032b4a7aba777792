"""Jobs that cannot run: refused when they are created, or explained by a condition and an event. Run by paddlejob_faults_test.py
with a manager of their own, whose requests are counted."""

import time
import unittest

import shared
from cluster import Manager, job, wait_for

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}

# What admission refuses, and words of the message. (tests/data/validation.json has all rules; crd_test tries them.)
REFUSED = [
    ("no-roles", {}, "the job has no pods"),
    ("negative", {"worker": {"replicas": -1, "template": TEMPLATE}}, "replicas must be from 0 to 10000"),
    ("huge", {"worker": {"replicas": 2147483647, "template": TEMPLATE}}, "replicas must be from 0 to 10000"),
    ("no-containers", {"worker": {"replicas": 1, "template": {"spec": {"containers": []}}}}, "at least one container"),
    ("x" * 63, {"worker": {"replicas": 1, "template": TEMPLATE}}, "metadata.name is too long"),
    ("elastic", {"elastic": 1, "ps": {"replicas": 1, "template": TEMPLATE}}, "an elastic job needs spec.worker"),
    ("intranet", {"intranet": "Carrier", "worker": {"replicas": 1, "template": TEMPLATE}}, "intranet must be PodIP"),
]

# What only the controller can see: the event's reason, and words of its message.
EXPLAINED = [
    (job("no-set", workers=1, spec={"sampleSetRef": {"name": "nowhere", "mountPath": "/m"}}), "SampleSetNotFound", "nowhere"),
    (job("no-etcd", workers=2, spec={"elastic": 1}), "EtcdMissing", "--etcd-server"),
    (job("bad-pod", workers=2, pod={"containers": [{"name": "NOT VALID", "image": "i"}]}), "Refused", "containers[0].name"),
    (job("far-set", workers=1, spec={"sampleSetRef": {"name": "s", "namespace": "elsewhere", "mountPath": "/m"}}),
     "InvalidSpec", "claims of their own namespace"),
    (job("account", workers=1, pod={"serviceAccountName": "nobody", "containers": [{"name": "c", "image": "i"}]}),
     "Refused", "nobody"),
    (job("taken", workers=1), "NameTaken", "does not belong to this job"),
]


class BadInput(unittest.TestCase):
    def setUp(self):
        self.cluster = shared.cluster

    def test_refused_at_admission(self):
        ns = self.cluster.namespace("refused")
        for name, spec, words in REFUSED:
            body = job(name)
            body["spec"] = spec
            status, reply = self.cluster.request("POST", self.cluster.jobs(ns), body)
            self.assertEqual(status, 422, reply)
            self.assertIn(words, reply["message"])

    def test_explained_and_not_hammered(self):
        ns = self.cluster.namespace("explained")
        self.cluster.post(f"/api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": "taken"}})
        manager = Manager(self.cluster, f"--namespace={ns}").wait_ready()
        self.addCleanup(manager.stop)
        for body, _, _ in EXPLAINED:
            self.cluster.create(ns, body)
        self.cluster.create(ns, job("typo", workers=1, spec={"cleanPodPolicy": "Nerver"}))
        self.assertIn("acts as Never", self.cluster.wait_event(ns, "typo", "UnknownCleanPodPolicy"))
        self.cluster.wait_phase(ns, "typo", "Running")
        for body, reason, words in EXPLAINED:
            name = body["metadata"]["name"]
            self.assertIn(words, self.cluster.wait_event(ns, name, reason))
            status = self.cluster.wait_phase(ns, name, "Pending")["status"]
            self.assertTrue(any(c["status"] == "False" and words in c["message"] for c in status["conditions"]), status)
        self.bounded(manager)
        self.assertIsNone(manager.process.poll())
        # What was wrong can be put right. A change of the job is seen at once; otherwise it is tried again after some minutes.
        self.cluster.request("DELETE", f"/api/v1/namespaces/{ns}/configmaps/taken")
        self.cluster.edit(ns, "taken", {"backoffLimit": 1})
        self.cluster.edit(ns, "bad-pod", {"worker": {"replicas": 2, "template": TEMPLATE}})
        for name in ("taken", "bad-pod"):
            wait_for(lambda: self.cluster.status(ns, name).get("phase") == "Running", lambda: f"{name} runs: {self.cluster.status(ns, name)}")

    def bounded(self, manager):
        """A job that cannot run costs a few requests a minute, and fewer as time goes by."""
        time.sleep(20)  # the first retries follow each other quickly
        before, since = manager.requests(aside=("watch",)), time.monotonic()
        time.sleep(30)
        spent = {k: v - before.get(k, 0) for k, v in manager.requests(aside=("watch",)).items() if v != before.get(k, 0)}
        per_minute = sum(spent.values()) * 60 / (time.monotonic() - since)
        print(f"requests per minute for {len(EXPLAINED)} jobs that cannot run: {per_minute:.0f} {spent}", flush=True)
        self.assertLess(per_minute, 8 * len(EXPLAINED), spent)
