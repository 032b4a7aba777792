"""Managers that change hands, die and are paused; API servers that fail or go away; what a manager costs when it has nothing to
do; Volcano and elastic jobs. Every case has a namespace and managers of its own."""

import base64
import json
import signal
import time
import unittest
import urllib.request

import input_cases
import shared
from cluster import DATA, Cluster, Manager, job, wait_for
from fault_proxy import FAULTS, FaultProxy
from parallel import ParallelSuite, alone


class Case(unittest.TestCase):
    def setUp(self):
        self.cluster = shared.cluster
        self.ns = self.cluster.namespace(self._testMethodName.removeprefix("test_").replace("_", "-")[:50])

    def manager(self, *flags, **more):
        manager = Manager(self.cluster, f"--namespace={self.ns}", *flags, **more)
        self.addCleanup(manager.stop)
        return manager

    def create(self, body):
        self.cluster.create(self.ns, body)

    def pods(self):
        return self.cluster.pods(self.ns)


class Leaders(Case):
    def start_two(self):
        """Managers with a Lease in the case's namespace: the leader and the other."""
        flags = ("--leader-elect", f"--leader-elect-namespace={self.ns}")
        first = self.manager(*flags)
        wait_for(self.leader, "a leader")
        return first, self.manager(*flags)

    def leader(self):
        lease = self.cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.ns}/leases/b2a304f2.paddlepaddle.org")
        return (lease or {}).get("spec", {}).get("holderIdentity")

    def wait_other(self, was):
        wait_for(lambda: self.leader() not in (None, "", was), "the other takes over")

    def wait_all_running(self, names, pods):
        for name in names:
            self.cluster.wait_phase(self.ns, name, "Running")
            self.assertEqual(self.cluster.status(self.ns, name).get("gang", 0), 0, "nothing was started twice")
        self.assertEqual(len(self.pods()), pods)

    def test_the_leader_stops_in_the_middle(self):
        first, _ = self.start_two()
        for i in range(8):
            self.create(job(f"a{i}", workers=2))
        was = self.leader()
        self.assertEqual(first.stop(), 0)  # gives the Lease up
        self.wait_other(was)
        for i in range(8):
            self.create(job(f"b{i}", workers=2))
        self.wait_all_running([f"{x}{i}" for x in "ab" for i in range(8)], 32)

    def test_the_leader_is_killed(self):
        first, _ = self.start_two()
        was = self.leader()
        for i in range(5):
            self.create(job(f"a{i}", workers=2))
        first.stop(signal.SIGKILL)
        self.wait_other(was)
        self.wait_all_running([f"a{i}" for i in range(5)], 10)

    def test_a_paused_leader_does_no_harm(self):
        first, _ = self.start_two()
        was = self.leader()
        self.create(job("a", workers=2))
        first.process.send_signal(signal.SIGSTOP)
        self.addCleanup(first.process.send_signal, signal.SIGCONT)
        self.wait_other(was)
        self.create(job("b", workers=2))
        self.wait_all_running("ab", 4)
        first.process.send_signal(signal.SIGCONT)
        self.assertNotEqual(first.process.wait(120), 0, "a manager that has lost its Lease ends")
        self.wait_all_running("ab", 4)

    def test_killed_in_the_middle(self):
        for turn in range(3):
            manager = self.manager()
            for i in range(3):
                self.create(job(f"k{turn}-{i}", ps=1, workers=2))
            time.sleep(0.4 * (turn + 1))
            manager.stop(signal.SIGKILL)
        self.manager()
        self.wait_all_running([f"k{turn}-{i}" for turn in range(3) for i in range(3)], 27)


class ApiFaults(Case):
    """A job that runs, fails, runs again, completes and is cleaned, while the requests about it fail."""

    def test_faults_at_every_step(self):
        # Every third request fails. Over all jobs, each kind of fault happens at each step.
        names = [f"fault-{offset}-{turn}" for offset in range(3) for turn in range(len(FAULTS))] + ["faultless"]

        def faults(name, n):
            if name == "faultless":
                return None
            offset, turn = map(int, name.split("-")[1:])
            return FAULTS[(n // 3 + turn) % len(FAULTS)] if n % 3 == offset else None

        proxy = FaultProxy(self.cluster, r"fault-\d-\d|faultless", faults)
        self.addCleanup(proxy.close)
        manager = self.manager(kubeconfig=proxy.kubeconfig)
        for name in names:
            self.create(job(name, workers=2, spec={"backoffLimit": 1, "intranet": "Service"}))
        for name in names:
            self.cluster.wait_phase(self.ns, name, "Running", gang=0)
            self.cluster.set_pod(self.ns, f"{name}-worker-1", "Failed", 1)
        for name in names:
            self.cluster.wait_phase(self.ns, name, "Running", gang=1, failures=1)
            for i in range(2):
                self.cluster.set_pod(self.ns, f"{name}-worker-{i}", "Succeeded")
        for name in names:
            self.cluster.wait_phase(self.ns, name, "Completed")
        wait_for(lambda: not self.pods() and not self.cluster.services(self.ns), "everything is cleaned")
        expected = self.end_of("faultless")
        for name in names:
            self.assertEqual(self.end_of(name), expected, name)
        self.assertIsNone(manager.process.poll())
        print(f"requests per job {proxy.seen['faultless']} without and "
              f"{sum(proxy.seen.values()) / len(names):.0f} with faults: {proxy.injected}", flush=True)
        for fault in FAULTS:
            self.assertGreater(proxy.injected.get(fault, 0), 0, fault)

    def end_of(self, name):
        """What is left of a job, without what differs from run to run."""
        status = self.cluster.status(self.ns, name)
        kept = {k: status.get(k) for k in ("phase", "mode", "gang", "failures", "observedGeneration")}
        kept["conditions"] = sorted((c["type"], c["status"], c["reason"]) for c in status["conditions"])
        data = self.cluster.config_map(self.ns, name)
        kept["configMap"] = data and {k: v.replace(name, "JOB") for k, v in data.items()}
        return kept

    @alone
    def test_the_api_server_goes_away(self):
        manager = self.manager().wait_ready()
        self.create(job("before", workers=2))
        self.cluster.wait_phase(self.ns, "before", "Running")
        for i in range(5):
            self.create(job(f"amid{i}", workers=2))
        self.cluster.command("kill kube-apiserver")
        time.sleep(2)
        self.cluster.command("start kube-apiserver")
        wait_for(lambda: self.cluster.job(self.ns, "before"), "it answers again")
        self.create(job("after", workers=2))
        for name in ["before", "after"] + [f"amid{i}" for i in range(5)]:
            self.cluster.wait_phase(self.ns, name, "Running", gang=0)
        self.assertEqual(len(self.pods()), 14)
        self.assertIsNone(manager.process.poll())


class Cost(Case):
    def test_few_requests_and_none_when_idle(self):
        manager = self.manager("--leader-elect", f"--leader-elect-namespace={self.ns}").wait_ready()
        before = manager.requests()
        self.create(job("few", workers=4))
        self.cluster.wait_phase(self.ns, "few", "Running")
        wait_for(lambda: self.cluster.status(self.ns, "few")["worker"].get("running") == 4, "counters")
        time.sleep(5)  # counters and events come a little later
        after = manager.requests()
        spent = {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}
        print(f"requests for a job of 4 workers: {sum(spent.values())} {spent}", flush=True)
        self.assertLessEqual(sum(spent.values()), 10, spent)
        after = manager.requests(aside=("watch",))
        time.sleep(60)
        self.assertEqual(manager.requests(aside=("watch",)), after, "an idle manager asks for nothing")


class Volcano(Case):
    def setUp(self):
        super().setUp()
        self.groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{self.ns}/podgroups"

    def group(self, name):
        return self.cluster.get(f"{self.groups}/{name}")

    def run_e11(self, order):
        self.manager("--leader-elect", f"--leader-elect-namespace={self.ns}", "--scheduling=volcano").wait_ready()
        documents = (DATA / "seeds-wide-and-deep-volcano.yaml").read_text().split("---\n")
        documents = [d for d in documents if d.strip()][::order]
        self.cluster.kubectl("apply", "-n", self.ns, "-f", "-", stdin=documents[0])
        if order == 1:
            wait_for(lambda: self.group("wide-ande-deep"), "the operator makes the group")
        self.cluster.kubectl("apply", "-n", self.ns, "-f", "-", stdin=documents[1])
        wait_for(lambda: "Inqueue" in str(self.cluster.status(self.ns, "wide-ande-deep")) or
                 "WaitingForQueue" in str(self.cluster.status(self.ns, "wide-ande-deep")), "the job waits")
        self.assertFalse(self.pods(), "no pods before the group is admitted")
        self.assertEqual(self.group("wide-ande-deep")["spec"]["minMember"], 4)
        self.cluster.patch(f"{self.groups}/wide-ande-deep/status", {"status": {"phase": "Inqueue"}})
        pods = wait_for(lambda: len(self.pods()) == 4 and self.pods(), "four pods")
        for pod in pods.values():
            self.assertEqual(pod["spec"]["schedulerName"], "volcano")
            self.assertEqual(pod["spec"]["restartPolicy"], "Never")
            self.assertEqual(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "wide-ande-deep")
        rows = self.cluster.kubectl("get", "pdj", "-n", self.ns).splitlines()
        self.assertEqual(rows[1].split()[:3], ["wide-ande-deep", "Pending", "PS"])

    def test_e11_e14_job_first(self):
        self.run_e11(1)

    def test_e11_e14_group_first(self):
        self.run_e11(-1)

    def test_j13_a_finished_job_is_cleaned_whatever_its_group_says(self):
        self.manager("--scheduling=volcano").wait_ready()
        self.create(job("done", workers=1, spec={"cleanPodPolicy": "Always"}))
        wait_for(lambda: self.group("done"), "the group")
        self.cluster.patch(f"{self.groups}/done/status", {"status": {"phase": "Inqueue"}})
        wait_for(self.pods, "the pod")
        self.cluster.patch(f"{self.groups}/done/status", {"status": {"phase": "Unknown"}})
        self.cluster.set_pod(self.ns, "done-worker-0", "Failed", 1)
        self.cluster.wait_phase(self.ns, "done", "Failed")
        wait_for(lambda: not self.pods(), "pods are gone")
        wait_for(lambda: not self.group("done"), "and so is the group")


class Elastic(Case):
    def test_elastic_scaling(self):
        etcd = self.cluster.info["etcd"].removeprefix("http://")
        self.manager(f"--etcd-server={etcd}").wait_ready()
        self.create(job("el", workers=2, spec={"elastic": 1}))
        self.cluster.wait_phase(self.ns, "el", "Running")
        pod = self.pods()["el-worker-0"]
        env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
        self.assertEqual(env["PADDLE_MASTER"], "etcd://" + etcd)
        self.assertEqual(env["PADDLE_NNODES"], "1:2")
        self.cluster.edit(self.ns, "el", {"worker": {"replicas": 3}})
        wait_for(lambda: len(self.pods()) == 3, "three workers")
        self.assertEqual(self.pods()["el-worker-0"]["metadata"]["uid"], pod["metadata"]["uid"])
        wait_for(lambda: self.np(etcd) == "3", "etcd knows")

    def np(self, etcd):
        key = base64.b64encode(f"/paddle/{self.ns}-el/np".encode()).decode()
        request = urllib.request.Request(f"http://{etcd}/v3/kv/range", data=json.dumps({"key": key}).encode())
        with urllib.request.urlopen(request, timeout=30) as reply:
            kvs = json.load(reply).get("kvs", [])
        return base64.b64decode(kvs[0]["value"]).decode() if kvs else None


def set_up():
    shared.cluster = Cluster("--controllers", "--kwok", "3", "--crds", DATA / "volcano-crd.yaml")


def tear_down():
    if shared.cluster:
        shared.cluster.close()


def load_tests(loader, _, __):
    cases = [loader.loadTestsFromTestCase(c) for c in (Cost, input_cases.BadInput, ApiFaults, Leaders, Volcano, Elastic)]
    return ParallelSuite(cases, set_up, tear_down)


if __name__ == "__main__":
    unittest.main()
