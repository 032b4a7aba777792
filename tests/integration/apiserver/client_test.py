"""paddle-operator apply, get, describe, logs and delete: what people without kubectl use."""

import base64
import json
import re
import subprocess
import unittest

from standalone import DATA, OPERATOR, Standalone, wait_for

SET = (DATA / "seeds-sampleset.yaml").read_text()
POD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {a: "1", b: "2"}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: demo}}
spec:
  restartPolicy: Never
  containers:
  - {name: one, image: busybox, command: [sh, -c, "echo hello; echo $A; sleep 1; echo end"], env: [{name: A, value: world}]}
"""


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Standalone("--network=loopback")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def run_it(self, *args, stdin=None, code=0):
        done = subprocess.run([OPERATOR, *args, "--kubeconfig", self.server.kubeconfig], input=stdin,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def kubectl(self, *args):
        return self.server.kubectl(*args)

    def same(self, *args):
        """Ages are left out: they go on between the two calls."""
        def plain(text):
            return [[cell for cell in line.split() if not re.fullmatch(r"\d+[smh]", cell)] for line in text.splitlines()]
        self.assertEqual(plain(self.run_it(*args)), plain(self.kubectl(*args)))

    def test_1_apply(self):
        self.assertEqual(self.run_it("apply", "-f", "-", stdin=POD), "configmap/words created\npod/p created\n")
        self.assertEqual(self.run_it("apply", "-f", "-", stdin=POD), "configmap/words unchanged\npod/p unchanged\n")
        changed = POD.replace('a: "1", b: "2"', 'a: "3"')
        self.assertEqual(self.run_it("apply", "-f", "-", stdin=changed), "configmap/words configured\npod/p unchanged\n")
        self.assertEqual(json.loads(self.kubectl("get", "cm", "words", "-o", "json"))["data"], {"a": "3"})
        # What one has applied, the other goes on with.
        self.assertIn("configmap/words configured", self.server.kubectl("apply", "-f", "-", stdin=POD))
        self.assertEqual(self.run_it("apply", "-f", "-", stdin=POD), "configmap/words unchanged\npod/p unchanged\n")
        self.assertIn("unknown field \"spec.partition\"", self.run_it(
            "apply", "-f", "-", stdin=SET.replace("partitions", "partition"), code=1))
        self.assertIn("no matches for kind \"Nothing\" in version \"v1\"", self.run_it(
            "apply", "-f", "-", stdin="{apiVersion: v1, kind: Nothing, metadata: {name: a}}", code=1))
        for wrong in ("a: b", "[1]", "{apiVersion: 1, kind: Pod}", "{apiVersion: v1, kind: Pod, metadata: x}",
                      "{apiVersion: v1, kind: Pod, metadata: {name: 5}}", "{apiVersion: v1, kind: List, items: [3]}", "{"):
            self.assertIn("-: ", self.run_it("apply", "-f", "-", stdin=wrong, code=2), wrong)
        self.assertIn("metadata.name is missing", self.run_it(
            "apply", "-f", "-", stdin="{apiVersion: v1, kind: ConfigMap}", code=1))

    def test_2_get(self):
        self.same("get", "pods", "-n", "default")
        self.same("get", "cm", "-n", "default")
        self.same("get", "nodes")
        self.same("get", "namespaces")
        self.assertEqual(self.run_it("get", "pod/p", "-o", "name"), "pod/p\n")
        ours, theirs = (json.loads(run("get", "cm", "words", "-o", "json")) for run in (self.run_it, self.kubectl))
        self.assertEqual(ours, theirs)
        self.assertIn("a: \"1\"", self.run_it("get", "cm", "words", "-o", "yaml"))
        self.assertIn("p ", self.run_it("get", "pods", "-A", "-l", "app=demo"))
        self.assertEqual(self.run_it("get", "pods", "-l", "app=other"), "")
        self.assertEqual(self.run_it("get", "pod", "none", code=1),
                         'paddle-operator get: pods "none" not found\n')
        self.assertIn("doesn't have a resource type \"nothing\"", self.run_it("get", "nothing", code=1))

    def test_3_logs_and_describe(self):
        self.assertEqual(self.run_it("logs", "p", "-f"), "hello\nworld\nend\n")
        self.assertEqual(self.run_it("logs", "p", "--tail", "1"), "end\n")
        wait_for(lambda: "Completed" in self.run_it("get", "pod", "p"), "the pod has ended")
        text = self.run_it("describe", "pod", "p")
        for word in ("name: p", "Events:", "HostProcess", "is not pulled"):
            self.assertIn(word, text)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k"}, "stringData": {"password": "s3cret"}}
        self.run_it("apply", "-f", "-", stdin=json.dumps(secret))
        self.assertEqual(self.server.get("/api/v1/namespaces/default/secrets/k")["data"]["password"],
                         base64.b64encode(b"s3cret").decode())
        self.assertNotIn(base64.b64encode(b"s3cret").decode(), self.run_it("describe", "secret", "k"))

    def test_3_many_at_once(self):
        """Logs and shells are served whole, or refused with a reason; never cut off."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "many"}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "one", "image": "none", "command": ["sh", "-c", "seq 20000; exec sleep 1000"]}]}}
        self.run_it("apply", "-f", "-", stdin=json.dumps(pod))
        wanted = "".join(f"{i}\n" for i in range(1, 20001))
        wait_for(lambda: self.run_it("logs", "many") == wanted, "all is written", 60)
        kubectl = [self.server.program, "--kubeconfig", self.server.kubeconfig]
        for command in (["logs", "many"], ["exec", "many", "--", "seq", "20000"]):
            running = [subprocess.Popen([*kubectl, *command], stdout=subprocess.PIPE, text=True) for _ in range(12)]
            for process in running:
                self.assertTrue(process.communicate(timeout=240)[0] == wanted, command)
                self.assertEqual(process.returncode, 0, command)
        self.run_it("delete", "pod", "many")

    def test_4_watch(self):
        watch = subprocess.Popen([OPERATOR, "get", "cm", "words", "-w", "--kubeconfig", self.server.kubeconfig],
                                 stdout=subprocess.PIPE, text=True)
        header = watch.stdout.readline()
        self.assertIn("words", watch.stdout.readline())
        self.kubectl("patch", "cm", "words", "-p", '{"data":{"c":"4"}}')
        line = watch.stdout.readline()
        self.assertEqual(line.split()[:2], ["words", "3"])
        self.assertEqual(line.index(line.split()[2]), header.index("AGE"), "below its header")
        watch.kill()
        watch.wait()
        watch.stdout.close()

    def test_5_delete(self):
        self.assertEqual(self.run_it("delete", "-f", "-", stdin=POD), 'configmap "words" deleted\npod "p" deleted\n')
        self.assertIsNone(self.server.get("/api/v1/namespaces/default/pods/p"))
        self.assertIn("not found", self.run_it("delete", "pod", "p", code=1))
        self.assertIn("RESOURCE NAME", self.run_it("delete", "pod", code=2))


if __name__ == "__main__":
    unittest.main()
