"""The YAML that users have (E7-E13 of the guides), applied with kubectl; run by paddlejob_test.py."""

import re
import unittest

import shared
from cluster import DATA, ROOT, wait_for


class Seeds(unittest.TestCase):
    def setUp(self):
        self.cluster = shared.cluster

    def apply(self, ns, name):
        self.cluster.kubectl("-n", ns, "apply", "-f", DATA / f"seeds-{name}.yaml")

    def printed(self, ns):
        """Rows of `kubectl get pdj`, without the age."""
        lines = self.cluster.kubectl("-n", ns, "get", "pdj").splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "STATUS", "MODE", "AGE"])
        rows = [line.split() for line in lines[1:]]
        for row in rows:
            self.assertRegex(row[3], r"^[0-9]+[smh]")
        return [row[:3] for row in rows]

    def succeed(self, ns, name, workers):
        for i in range(workers):
            self.cluster.set_pod(ns, f"{name}-worker-{i}", "Succeeded")
        self.cluster.wait_phase(ns, name, "Completed")

    def test_e7_ps_demo(self):
        ns = "paddle-system"  # which is there: the managers live in it
        self.apply(ns, "ps-demo")
        self.cluster.wait_phase(ns, "ps-demo", "Pending")
        self.assertIn("imagenet", self.cluster.wait_event(ns, "ps-demo", "SampleSetNotFound"))
        self.assertFalse(self.cluster.pods(ns, "ps-demo"))
        self.apply(ns, "sampleset")
        self.cluster.patch(f"/apis/batch.paddlepaddle.org/v1alpha1/namespaces/{ns}/samplesets/imagenet/status",
                           {"status": {"phase": "Ready"}})
        # The claim is the SampleSet controller's business.
        self.cluster.post("/api/v1/persistentvolumes", {
            "metadata": {"name": "imagenet"}, "spec": {
                "accessModes": ["ReadWriteMany"], "capacity": {"storage": "10Pi"}, "storageClassName": "paddle-operator",
                "csi": {"driver": "csi.samplefs.paddlepaddle.org", "volumeHandle": "x"}}})
        self.cluster.post(f"/api/v1/namespaces/{ns}/persistentvolumeclaims", {
            "metadata": {"name": "imagenet"}, "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "paddle-operator", "volumeName": "imagenet",
                "resources": {"requests": {"storage": "10Pi"}}}})
        self.cluster.wait_phase(ns, "ps-demo", "Running")
        self.assertEqual(self.printed(ns), [["ps-demo", "Running", "PS"]])
        pods = self.cluster.pods(ns, "ps-demo")
        self.assertEqual(sorted(pods), ["ps-demo-ps-0", "ps-demo-worker-0"])
        worker = pods["ps-demo-worker-0"]["spec"]
        self.assertEqual(worker["nodeName"], "node-1")
        self.assertEqual(worker["containers"][0]["volumeMounts"][0]["mountPath"], "/mnt/imagenet")
        self.assertNotIn("imagenet", str(pods["ps-demo-ps-0"]["spec"]), "J6: only workers get the data")

    def test_e8_wide_and_deep(self):
        ns = self.cluster.namespace("paddlecloud")
        self.apply(ns, "wide-and-deep")
        self.cluster.wait_phase(ns, "wide-ande-deep", "Running")
        self.assertEqual(self.printed(ns), [["wide-ande-deep", "Running", "PS"]])
        data = self.cluster.config_map(ns, "wide-ande-deep")
        self.assertEqual(data["PADDLE_WITH_GLOO"], "1")
        self.assertRegex(data["PADDLE_GLOO_HTTP_ENDPOINT"], r"^[0-9.]+:2397$")
        self.succeed(ns, "wide-ande-deep", 2)
        self.assertEqual(self.printed(ns), [["wide-ande-deep", "Completed", "PS"]])
        # J16: the servers keep no job open. Never keeps them, and says so.
        self.assertIn("wide-ande-deep-ps-0", self.cluster.wait_event(ns, "wide-ande-deep", "ServersKept"))
        self.assertEqual(len(self.cluster.pods(ns)), 4)

    def test_e9_resnet(self):
        ns = self.cluster.namespace("e9")
        self.apply(ns, "resnet")
        self.cluster.wait_phase(ns, "resnet", "Running")
        self.assertEqual(self.printed(ns), [["resnet", "Running", "Collective"]])
        pod = self.cluster.pods(ns)["resnet-worker-1"]
        self.assertIn("dshm", [v["name"] for v in pod["spec"]["volumes"]])
        self.assertEqual(pod["spec"]["containers"][0]["args"][1], "paddle.distributed.launch")
        self.assertNotIn("PADDLE_DISTRI_BACKEND", self.cluster.config_map(ns, "resnet"), "it asks for GPUs")
        self.succeed(ns, "resnet", 2)
        self.assertEqual(self.printed(ns), [["resnet", "Completed", "Collective"]])

    def test_the_guides_jobs_run(self):
        """Each mode of docs/paddlejob.md, in both languages, and what the guide shows of them."""
        guides = [(ROOT / f"docs/paddlejob{language}.md").read_text() for language in ("", ".zh")]
        jobs, chinese = ([block for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
                          if "kind: PaddleJob" in block] for text in guides)
        plain = [[re.sub(r" *#.*", "", block) for block in blocks] for blocks in (jobs, chinese)]
        self.assertEqual(*plain)
        ns = self.cluster.namespace("guide")
        self.cluster.kubectl("-n", ns, "apply", "-f", "-", stdin="---\n".join(jobs))
        shown = [line.split()[:3] for line in re.search(r"kubectl get pdj\nNAME.*?\n(.*?)^```", guides[0],
                                                         re.MULTILINE | re.DOTALL)[1].splitlines()]
        for name, _, _ in shown:
            self.cluster.wait_phase(ns, name, "Running")
        self.assertEqual(sorted(self.printed(ns)), shown)

    def test_e10_services_and_node_selector(self):
        ns = self.cluster.namespace("e10")
        self.apply(ns, "wide-and-deep-gpu")
        self.cluster.wait_phase(ns, "wide-ande-deep", "Running")
        self.assertEqual(self.printed(ns), [["wide-ande-deep", "Running", "PS"]])
        services = self.cluster.services(ns)
        self.assertEqual(sorted(services), [f"wide-ande-deep-{r}-{i}" for r in ("ps", "worker") for i in range(2)])
        for service in services.values():
            self.assertEqual([p["port"] for p in service["spec"]["ports"]], list(range(2379, 2399)))
            self.assertEqual(service["spec"]["clusterIP"], "None")
        pods = self.cluster.pods(ns)
        self.assertEqual(pods["wide-ande-deep-worker-0"]["spec"]["restartPolicy"], "OnFailure")
        self.assertEqual(pods["wide-ande-deep-ps-0"]["spec"]["restartPolicy"], "Never")
        self.assertEqual(pods["wide-ande-deep-ps-0"]["spec"]["nodeSelector"], {"accelerator": "nvidia-tesla-p100"})
        self.succeed(ns, "wide-ande-deep", 2)
        self.assertEqual(self.printed(ns), [["wide-ande-deep", "Completed", "PS"]])
        wait_for(lambda: not self.cluster.pods(ns), "OnCompletion removes the pods")
        wait_for(lambda: not self.cluster.services(ns), "and the services")

    def test_e12_e13_external_data(self):
        ns = self.cluster.namespace("e13")
        self.apply(ns, "nfs")
        self.apply(ns, "data-demo")
        self.cluster.wait_phase(ns, "paddlejob-demo-1", "Running")
        self.assertEqual(self.printed(ns), [["paddlejob-demo-1", "Running", "PS"]])
        for pod in self.cluster.pods(ns).values():
            self.assertEqual(["nfs-pvc"], [v["persistentVolumeClaim"]["claimName"] for v in pod["spec"]["volumes"]
                                           if "persistentVolumeClaim" in v])
            self.assertEqual(pod["spec"]["restartPolicy"], "Never")
        self.succeed(ns, "paddlejob-demo-1", 2)
        wait_for(lambda: not self.cluster.pods(ns), "cleanPolicy is OnCompletion")
        claim = self.cluster.get(f"/api/v1/namespaces/{ns}/persistentvolumeclaims/nfs-pvc")
        self.assertNotIn("deletionTimestamp", claim["metadata"])
        self.assertEqual(claim["status"]["phase"], "Bound")
