"""A real API server with fake nodes, kubectl, and managers of ours, for the tests beside this file."""

import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "tests/data"
BIN = pathlib.Path(os.environ.get("PADDLEOP_BIN_DIR", ROOT / "build/dev/bin"))
OPERATOR = BIN / "paddle-operator"


def wait_for(condition, what, seconds=60):
    """The first true value of condition(); fails with what was awaited after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """tests/peers/peer serve kube, for as long as this object is open."""

    def __init__(self, *options):
        crds = tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False)
        crds.write((ROOT / "deploy/v1/crd.yaml").read_text())
        crds.close()
        self.peer = subprocess.Popen(
            [ROOT / "tests/peers/peer", "serve", "kube", "--crds", crds.name, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.peer.stdout.readline()
        os.unlink(crds.name)
        if not line:
            raise AssertionError("the kube peer did not start; its message is above")
        self.info = json.loads(line)
        self.tls = ssl.create_default_context(cafile=self.info["ca"])

    def close(self):
        self.peer.stdin.close()
        self.peer.wait(60)

    def command(self, line):
        self.peer.stdin.write(line + "\n")
        self.peer.stdin.flush()
        answer = json.loads(self.peer.stdout.readline())
        if not answer["ok"]:
            raise AssertionError(f"{line}: {answer}")

    def kubectl(self, *args, stdin=None, check=True):
        done = subprocess.run(
            [self.info["kubectl"], "--kubeconfig", self.info["kubeconfig"], *map(str, args)],
            input=stdin, capture_output=True, text=True, timeout=60,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(map(str, args))}: {done.stderr}")
        return done.stdout if check else done

    def request(self, method, path, body=None, content="application/json"):
        """Status and decoded body of a request to the API server."""
        request = urllib.request.Request(
            self.info["server"] + path, method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + self.info["token"], "Content-Type": content},
        )
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=30) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def get(self, path):
        status, body = self.request("GET", path)
        return body if status == 200 else None

    def namespace(self, name):
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        wait_for(lambda: self.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"), f"account in {name}")

    # --- our objects ---

    def job(self, ns, name):
        return self.get(f"/apis/batch.paddlepaddle.org/v1/namespaces/{ns}/paddlejobs/{name}")

    def pods(self, ns, job=None):
        items = self.get(f"/api/v1/namespaces/{ns}/pods")["items"]
        return {p["metadata"]["name"]: p for p in items
                if job is None or p["metadata"]["name"].startswith(job + "-")}

    def events(self, ns, name):
        items = self.get(f"/api/v1/namespaces/{ns}/events?fieldSelector=involvedObject.name%3D{name}")["items"]
        return {e["reason"]: e["message"] for e in items}

    def wait_phase(self, ns, name, phase, seconds=60):
        def reached():
            job = self.job(ns, name)
            return job if job and job.get("status", {}).get("phase") == phase else None
        try:
            return wait_for(reached, f"{name} is {phase}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps((self.job(ns, name) or {}).get('status'))}") from None

    def set_pod(self, ns, name, phase, exit_code=0):
        """What a kubelet would report of a pod that ended."""
        state = {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error",
                                "startedAt": "2024-01-01T00:00:00Z", "finishedAt": "2024-01-01T00:00:01Z"}}
        pod = self.get(f"/api/v1/namespaces/{ns}/pods/{name}")
        containers = [{"name": c["name"], "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
                      for c in pod["spec"]["containers"]]
        status, body = self.request(
            "PATCH", f"/api/v1/namespaces/{ns}/pods/{name}/status",
            {"status": {"phase": phase, "containerStatuses": containers}}, "application/merge-patch+json")
        assert status == 200, body


class Manager:
    """`paddle-operator manager` against a cluster."""

    def __init__(self, cluster, *flags):
        self.metrics_port = free_port()
        self.health_port = free_port()
        self.log = tempfile.NamedTemporaryFile("w+", prefix="manager-", suffix=".log", delete=False)
        self.process = subprocess.Popen(
            [OPERATOR, "manager", "--kubeconfig", cluster.info["kubeconfig"],
             f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
             f"--health-probe-bind-address=127.0.0.1:{self.health_port}", *flags],
            stderr=self.log,
        )

    def wait_ready(self, seconds=60):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"the manager ended: {self.output()}")
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=2).status == 200
            except OSError:
                return False
        wait_for(ready, "the manager is ready", seconds)
        return self

    def output(self):
        return pathlib.Path(self.log.name).read_text()

    def requests(self):
        """Requests to the API server so far, by verb and resource; watches and leases left out."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5).read().decode()
        found = {}
        for line in text.splitlines():
            if not line.startswith("paddleop_kube_requests_total{"):
                continue
            labels = dict(part.split("=", 1) for part in line[line.index("{") + 1:line.index("}")].split(","))
            verb, resource = labels["verb"].strip('"'), labels["resource"].strip('"')
            if verb in ("watch", "list") or resource.startswith("leases"):
                continue
            found[verb, resource] = found.get((verb, resource), 0) + int(float(line.rsplit(" ", 1)[1]))
        return found

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(30)
        text = self.output()
        os.unlink(self.log.name)
        assert "ERROR: AddressSanitizer" not in text and "runtime error:" not in text, text
        return code


def job(name, ns="default", *, ps=0, workers=0, spec=None, pod=None):
    pod = pod or {"containers": [{"name": "paddle", "image": "paddle"}]}
    body = dict(spec or {})
    for role, replicas in (("ps", ps), ("worker", workers)):
        if replicas:
            body[role] = {"replicas": replicas, "template": {"spec": pod}}
    return {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
            "metadata": {"name": name, "namespace": ns}, "spec": body}
