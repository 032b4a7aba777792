"""One script of kubectl commands, run against standalone's API server and a real one: same answers."""

import concurrent.futures
import os
import re
import subprocess
import sys
import unittest

from standalone import DATA, Cluster, Standalone, kubectl_program

JOB = (DATA / "seeds-wide-and-deep.yaml").read_text()
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: demo}}
spec:
  containers:
  - {name: one, image: "busybox:1.36", command: [sleep, "1"], env: [{name: A, value: b}]}
  - {name: two, image: busybox, ports: [{containerPort: 80}]}
"""
SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s}
spec:
  replicas: 2
  serviceName: s
  selector: {matchLabels: {app: s}}
  template:
    metadata: {labels: {app: s}}
    spec: {containers: [{name: c, image: "i:1"}]}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: None, selector: {app: s}, ports: [{name: a, port: 80}]}
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: cmp-pv}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp/x}, storageClassName: ""}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: ""}
"""

# (arguments, standard input, environment)
SCRIPT = [
    # ConfigMaps and Secrets: every way to make, read and change one.
    ("create configmap a --from-literal=x=1 --from-literal=y=2",),
    ("create configmap a --from-literal=x=1",),
    ("create secret generic k --from-literal=password=s3cret",),
    ("get configmap a",),
    ("get configmap a -o yaml",),
    ("get configmap a -o json",),
    ("get configmap a -o name",),
    ("get configmap a -o jsonpath={.data.x}",),
    ("get configmap a -o custom-columns=N:.metadata.name,X:.data.x",),
    ("get configmap a -o go-template={{.data.y}}",),
    ("get secret k -o jsonpath={.data.password}",),
    ("get secret k",),
    ("describe secret k",),
    ("label configmap a colour=red",),
    ("label configmap a colour=blue",),
    ("label configmap a colour=blue --overwrite",),
    ("label configmap a colour-",),
    ("annotate configmap a note=hello",),
    ("annotate configmap a note-",),
    ("get configmap -l colour=blue",),
    ("label configmap a colour=green",),
    ("get configmap -l colour=green --no-headers",),
    ("get configmap -l colour!=green,colour -o name",),
    ("get configmap --show-labels -l colour",),
    ("get configmap -L colour -l colour",),
    ("get configmap --field-selector metadata.name=a",),
    ("get configmap --field-selector data.x=1",),
    ("get configmap -l colour --sort-by=.metadata.name",),
    ("patch configmap a --type merge -p {\"data\":{\"x\":\"5\"}}",),
    ("patch configmap a --type merge -p {\"data\":{\"x\":\"5\"}}",),
    ("patch configmap a --type json -p [{\"op\":\"remove\",\"path\":\"/data/y\"}]",),
    ("describe configmap a",),
    ("patch configmap a --type json -p [{\"op\":\"remove\",\"path\":\"/data/y\"}]",),
    ("patch configmap a -p {\"data\":{\"z\":\"6\"}}",),
    ("patch configmap none -p {}",),
    ("get configmap a -o jsonpath={.data}",),
    ("edit configmap a", None, {"KUBE_EDITOR": "sed -i s/x:/w:/"}),
    ("get configmap a -o jsonpath={.data}",),
    ("create configmap d --from-literal=x=1 --dry-run=server -o name",),
    ("get configmap d",),
    ("replace -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":"1"}}'),
    ("replace -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1"},"data":{"n":"1"}}'),
    ("delete configmap a",),
    ("delete configmap a",),
    ("delete configmap a --ignore-not-found",),
    # Apply.
    ("apply -f -", POD),
    ("apply -f -", POD),
    ("apply -f -", POD.replace("busybox:1.36", "busybox:1.37")),
    ("apply -f -", POD.replace("sleep", "wake")),
    ("apply -f -", POD.replace("image:", "imago:")),
    ("apply -f - --validate=ignore", POD.replace("A, value", "A, valu").replace("name: p", "name: q")),
    ("apply -f -", POD.replace("containerPort: 80", "containerPort: many").replace("name: p", "name: r")),
    ("apply -f -", POD.replace("containerPort: 80", "containerPort: 70000").replace("name: p", "name: r")),
    ("apply -f -", POD.replace("name: two", "name: one").replace("name: p", "name: r")),
    ("apply -f -", POD.replace("name: two", "name: Two_").replace("name: p", "name: R_")),
    ("apply -f -", POD.replace("{name: p, ", "{")),
    ("get pods",),
    ("get pods -o wide",),
    ("get pod p -o jsonpath={.spec.containers[0].image}",),
    ("get pods --field-selector status.phase=Pending -o name",),
    ("get pods --field-selector spec.nodeName=x",),
    ("get pods,configmaps -l app=demo",),
    ("wait pod p --for=jsonpath={.status.phase}=Pending --timeout=10s",),
    ("wait pod p --for=condition=Ready --timeout=1s",),
    ("logs p -c one",),
    ("delete pod p --wait=false",),
    ("delete pod q --now",),
    ("wait pod p --for=delete --timeout=20s",),
    ("get pods",),
    ("apply -f -", SET),
    ("apply -f -", SET.replace("replicas: 2", "replicas: 3")),
    ("scale statefulset s --replicas=5",),
    ("get statefulset s",),
    ("get sts s -o jsonpath={.spec.replicas}",),
    ("patch sts s -p {\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:2\"}]}}}}",),
    ("get sts s -o jsonpath={.spec.template.spec.containers[*].image}",),
    ("apply -f -", SET.replace("serviceName: s", "serviceName: t")),
    ("apply -f -", SET.replace("matchLabels: {app: s}", "matchLabels: {app: t}").replace("name: s}", "name: t}")),
    ("apply -f -", SERVICE),
    ("get service s",),
    ("get svc -o wide",),
    ("apply -f -", CLAIM),
    ("get pv cmp-pv",),
    ("get pvc c",),
    ("delete pv cmp-pv --wait=false",),
    ("get all",),
    # Our kinds.
    ("api-resources --api-group=batch.paddlepaddle.org",),
    ("explain paddlejob.spec.worker.replicas",),
    ("explain pdj.spec.intranet",),
    ("explain pod.spec.containers.image",),
    ("explain configmap.immutable",),
    ("explain statefulset.spec.updateStrategy",),
    ("explain pod.spec.nothing",),
    ("apply -f -", JOB),
    ("apply -f -", JOB),
    ("get pdj",),
    ("get paddlejobs.batch.paddlepaddle.org -o name",),
    ("apply -f -", JOB.replace("replicas:", "replica:")),
    ("patch pdj wide-ande-deep --type merge -p {\"spec\":{\"intranet\":\"Nowhere\"}}",),
    ("patch pdj wide-ande-deep --type merge -p {\"spec\":{\"intranet\":5}}",),
    ("patch pdj wide-ande-deep --type merge -p {\"spec\":{\"worker\":{\"replicas\":-1}}}",),
    ("patch pdj wide-ande-deep --type strategic -p {\"spec\":{}}",),
    ("patch pdj wide-ande-deep --subresource=status --type merge -p {\"status\":{\"phase\":\"Running\",\"mode\":\"PS\"}}",),
    ("get pdj wide-ande-deep",),
    ("wait pdj wide-ande-deep --for=jsonpath={.status.phase}=Running --timeout=10s",),
    ("get pdj wide-ande-deep -o jsonpath={.metadata.generation}",),
    ("delete pdj wide-ande-deep",),
    ("get sampleset",),
    ("apply -f -", (DATA / "seeds-sampleset.yaml").read_text()),
    ("get sampleset",),
    ("get crd samplesets.batch.paddlepaddle.org -o name",),
    ("wait crd/samplesets.batch.paddlepaddle.org --for=condition=established --timeout=10s",),
    # What is not there.
    ("get nothing",),
    ("get pod none",),
    ("create -f -", '{"apiVersion":"v1","kind":"Pod"}'),
    ("create -f -", '{"apiVersion":"v9","kind":"Pod","metadata":{"name":"x"}}'),
    ("create -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a b":"c"}}}'),
    ("create -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a b":"c"}}'),
    ("create -f -", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"g-"}}'),
    ("create configmap x -n nowhere",),
    # Nobody there takes the claims' finalizers away.
    ("delete statefulset,service,pvc --all --wait=false",),
]

# What differs between any two clusters.
VARIABLE = [
    (re.compile(r"\b\d+(\.\d+)?(ms|s|m|h)(\d+(s|m))?\b"), "AGE"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"resourceVersion\"?: \"\d+\""), "resourceVersion"),
    (re.compile(r"g-[a-z0-9]{5}\b"), "g-NAME"),
    (re.compile(r"kubectl-edit-\d+\.yaml"), "FILE"),
    (re.compile(r" +"), " "),
    # What changed in the pod, printed by a Go library; what was patched, printed by Go.
    (re.compile(r"(?s)(previously negative\))\s*core\.PodSpec\{.*"), r"\1"),
    (re.compile(r'patch: Invalid value: ".*": strict'), 'patch: Invalid value: "...": strict'),
    # Server-side apply is not ours.
    (re.compile(r", application/apply-patch\+yaml"), ""),
]



def plain(text):
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


class Kubectl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours = Standalone("--api-only")
        cls.real = Cluster()
        cls.real.info["kubectl"] = kubectl_program()

    @classmethod
    def tearDownClass(cls):
        cls.real.close()
        cls.ours.close()

    def run_on(self, server, step):
        arguments, stdin, environment = (*step, None, None)[:3]
        words = arguments.split(" ")
        words = words if "-n" in words or words[0] in ("api-resources", "explain") else [*words, "-n", "cmp"]
        if server is self.ours:
            done = server.kubectl(*words, stdin=stdin, check=False, env=environment)
        else:
            done = subprocess.run(
                [server.info["kubectl"], "--kubeconfig", server.info["kubeconfig"], *words], input=stdin,
                capture_output=True, text=True, timeout=120, env={**os.environ, **(environment or {})})
        return done.returncode, plain(done.stdout), plain(done.stderr)

    def test_the_script(self):
        self.ours.request("POST", "/api/v1/namespaces", {"metadata": {"name": "cmp"}})
        # Nobody makes the accounts of new namespaces there: the controller manager is not running.
        self.real.request("POST", "/api/v1/namespaces", {"metadata": {"name": "cmp"}})
        self.real.request("POST", "/api/v1/namespaces/cmp/serviceaccounts", {"metadata": {"name": "default"}})
        different = 0
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            for step in SCRIPT:
                ours, real = both.map(lambda server: self.run_on(server, step), (self.ours, self.real))
                if ours != real:
                    different += 1
                    print(f"\n$ kubectl {step[0]}\n{(step[1:2] or [''])[0] or ''}\n--- ours {ours[0]}\n{ours[1]}{ours[2]}"
                          f"\n--- real {real[0]}\n{real[1]}{real[2]}", file=sys.stderr, flush=True)
        self.assertEqual(different, 0, f"of {len(SCRIPT)} answers")


if __name__ == "__main__":
    unittest.main()
