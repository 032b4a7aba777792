"""Managers that change hands, API servers that go away, Volcano and elastic settings."""

import json
import signal
import time
import unittest

from cluster import DATA, Cluster, Manager, job, wait_for

NS = "default"


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--controllers", "--kwok", "3", "--crds", DATA / "volcano-crd.yaml")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.managers = []

    def tearDown(self):
        for manager in self.managers:
            manager.stop()
        self.cluster.kubectl("delete", "pdj,pods,configmaps,podgroups", "--all", "-n", NS, "--wait=false")
        wait_for(lambda: not self.cluster.pods(NS), "pods are gone")

    def manager(self, *flags):
        self.managers.append(Manager(self.cluster, *flags))
        return self.managers[-1]

    def create(self, body):
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def leader(self):
        lease = self.cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases/b2a304f2.paddlepaddle.org")
        return (lease or {}).get("spec", {}).get("holderIdentity")

    def test_two_managers_one_leader(self):
        first = self.manager("--leader-elect")
        wait_for(self.leader, "a leader")
        self.manager("--leader-elect")
        for i in range(10):
            self.create(job(f"a{i}", workers=2))
        was = self.leader()
        first.stop()  # in the middle of everything; the lease is given up
        wait_for(lambda: self.leader() not in (None, "", was), "the other takes over", 20)
        for i in range(10):
            self.create(job(f"b{i}", workers=2))
        for name in [f"{x}{i}" for x in "ab" for i in range(10)]:
            self.cluster.wait_phase(NS, name, "Running")
        self.assertEqual(len(self.cluster.pods(NS)), 40)
        for name in [f"{x}{i}" for x in "ab" for i in range(10)]:
            self.assertEqual(self.cluster.job(NS, name)["status"].get("gang", 0), 0, "nothing was started twice")

    def test_killed_in_the_middle(self):
        for round_number in range(3):
            manager = self.manager()
            for i in range(5):
                self.create(job(f"k{round_number}-{i}", ps=1, workers=2))
            time.sleep(0.3 * (round_number + 1))
            manager.stop(signal.SIGKILL)
            self.managers.remove(manager)
        self.manager()
        for round_number in range(3):
            for i in range(5):
                self.cluster.wait_phase(NS, f"k{round_number}-{i}", "Running")
        self.assertEqual(len(self.cluster.pods(NS)), 45)

    def test_the_api_server_goes_away(self):
        manager = self.manager().wait_ready()
        self.create(job("before", workers=2))
        self.cluster.wait_phase(NS, "before", "Running")
        self.cluster.command("kill kube-apiserver")
        time.sleep(2)
        self.cluster.command("start kube-apiserver")
        wait_for(lambda: self.cluster.kubectl("get", "pdj", check=False).returncode == 0, "it answers again")
        self.create(job("after", workers=2))
        self.cluster.wait_phase(NS, "after", "Running", 90)
        self.assertEqual(self.cluster.job(NS, "before")["status"].get("gang", 0), 0)
        self.assertIsNone(manager.process.poll())

    def test_e11_e14_volcano(self):
        for order in (1, -1):
            with self.subTest("job first" if order == 1 else "group first"):
                manager = self.manager("--leader-elect", f"--namespace={NS}", "--scheduling=volcano").wait_ready()
                documents = (DATA / "seeds-wide-and-deep-volcano.yaml").read_text().split("---\n")
                documents = [d for d in documents if d.strip()][::order]
                self.cluster.kubectl("apply", "-n", NS, "-f", "-", stdin=documents[0])
                if order == 1:
                    wait_for(lambda: self.group("wide-ande-deep"), "the operator makes the group")
                self.cluster.kubectl("apply", "-n", NS, "-f", "-", stdin=documents[1])
                time.sleep(1)
                self.assertFalse(self.cluster.pods(NS), "no pods before the group is admitted")
                self.assertEqual(self.group("wide-ande-deep")["spec"]["minMember"], 4)
                self.cluster.request("PATCH", f"{self.groups}/wide-ande-deep/status", {"status": {"phase": "Inqueue"}},
                                     "application/merge-patch+json")
                pods = wait_for(lambda: len(self.cluster.pods(NS)) == 4 and self.cluster.pods(NS), "four pods")
                for pod in pods.values():
                    self.assertEqual(pod["spec"]["schedulerName"], "volcano")
                    self.assertEqual(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "wide-ande-deep")
                manager.stop()
                self.managers.remove(manager)
                self.cluster.kubectl("delete", "pdj,pods,podgroups", "--all", "-n", NS)

    groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NS}/podgroups"

    def group(self, name):
        return self.cluster.get(f"{self.groups}/{name}")

    def test_elastic_scaling(self):
        etcd = self.cluster.info["etcd"].removeprefix("http://")
        self.manager(f"--etcd-server={etcd}").wait_ready()
        self.create(job("el", workers=2, spec={"elastic": 1}))
        self.cluster.wait_phase(NS, "el", "Running")
        kept = self.cluster.pods(NS)["el-worker-0"]["metadata"]["uid"]
        env = {e["name"]: e.get("value") for e in self.cluster.pods(NS)["el-worker-0"]["spec"]["containers"][0]["env"]}
        self.assertEqual(env["PADDLE_MASTER"], "etcd://" + etcd)
        self.assertEqual(env["PADDLE_NNODES"], "1:2")
        self.cluster.kubectl("patch", "pdj", "el", "--type=merge", "-p", '{"spec":{"worker":{"replicas":3}}}')
        wait_for(lambda: len(self.cluster.pods(NS)) == 3, "three workers")
        self.assertEqual(self.cluster.pods(NS)["el-worker-0"]["metadata"]["uid"], kept)
        wait_for(lambda: self.np(etcd) == "3", "etcd knows")

    def np(self, etcd):
        import base64
        import urllib.request
        key = base64.b64encode(b"/paddle/default-el/np").decode()
        request = urllib.request.Request(f"http://{etcd}/v3/kv/range", data=json.dumps({"key": key}).encode())
        kvs = json.load(urllib.request.urlopen(request, timeout=5)).get("kvs", [])
        return base64.b64decode(kvs[0]["value"]).decode() if kvs else None


if __name__ == "__main__":
    unittest.main()
