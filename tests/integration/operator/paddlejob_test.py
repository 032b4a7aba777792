"""The PaddleJob controller on a real API server; KWOK's nodes run the pods."""

import json
import re
import signal
import time
import unittest

from cluster import DATA, Cluster, Manager, job, wait_for

NS = "paddlecloud"


class PaddleJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--controllers", "--kwok", "3")
        for ns in (NS, "paddle-system"):
            cls.cluster.namespace(ns)
        cls.cluster.kubectl("label", "node", "--all", "accelerator=nvidia-tesla-p100")
        cls.manager = Manager(cls.cluster, "--leader-elect").wait_ready()

    @classmethod
    def tearDownClass(cls):
        code = cls.manager.stop()
        cls.cluster.close()
        assert code == 0, code

    def setUp(self):
        self.addCleanup(lambda: self.cluster.kubectl("delete", "pdj", "--all", "-A", "--wait=false"))

    def create(self, body):
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def tearDown(self):
        self.cluster.kubectl("delete", "pdj", "--all", "-A")
        wait_for(lambda: not self.cluster.pods(NS) and not self.cluster.pods("default"), "pods are gone")

    def printed(self, ns):
        """Rows of `kubectl get pdj`, without the age."""
        lines = self.cluster.kubectl("-n", ns, "get", "pdj").splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "STATUS", "MODE", "AGE"])
        rows = [line.split() for line in lines[1:]]
        for row in rows:
            self.assertRegex(row[3], r"^[0-9]+[smh]")
        return [row[:3] for row in rows]

    # --- the YAML that users have ---

    def test_e7_ps_demo(self):
        self.cluster.kubectl("apply", "-f", DATA / "seeds-ps-demo.yaml")
        waiting = wait_for(lambda: (self.cluster.job("paddle-system", "ps-demo") or {}).get("status"), "a status")
        self.assertEqual(waiting["phase"], "Pending")
        self.assertIn("SampleSetNotFound", wait_for(lambda: self.cluster.events("paddle-system", "ps-demo"), "an event"))
        self.cluster.kubectl("apply", "-f", DATA / "seeds-sampleset.yaml")
        self.cluster.request("PATCH", "/apis/batch.paddlepaddle.org/v1alpha1/namespaces/paddle-system/samplesets/imagenet/status",
                             {"status": {"phase": "Ready"}}, "application/merge-patch+json")
        self.cluster.kubectl("label", "node", "node-1", "paddlepaddle.org/juicefs-imagenet=imagenet-runtime-0")
        # The claim is the SampleSet controller's business.
        self.cluster.request("POST", "/api/v1/persistentvolumes", {
            "metadata": {"name": "imagenet"}, "spec": {
                "accessModes": ["ReadWriteMany"], "capacity": {"storage": "10Pi"}, "storageClassName": "paddle-operator",
                "csi": {"driver": "csi.samplefs.paddlepaddle.org", "volumeHandle": "x"}}})
        self.cluster.request("POST", "/api/v1/namespaces/paddle-system/persistentvolumeclaims", {
            "metadata": {"name": "imagenet"}, "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "paddle-operator", "volumeName": "imagenet",
                "resources": {"requests": {"storage": "10Pi"}}}})
        self.cluster.wait_phase("paddle-system", "ps-demo", "Running")
        self.assertEqual(self.printed("paddle-system"), [["ps-demo", "Running", "PS"]])
        worker = self.cluster.pods("paddle-system")["ps-demo-worker-0"]
        self.assertEqual(worker["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], "/mnt/imagenet")
        self.cluster.kubectl("delete", "sampleset", "imagenet", "-n", "paddle-system")

    def test_e8_wide_and_deep(self):
        self.cluster.kubectl("-n", NS, "apply", "-f", DATA / "seeds-wide-and-deep.yaml")
        self.cluster.wait_phase(NS, "wide-ande-deep", "Running")
        self.assertEqual(self.printed(NS), [["wide-ande-deep", "Running", "PS"]])
        data = self.cluster.get(f"/api/v1/namespaces/{NS}/configmaps/wide-ande-deep")["data"]
        self.assertEqual(data["PADDLE_WITH_GLOO"], "1")
        self.assertRegex(data["PADDLE_GLOO_HTTP_ENDPOINT"], r"^[0-9.]+:2397$")
        for i in range(2):
            self.cluster.set_pod(NS, f"wide-ande-deep-worker-{i}", "Succeeded")
        self.cluster.wait_phase(NS, "wide-ande-deep", "Completed")
        self.assertEqual(self.printed(NS), [["wide-ande-deep", "Completed", "PS"]])
        time.sleep(1)
        self.assertEqual(len(self.cluster.pods(NS)), 4, "Never keeps them")

    def test_e9_resnet(self):
        self.cluster.kubectl("-n", NS, "apply", "-f", DATA / "seeds-resnet.yaml")
        self.cluster.wait_phase(NS, "resnet", "Running")
        self.assertEqual(self.printed(NS), [["resnet", "Running", "Collective"]])
        pod = self.cluster.pods(NS)["resnet-worker-1"]
        self.assertIn("dshm", [v["name"] for v in pod["spec"]["volumes"]])
        self.assertEqual(pod["spec"]["containers"][0]["args"][1], "paddle.distributed.launch")

    def test_e10_services_and_node_selector(self):
        self.cluster.kubectl("-n", NS, "apply", "-f", DATA / "seeds-wide-and-deep-gpu.yaml")
        self.cluster.wait_phase(NS, "wide-ande-deep", "Running")
        services = self.cluster.get(f"/api/v1/namespaces/{NS}/services")["items"]
        self.assertEqual(sorted(s["metadata"]["name"] for s in services),
                         [f"wide-ande-deep-{r}-{i}" for r in ("ps", "worker") for i in range(2)])
        self.assertEqual(len(services[0]["spec"]["ports"]), 20)
        pods = self.cluster.pods(NS)
        self.assertEqual(pods["wide-ande-deep-worker-0"]["spec"]["restartPolicy"], "OnFailure")
        self.assertEqual(pods["wide-ande-deep-ps-0"]["spec"]["restartPolicy"], "Never")
        self.assertEqual(pods["wide-ande-deep-ps-0"]["spec"]["nodeSelector"], {"accelerator": "nvidia-tesla-p100"})
        for i in range(2):
            self.cluster.set_pod(NS, f"wide-ande-deep-worker-{i}", "Succeeded")
        self.cluster.wait_phase(NS, "wide-ande-deep", "Completed")
        wait_for(lambda: not self.cluster.pods(NS), "OnCompletion removes the pods")
        wait_for(lambda: not self.cluster.get(f"/api/v1/namespaces/{NS}/services")["items"], "and the services")

    def test_e12_e13_external_data(self):
        self.cluster.kubectl("-n", NS, "apply", "-f", DATA / "seeds-nfs.yaml")
        self.cluster.kubectl("-n", NS, "apply", "-f", DATA / "seeds-data-demo.yaml")
        self.cluster.wait_phase(NS, "paddlejob-demo-1", "Running")
        for pod in self.cluster.pods(NS).values():
            self.assertIn("nfs-pvc", [v.get("persistentVolumeClaim", {}).get("claimName") for v in pod["spec"]["volumes"]])
        for i in range(2):
            self.cluster.set_pod(NS, f"paddlejob-demo-1-worker-{i}", "Succeeded")
        self.cluster.wait_phase(NS, "paddlejob-demo-1", "Completed")
        wait_for(lambda: not self.cluster.pods(NS), "cleanPolicy is OnCompletion")
        self.cluster.kubectl("-n", NS, "delete", "-f", DATA / "seeds-nfs.yaml")

    # --- what the controller promises ---

    def test_requests_are_few_and_none_when_idle(self):
        before = self.manager.requests()
        self.create(job("few", NS, workers=4))
        self.cluster.wait_phase(NS, "few", "Running")
        wait_for(lambda: self.cluster.job(NS, "few")["status"]["worker"].get("running") == 4, "counters")
        time.sleep(3)  # counters and events come a little later
        after = self.manager.requests()
        spent = {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}
        self.assertLessEqual(sum(spent.values()), 10, spent)
        time.sleep(10)
        self.assertEqual(self.manager.requests(), after, "an idle manager asks for nothing")

    def test_scaling_restarts_the_gang_with_new_addresses(self):
        self.create(job("scale", NS, workers=2))
        self.cluster.wait_phase(NS, "scale", "Running")
        self.cluster.kubectl("-n", NS, "patch", "pdj", "scale", "--type=merge", "-p", '{"spec":{"worker":{"replicas":3}}}')
        wait_for(lambda: len(self.cluster.pods(NS)) == 3 and self.cluster.job(NS, "scale")["status"]["phase"] == "Running"
                 and self.cluster.job(NS, "scale")["status"]["gang"] == 1, "three workers run")
        data = wait_for(lambda: self.cluster.get(f"/api/v1/namespaces/{NS}/configmaps/scale"), "the ConfigMap")["data"]
        addresses = [p["status"]["podIP"] for _, p in sorted(self.cluster.pods(NS).items())]
        self.assertEqual(data["PADDLE_TRAINERS"].split(","), addresses)
        self.cluster.kubectl("-n", NS, "patch", "pdj", "scale", "--type=merge", "-p", '{"spec":{"worker":{"replicas":1}}}')
        wait_for(lambda: len(self.cluster.pods(NS)) == 1 and self.cluster.job(NS, "scale")["status"]["phase"] == "Running",
                 "one worker runs")

    def test_failed_workers_restart_within_the_limit(self):
        self.create(job("again", NS, workers=2, spec={"backoffLimit": 1}))
        self.cluster.wait_phase(NS, "again", "Running")
        first = {n: p["metadata"]["uid"] for n, p in self.cluster.pods(NS).items()}
        self.cluster.set_pod(NS, "again-worker-1", "Failed", 3)
        wait_for(lambda: self.cluster.job(NS, "again")["status"].get("failures") == 1, "the failure counts")
        wait_for(lambda: len(self.cluster.pods(NS)) == 2
                 and not set(first.values()) & {p["metadata"]["uid"] for p in self.cluster.pods(NS).values()}, "new pods")
        self.cluster.wait_phase(NS, "again", "Running")
        self.cluster.set_pod(NS, "again-worker-0", "Failed", 4)
        status = self.cluster.wait_phase(NS, "again", "Failed")["status"]
        self.assertIn("backoffLimit of 1 is used up", json.dumps(status["conditions"]))
        self.assertIn("completionTime", status)
        self.assertIn("exited with 4", wait_for(lambda: self.cluster.events(NS, "again").get("PodFailed"), "an event"))

    def test_a_lost_pod_is_made_again(self):
        self.create(job("lost", NS, workers=2))
        self.cluster.wait_phase(NS, "lost", "Running")
        self.cluster.kubectl("-n", NS, "delete", "pod", "lost-worker-0")
        wait_for(lambda: self.cluster.job(NS, "lost")["status"].get("gang") == 1
                 and self.cluster.job(NS, "lost")["status"]["phase"] == "Running", "the gang runs again")
        self.assertNotIn("failures", self.cluster.job(NS, "lost")["status"])

    def test_suspend_deadline_and_ttl(self):
        self.create(job("pause", NS, workers=1, spec={"suspend": True}))
        self.cluster.wait_phase(NS, "pause", "Suspended")
        self.assertFalse(self.cluster.pods(NS))
        self.cluster.kubectl("-n", NS, "patch", "pdj", "pause", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        self.cluster.wait_phase(NS, "pause", "Running")
        self.create(job("late", NS, workers=1, spec={"activeDeadlineSeconds": 4, "ttlSecondsAfterFinished": 3}))
        self.cluster.wait_phase(NS, "late", "Failed")
        wait_for(lambda: self.cluster.job(NS, "late") is None, "the job expires")

    def test_host_mode(self):
        for name in ("host-a", "host-b"):
            self.create(job(name, NS, ps=2, workers=3, spec={"intranet": "Host"}))
        blocks = set()
        for name in ("host-a", "host-b"):
            self.cluster.wait_phase(NS, name, "Running")
            data = wait_for(lambda: self.cluster.get(f"/api/v1/namespaces/{NS}/configmaps/{name}"), "the ConfigMap")["data"]
            endpoints = (data["PADDLE_PSERVERS_IP_PORT_LIST"] + "," + data["PADDLE_TRAINER_ENDPOINTS"]).split(",")
            self.assertEqual(len(set(endpoints)), 5, "no two pods share an address and a port")
            mine = set(self.cluster.job(NS, name)["metadata"]["annotations"]["paddlepaddle.org/host-ports"].split(","))
            self.assertFalse(mine & blocks, "no two jobs share a block")
            blocks |= mine

    def test_a_foreign_object_of_the_same_name_is_left_alone(self):
        self.cluster.request("POST", f"/api/v1/namespaces/{NS}/configmaps", {"metadata": {"name": "taken"}, "data": {"a": "b"}})
        self.create(job("taken", NS, workers=1))
        reason = wait_for(lambda: self.cluster.events(NS, "taken").get("NameTaken"), "an event")
        self.assertIn("ConfigMap taken exists and does not belong to this job", reason)
        self.assertEqual(self.cluster.get(f"/api/v1/namespaces/{NS}/configmaps/taken")["data"], {"a": "b"})
        self.cluster.request("DELETE", f"/api/v1/namespaces/{NS}/configmaps/taken")

    def test_a_refused_pod_is_explained_and_not_hammered(self):
        self.create(job("bad", NS, workers=1, pod={"containers": [{"name": "NOT VALID", "image": "i"}]}))
        message = wait_for(lambda: self.cluster.events(NS, "bad").get("Refused"), "an event")
        self.assertIn("containers[0].name", message)
        before = sum(self.manager.requests().values())
        time.sleep(15)
        self.assertLess(sum(self.manager.requests().values()) - before, 15, "the back-off grows")

    def test_unknown_clean_policy(self):
        self.create(job("typo", NS, workers=1, spec={"cleanPodPolicy": "Nerver"}))
        self.cluster.wait_phase(NS, "typo", "Running")
        self.assertIn("acts as Never", wait_for(lambda: self.cluster.events(NS, "typo").get("UnknownCleanPodPolicy"), "an event"))

    def test_elastic_without_etcd_is_explained(self):
        self.create(job("elastic", NS, workers=2, spec={"elastic": 1}))
        self.assertIn("--etcd-server", wait_for(lambda: self.cluster.events(NS, "elastic").get("EtcdMissing"), "an event"))
        self.assertFalse(self.cluster.pods(NS))


if __name__ == "__main__":
    unittest.main()
