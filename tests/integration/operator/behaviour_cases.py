"""What the PaddleJob controller promises, seen from outside; run by paddlejob_test.py. Each case has a namespace of its own."""

import json
import unittest

import shared
from cluster import job, wait_for


class Behaviour(unittest.TestCase):
    def setUp(self):
        self.cluster = shared.cluster
        self.ns = self.cluster.namespace(self._testMethodName.removeprefix("test_").replace("_", "-")[:50])

    def create(self, body):
        self.cluster.create(self.ns, body)

    def pods(self):
        return self.cluster.pods(self.ns)

    def uids(self):
        return {pod["metadata"]["uid"] for pod in self.pods().values()}

    def running(self, name, **more):
        return self.cluster.wait_phase(self.ns, name, "Running", **more)

    def test_j11_scaling_restarts_the_gang_with_new_addresses(self):
        self.create(job("scale", workers=2))
        self.running("scale")
        self.cluster.edit(self.ns, "scale", {"worker": {"replicas": 3}})
        self.running("scale", gang=1)
        addresses = [p["status"]["podIP"] for _, p in sorted(self.pods().items())]
        self.assertEqual(len(addresses), 3)
        self.assertEqual(self.cluster.config_map(self.ns, "scale")["PADDLE_TRAINERS"].split(","), addresses)
        self.cluster.edit(self.ns, "scale", {"worker": {"replicas": 1}})
        job_now = self.running("scale", gang=2)
        self.assertEqual(sorted(self.pods()), ["scale-worker-0"])
        self.assertEqual(job_now["status"]["mode"], "Single")
        self.assertEqual(job_now["status"]["observedGeneration"], job_now["metadata"]["generation"])

    def test_j20_failed_workers_restart_within_the_limit(self):
        self.create(job("again", workers=2, spec={"backoffLimit": 1}))
        self.running("again")
        first = self.uids()
        self.cluster.set_pod(self.ns, "again-worker-1", "Failed", 3)
        self.running("again", failures=1, gang=1)
        self.assertEqual(len(self.uids()), 2)
        self.assertFalse(first & self.uids(), "all pods are new")
        self.cluster.set_pod(self.ns, "again-worker-0", "Failed", 4)
        status = self.cluster.wait_phase(self.ns, "again", "Failed")["status"]
        self.assertIn("backoffLimit of 1 is used up", json.dumps(status["conditions"]))
        self.assertIn("completionTime", status)
        self.assertIn("exited with 4", self.cluster.wait_event(self.ns, "again", "PodFailed"))

    def test_a_lost_pod_is_made_again(self):
        self.create(job("lost", workers=2))
        self.running("lost")
        self.cluster.request("DELETE", f"/api/v1/namespaces/{self.ns}/pods/lost-worker-0")
        self.assertNotIn("failures", self.running("lost", gang=1)["status"])

    def test_in_service_mode_a_lost_pod_is_replaced_alone(self):
        self.create(job("lost", workers=2, spec={"intranet": "Service"}))
        self.running("lost")
        kept = self.pods()["lost-worker-1"]["metadata"]["uid"]
        gone = self.pods()["lost-worker-0"]["metadata"]["uid"]
        self.cluster.request("DELETE", f"/api/v1/namespaces/{self.ns}/pods/lost-worker-0")
        wait_for(lambda: self.uids() - {kept, gone} and len(self.uids()) == 2, "another worker 0")
        self.running("lost")
        self.assertIn(kept, self.uids())

    def test_j23_services_follow_scaling(self):
        self.create(job("names", workers=3, spec={"intranet": "Service"}))
        self.running("names")
        self.assertEqual(len(self.cluster.services(self.ns)), 3)
        self.cluster.edit(self.ns, "names", {"worker": {"replicas": 1}})
        wait_for(lambda: sorted(self.cluster.services(self.ns)) == ["names-worker-0"], "one service is left")

    def test_suspend_and_resume(self):
        self.create(job("pause", workers=1, spec={"suspend": True}))
        self.cluster.wait_phase(self.ns, "pause", "Suspended")
        self.assertFalse(self.pods())
        self.cluster.edit(self.ns, "pause", {"suspend": False})
        self.running("pause")
        self.cluster.edit(self.ns, "pause", {"suspend": True})
        self.cluster.wait_phase(self.ns, "pause", "Suspended")
        wait_for(lambda: not self.pods(), "pods are removed")

    def test_deadline_and_ttl(self):
        self.create(job("late", workers=1, spec={"activeDeadlineSeconds": 4, "ttlSecondsAfterFinished": 3}))
        wait_for(lambda: "DeadlineExceeded" in self.cluster.events(self.ns, "late"), "the deadline is missed")
        wait_for(lambda: self.cluster.job(self.ns, "late") is None, "the job expires")
        wait_for(lambda: not self.pods(), "and takes its pods along")

    def test_clean_pod_policies(self):
        ends = {"Failed": ("Always", "OnFailure"), "Succeeded": ("Always", "OnCompletion")}
        policies = ("Always", "Never", "OnFailure", "OnCompletion")
        for end in ends:
            for policy in policies:
                self.create(job(f"{end}-{policy}".lower(), ps=1, workers=1, spec={"cleanPodPolicy": policy}))
        for end, cleaning in ends.items():
            for policy in policies:
                name = f"{end}-{policy}".lower()
                self.running(name)
                self.cluster.set_pod(self.ns, f"{name}-worker-0", end, 1 if end == "Failed" else 0)
        for end, cleaning in ends.items():
            for policy in policies:
                name = f"{end}-{policy}".lower()
                self.cluster.wait_phase(self.ns, name, "Failed" if end == "Failed" else "Completed")
                if policy in cleaning:
                    wait_for(lambda: not self.cluster.pods(self.ns, name), f"{name}: pods are removed")
        left = {name.rsplit("-", 2)[0] for name in self.pods()}
        self.assertEqual(left, {f"{end}-{policy}".lower() for end, cleaning in ends.items()
                                for policy in policies if policy not in cleaning})

    def test_j2_j22_host_mode(self):
        for name in ("host-a", "host-b"):
            self.create(job(name, ps=2, workers=3, spec={"intranet": "Host"}))
        blocks = set()
        for name in ("host-a", "host-b"):
            self.running(name)
            data = self.cluster.config_map(self.ns, name)
            endpoints = (data["PADDLE_PSERVERS_IP_PORT_LIST"] + "," + data["PADDLE_TRAINER_ENDPOINTS"]).split(",")
            self.assertEqual(len(set(endpoints)), 5, "no two pods share an address and a port")
            mine = set(self.cluster.job(self.ns, name)["metadata"]["annotations"]["paddlepaddle.org/host-ports"].split(","))
            self.assertFalse(mine & blocks, "no two jobs share a block")
            blocks |= mine

    def test_j14_a_deleted_job_leaves_nothing(self):
        self.create(job("gone", ps=2, workers=2, spec={"intranet": "Service"}))
        wait_for(self.pods, "pods")
        self.cluster.request("DELETE", self.cluster.jobs(self.ns, "gone"))
        wait_for(lambda: self.cluster.job(self.ns, "gone") is None, "the job is gone")
        wait_for(lambda: not self.pods() and not self.cluster.services(self.ns)
                 and self.cluster.config_map(self.ns, "gone") is None, "its objects are gone")

    def test_j4_cache_affinity_keeps_the_users_own(self):
        self.cluster.post(f"/apis/batch.paddlepaddle.org/v1alpha1/namespaces/{self.ns}/samplesets", {
            "apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": "SampleSet", "metadata": {"name": "affine"},
            "spec": {"partitions": 1, "noSync": True, "secretRef": {"name": "s"}}})
        self.cluster.patch(f"/apis/batch.paddlepaddle.org/v1alpha1/namespaces/{self.ns}/samplesets/affine/status",
                           {"status": {"phase": "Ready"}})
        for node in ("node-0", "node-2"):
            self.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {
                "paddlepaddle.org/juicefs-affine": "affine-runtime-0"}}})
        own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1", "node-2"]}]}]}}}
        self.create(job("both", workers=1, spec={"sampleSetRef": {"name": "affine", "mountPath": "/m"}},
                        pod={"containers": [{"name": "c", "image": "i"}], "affinity": own}))
        pod = wait_for(lambda: self.pods().get("both-worker-0"), "the worker")
        (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        self.assertEqual([e["key"] for e in term["matchExpressions"]],
                         ["kubernetes.io/hostname", "paddlepaddle.org/juicefs-affine"])

    def test_managers_need_no_privileges(self):
        restricted = self.cluster.namespace("restricted", **{"pod-security.kubernetes.io/enforce": "restricted"})
        for kind in self.cluster.get("/apis/apps/v1/namespaces/paddle-system/deployments")["items"]:
            template = kind["spec"]["template"]
            template["spec"].pop("serviceAccountName", None)
            template["spec"].pop("serviceAccount", None)
            template["metadata"]["name"] = kind["metadata"]["name"]
            status, reply = self.cluster.request("POST", f"/api/v1/namespaces/{restricted}/pods?dryRun=All", template)
            self.assertEqual(status, 201, reply)

    def test_a_foreign_object_of_the_same_name_is_left_alone(self):
        self.cluster.post(f"/api/v1/namespaces/{self.ns}/configmaps", {"metadata": {"name": "taken"}, "data": {"a": "b"}})
        self.create(job("taken", workers=1))
        self.assertIn("ConfigMap taken exists and does not belong to this job",
                      self.cluster.wait_event(self.ns, "taken", "NameTaken"))
        self.assertEqual(self.cluster.config_map(self.ns, "taken"), {"a": "b"})

    def test_fields_that_the_operator_does_not_know_survive(self):
        pod = {"containers": [{"name": "c", "image": "i", "startupProbe": {"tcpSocket": {"port": 1}}}],
               "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                                              "whenUnsatisfiable": "ScheduleAnyway"}],
               "priority": 0, "runtimeClassName": None, "readinessGates": [{"conditionType": "example.com/ready"}]}
        self.create(job("kept", workers=1, pod=pod))
        made = wait_for(lambda: self.pods().get("kept-worker-0"), "the worker")["spec"]
        self.assertEqual(made["containers"][0]["startupProbe"]["tcpSocket"], {"port": 1})
        self.assertEqual(made["topologySpreadConstraints"], pod["topologySpreadConstraints"])
        self.assertEqual(made["readinessGates"], pod["readinessGates"])
