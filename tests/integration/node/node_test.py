"""The node agent as the nodes of a real cluster, with its scheduler and controller-manager."""

import hashlib
import json
import os
import random
import subprocess
import time
import unittest

from agent import NodeAgent
from cluster import Cluster, Manager, job, wait_for

# Each worker serves at its own endpoint, and says hello at the other's: environment, gate and network.
WORKER = r"""
import os, socket, sys, threading, time
mine = os.environ["PADDLE_CURRENT_ENDPOINT"].split(":")
all_ = os.environ["PADDLE_TRAINER_ENDPOINTS"].split(",")
assert int(os.environ["PADDLE_TRAINERS_NUM"]) == len(all_) == 2, os.environ
server = socket.create_server((mine[0], int(mine[1])))
heard = threading.Event()
threading.Thread(target=lambda: (server.accept(), heard.set()), daemon=True).start()
other = [e for e in all_ if e.split(":") != mine][0].split(":")
for _ in range(600):
    try:
        socket.create_connection((other[0], int(other[1])), timeout=2).close()
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("nobody at " + repr(other))
print("rank", os.environ["PADDLE_TRAINER_ID"], "of", len(all_), "on", socket.gethostname(), flush=True)
sys.exit(0 if heard.wait(60) else "nobody came")
"""


def pod(name, script, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
                     "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}], **spec}}


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--controllers")
        cls.addClassCleanup(cls.cluster.close)
        cls.agent = NodeAgent(cls.cluster, "--nodes", "2", f"--client-ca-file={cls.cluster.info['ca']}")
        cls.addClassCleanup(lambda: cls.agent.stop())
        cls.agent.wait_ready(2)
        cls.manager = Manager(cls.cluster).wait_ready()
        cls.addClassCleanup(lambda: cls.manager.stop())

    def create(self, *objects):
        for each in objects:
            self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))

    def status(self, name):
        found = self.cluster.get(f"/api/v1/namespaces/default/pods/{name}")
        return (found or {}).get("status", {})

    def wait_phase(self, name, phase, seconds=90):
        try:
            wait_for(lambda: self.status(name).get("phase") == phase, f"{name} is {phase}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(self.status(name))}\n{self.agent.output()[-3000:]}") from None
        return self.status(name)

    def log(self, name, container="main"):
        uid = self.cluster.get(f"/api/v1/namespaces/default/pods/{name}")["metadata"]["uid"]
        lines = (self.agent.data / "d/pods" / uid / "containers" / container / "1/log").read_text().splitlines()
        return [line.split(" ", 3)[3] for line in lines]

    def test_a_job_of_two_workers_is_completed(self):
        workers = {"containers": [{"name": "main", "image": "paddle", "command": ["python3", "-c", WORKER]}]}
        self.create(job("pair", workers=2, pod=workers, spec={"intranet": "PodIP", "cleanPodPolicy": "Never"}))
        self.cluster.wait_phase("default", "pair", "Completed")
        ranks = sorted(self.log(f"pair-worker-{i}")[0] for i in range(2))
        self.assertEqual([r.split(" on ")[0] for r in ranks], ["rank 0 of 2", "rank 1 of 2"])
        events = self.cluster.events("default", "pair-worker-0")
        self.assertIn("runs as a process of this machine", events["HostProcess"])

    def test_b_volumes_appear_where_the_machine_has_nothing(self):
        self.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": {"a": "text"}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"k": "hidden"}},
            pod("volumes", "", volumes=[
                {"name": "files", "configMap": {"name": "files"}}, {"name": "keys", "secret": {"secretName": "keys"}},
                {"name": "scratch", "emptyDir": {"medium": "Memory"}},
                {"name": "info", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}],
                initContainers=[{"name": "init", "image": "none", "command": ["sh", "-c", "echo made > /no-such/scratch/x"],
                                 "volumeMounts": [{"name": "scratch", "mountPath": "/no-such/scratch"}]}],
                containers=[{"name": "main", "image": "none", "command": ["sh", "-c",
                             "cat /no-such/files/a /no-such/keys/k /no-such/scratch/x /no-such/info/name; hostname"],
                             "volumeMounts": [{"name": n, "mountPath": f"/no-such/{n}"} for n in ("files", "keys", "scratch", "info")]}]))
        self.wait_phase("volumes", "Succeeded")
        self.assertEqual("".join(self.log("volumes")), "texthiddenmade" + "volumes" + "volumes")
        self.assertFalse(subprocess.run(["ls", "/no-such"], capture_output=True).returncode == 0)

    def test_c_a_stateful_set_of_the_real_controller(self):
        self.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {
            "replicas": 2, "serviceName": "web", "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "none",
                                "command": ["python3", "-m", "http.server", "8080"],
                                "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 10}}]}}}})
        wait_for(lambda: self.cluster.get("/apis/apps/v1/namespaces/default/statefulsets/web")["status"].get("readyReplicas") == 2,
                 "two replicas serve port 8080 at a time", 120)
        self.cluster.kubectl("delete", "statefulset", "web", "--wait=false")
        wait_for(lambda: not [p for p in self.cluster.pods("default") if p.startswith("web-")], "its pods are gone", 90)

    def test_d_pods_outlive_the_agent(self):
        self.create(pod("survivor", "echo started; while ! test -e go; do sleep 0.1; done; exit 4"))
        self.wait_phase("survivor", "Running")
        uid = self.cluster.get("/api/v1/namespaces/default/pods/survivor")["metadata"]["uid"]
        self.agent.kill()
        (self.agent.data / "d/pods" / uid / "work/main/go").touch()
        self.agent.start()
        status = self.wait_phase("survivor", "Failed")
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 4)
        self.assertEqual(status["containerStatuses"][0]["restartCount"], 0)

    def test_e_deletion_ends_all_processes(self):
        self.create(pod("stubborn", "trap '' TERM; (trap '' TERM; sleep 3600) & while :; do sleep 1; done"))
        self.wait_phase("stubborn", "Running")
        started = time.monotonic()
        self.cluster.kubectl("delete", "pod", "stubborn")
        self.assertLess(time.monotonic() - started, 60)
        self.assertFalse(subprocess.run(["pgrep", "-f", "sleep 3600"], capture_output=True).stdout)

    def exec(self, *words, stdin=b"", environment=None):
        """`kubectl exec` through the API server, which speaks SPDY with nodes whatever kubectl speaks with it."""
        return subprocess.run([self.cluster.info["kubectl"], "--kubeconfig", self.cluster.info["kubeconfig"], "exec", *words],
                              input=stdin, capture_output=True, timeout=240, env={**os.environ, **(environment or {})})

    def test_f_exec_through_the_api_server(self):
        self.create(pod("shell", "exec sleep 1000"))
        self.wait_phase("shell", "Running")
        for websockets in ("true", "false"):
            with self.subTest(websockets=websockets):
                self.exec_by({"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets})
        self.cluster.kubectl("delete", "pod", "shell", "--now")

    def exec_by(self, environment):
        listed = self.exec("shell", "--", "ls", "/", environment=environment)
        self.assertEqual((listed.returncode, listed.stderr), (0, b""))
        self.assertEqual(listed.stdout, subprocess.run(["ls", "/"], capture_output=True).stdout)
        failed = self.exec("shell", "--", "sh", "-c", "echo out; echo err >&2; exit 3", environment=environment)
        self.assertEqual((failed.returncode, failed.stdout), (3, b"out\n"))
        self.assertEqual(failed.stderr.splitlines(), [b"err", b"command terminated with exit code 3"])
        # Both ways, more than any buffer on the way holds.
        sent = random.Random(9).randbytes(10 << 20)
        back = self.exec("-i", "shell", "--", "cat", stdin=sent, environment=environment)
        self.assertEqual((back.returncode, back.stderr), (0, b""))
        self.assertEqual(hashlib.sha256(back.stdout).hexdigest(), hashlib.sha256(sent).hexdigest(), len(back.stdout))


if __name__ == "__main__":
    unittest.main()
