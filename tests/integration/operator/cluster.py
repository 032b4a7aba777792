"""A real API server with fake nodes, kubectl, and managers of ours, for the tests beside this file."""

import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "tests/data"
BIN = pathlib.Path(os.environ.get("PADDLEOP_BIN_DIR", ROOT / "build/dev/bin"))
OPERATOR = BIN / "paddle-operator"

PATIENCE = 240  # seconds: only a broken operator needs them, however busy the machine is


def wait_for(condition, what, seconds=PATIENCE):
    """The first true value of condition(); fails with what was awaited after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.15)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """tests/peers/peer serve kube, for as long as this object is open. Threads may share it."""

    def __init__(self, *options, peer="kube"):
        self.peer = subprocess.Popen(
            [ROOT / "tests/peers/peer", "serve", peer, "--crds", ROOT / "deploy/v1/crd.yaml", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.peer.stdout.readline()
        if not line:
            raise AssertionError("the kube peer did not start; its message is above")
        self.info = json.loads(line)
        self.tls = ssl.create_default_context(cafile=self.info["ca"])
        self._mine = threading.local()
        self._kept = []  # connections of all threads

    def close(self):
        for connection in self._kept:
            connection.close()
        self.peer.stdin.close()
        self.peer.wait(120)
        self.peer.stdout.close()

    def command(self, line):
        self.peer.stdin.write(line + "\n")
        self.peer.stdin.flush()
        answer = json.loads(self.peer.stdout.readline())
        if not answer["ok"]:
            raise AssertionError(f"{line}: {answer}")

    def kubectl(self, *args, stdin=None, check=True):
        done = subprocess.run(
            [self.info["kubectl"], "--kubeconfig", self.info["kubeconfig"], *map(str, args)],
            input=stdin, capture_output=True, text=True, timeout=PATIENCE,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(map(str, args))}: {done.stderr}")
        return done.stdout if check else done

    def request(self, method, path, body=None, content="application/json"):
        """Status and decoded body of a request to the API server."""
        kept = getattr(self._mine, "connection", None) if method == "GET" else None
        try:
            return self._send(kept or self._connect(), method, path, body, content)
        except (http.client.HTTPException, OSError):
            self._mine.connection = None
            if kept is None:
                raise
        return self._send(self._connect(), method, path, body, content)  # the kept one was closed meanwhile

    def _connect(self):
        host = urllib.parse.urlsplit(self.info["server"]).netloc
        return http.client.HTTPSConnection(host, context=self.tls, timeout=120)

    def _send(self, connection, method, path, body, content):
        connection.request(method, path, None if body is None else json.dumps(body), {
            "Authorization": "Bearer " + self.info["token"], "Content-Type": content})
        reply = connection.getresponse()
        text = reply.read()
        if method == "GET":
            if getattr(self._mine, "connection", None) is not connection:
                self._mine.connection = connection
                self._kept.append(connection)
        else:
            connection.close()
        return reply.status, json.loads(text or b"{}")

    def stream(self, path):
        """The reply of a watch, to be read line by line."""
        connection = self._connect()
        connection.request("GET", path, headers={"Authorization": "Bearer " + self.info["token"]})
        connection.sock.settimeout(None)
        self._kept.append(connection)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        return reply

    def get(self, path):
        """None if there is no such thing, or nobody to ask."""
        try:
            status, body = self.request("GET", path)
        except (http.client.HTTPException, OSError):
            return None
        return body if status == 200 else None

    def post(self, path, body):
        status, reply = self.request("POST", path, body)
        assert status == 201, (path, reply)
        return reply

    def patch(self, path, body):
        status, reply = self.request("PATCH", path, body, "application/merge-patch+json")
        assert status == 200, (path, reply)
        return reply

    def namespace(self, name, **labels):
        self.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        wait_for(lambda: self.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"), f"account in {name}")
        return name

    def kubeconfig_of(self, ns, account):
        """A kubeconfig with the identity of a ServiceAccount; the caller closes the file."""
        token = self.post(f"/api/v1/namespaces/{ns}/serviceaccounts/{account}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}})
        file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [
            {"name": "c", "cluster": {"server": self.info["server"], "certificate-authority": self.info["ca"]}}],
            "users": [{"name": "u", "user": {"token": token["status"]["token"]}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": ns}}]}, file)
        file.flush()
        return file

    # --- our objects ---

    @staticmethod
    def jobs(ns, name=""):
        return f"/apis/batch.paddlepaddle.org/v1/namespaces/{ns}/paddlejobs" + (f"/{name}" if name else "")

    def create(self, ns, body):
        body["metadata"]["namespace"] = ns
        return self.post(self.jobs(ns), body)

    def edit(self, ns, name, spec):
        return self.patch(self.jobs(ns, name), {"spec": spec})

    def job(self, ns, name):
        return self.get(self.jobs(ns, name))

    def status(self, ns, name):
        return (self.job(ns, name) or {}).get("status", {})

    def pods(self, ns, job=None):
        items = (self.get(f"/api/v1/namespaces/{ns}/pods") or {"items": []})["items"]
        return {p["metadata"]["name"]: p for p in items
                if job is None or p["metadata"]["name"].startswith(job + "-")}

    def config_map(self, ns, name):
        return (self.get(f"/api/v1/namespaces/{ns}/configmaps/{name}") or {}).get("data")

    def services(self, ns):
        return {s["metadata"]["name"]: s for s in self.get(f"/api/v1/namespaces/{ns}/services")["items"]}

    def events(self, ns, name):
        items = self.get(f"/api/v1/namespaces/{ns}/events?fieldSelector=involvedObject.name%3D{name}")["items"]
        return {e["reason"]: e["message"] for e in items}

    def wait_event(self, ns, name, reason):
        return wait_for(lambda: self.events(ns, name).get(reason),
                        lambda: f"event {reason} of {name}; there are {self.events(ns, name)}")

    def wait_phase(self, ns, name, *phases, seconds=PATIENCE, **more):
        """The job, once it is in one of the phases and its status has these values besides."""
        def reached():
            status = self.status(ns, name)
            return status.get("phase") in phases and all(status.get(k, 0) == v for k, v in more.items())
        wait_for(reached, lambda: f"{name} is {phases} {more}: {json.dumps(self.status(ns, name))}", seconds)
        return self.job(ns, name)

    def set_pod(self, ns, name, phase, exit_code=0):
        """What a kubelet would report of a pod that ended."""
        state = {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error",
                                "startedAt": "2024-01-01T00:00:00Z", "finishedAt": "2024-01-01T00:00:01Z"}}
        pod = self.get(f"/api/v1/namespaces/{ns}/pods/{name}")
        containers = [{"name": c["name"], "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
                      for c in pod["spec"]["containers"]]
        self.patch(f"/api/v1/namespaces/{ns}/pods/{name}/status",
                   {"status": {"phase": phase, "containerStatuses": containers}})


class Manager:
    """`paddle-operator manager` against a cluster, or against the API server that `kubeconfig` names."""

    def __init__(self, cluster, *flags, kubeconfig=None):
        self.metrics_port = free_port()
        self.health_port = free_port()
        self.log = tempfile.NamedTemporaryFile("w+", prefix="manager-", suffix=".log", delete=False)
        self.stopped = False
        self.process = subprocess.Popen(
            [OPERATOR, "manager", "--kubeconfig", kubeconfig or cluster.info["kubeconfig"],
             f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
             f"--health-probe-bind-address=127.0.0.1:{self.health_port}", *flags],
            stderr=self.log,
        )

    def wait_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"the manager ended: {self.output()}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=10) as reply:
                    return reply.status == 200
            except OSError:
                return False
        wait_for(ready, "the manager is ready")
        return self

    def output(self):
        return pathlib.Path(self.log.name).read_text()

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as reply:
            return reply.read().decode()

    def requests(self, aside=("watch", "list")):
        """Requests to the API server so far, by verb and resource; leases and the verbs `aside` left out."""
        found = {}
        for line in self.metrics().splitlines():
            if not line.startswith("paddleop_kube_requests_total{"):
                continue
            labels = dict(part.split("=", 1) for part in line[line.index("{") + 1:line.index("}")].split(","))
            verb, resource = labels["verb"].strip('"'), labels["resource"].strip('"')
            if verb in aside or resource.startswith("leases"):
                continue
            found[verb, resource] = found.get((verb, resource), 0) + int(float(line.rsplit(" ", 1)[1]))
        return found

    def stop(self, how=signal.SIGTERM):
        """The exit status. What a sanitizer has found fails the test."""
        if self.stopped:
            return self.process.returncode
        self.stopped = True
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(120)
        text = self.output()
        self.log.close()
        os.unlink(self.log.name)
        assert "Sanitizer" not in text and "runtime error:" not in text, text
        return code


def job(name, *, ps=0, workers=0, spec=None, pod=None):
    pod = pod or {"containers": [{"name": "paddle", "image": "paddle"}]}
    body = dict(spec or {})
    for role, replicas in (("ps", ps), ("worker", workers)):
        if replicas:
            body[role] = {"replicas": replicas, "template": {"spec": pod}}
    return {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": name}, "spec": body}
