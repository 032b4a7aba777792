#!/usr/bin/env python3
"""Measures the PaddleJob controller beside Kubeflow's training-operator, and prints ratios.

Both get the same jobs, one after the other, on the same API server and the same fake nodes (KWOK):
JOBS jobs of 4 workers, created at once. The time is that until all pods run and all jobs say so. A
bare client then writes the same objects: the jobs, their pods, ConfigMaps and Events, and each job's
last status. The manager is also left alone for a minute, and made to watch 10,000 pods. Exits 1 if a bar is missed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
RELEASE = ROOT / "build/release"
os.environ.setdefault("PADDLEOP_BIN_DIR", str(RELEASE / "bin"))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/integration/operator"))

from cluster import Cluster, Manager, job, wait_for  # noqa: E402

WORKERS = 4
WRITER_THREADS = 16
CONTAINER = {"name": "paddle", "image": "paddle", "command": ["python", "train.py"]}
KUBEFLOW = "/apis/kubeflow.org/v1/namespaces/{}/paddlejobs"
# The scheduler must not be what is measured: by default it binds 50 pods a second.
FAST = [f"{part}=--kube-api-{what}=2000" for part in ("kube-scheduler", "kube-controller-manager")
        for what in ("qps", "burst")]


class Process:
    """CPU and memory of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.start = self.cpu()

    def cpu(self) -> float:
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def spent(self) -> float:
        return self.cpu() - self.start

    def memory(self, field: str = "VmRSS") -> float:
        """MiB."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{field}:\s+(\d+)", text)[1]) / 1024


def kubeflow_job(name: str) -> dict:
    worker = {"replicas": WORKERS, "restartPolicy": "Never", "template": {"spec": {"containers": [CONTAINER]}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PaddleJob", "metadata": {"name": name},
            "spec": {"paddleReplicaSpecs": {"Worker": worker}}}


def our_job(name: str) -> dict:
    return job(name, workers=WORKERS, pod={"containers": [CONTAINER], "restartPolicy": "Never"})


def create_all(cluster: Cluster, path: str, bodies: list) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda body: cluster.post(path, body), bodies))


class RunningPods:
    """Watches a namespace and counts the pods that have begun to run."""

    def __init__(self, cluster: Cluster, ns: str) -> None:
        self._names: set[bytes] = set()
        self._done = False
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{ns}/pods?watch=true"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._done:  # a watch that has ended starts again with all that there is
            for line in self._cluster.stream(self._path):
                # The events are big and many, and the machine is being measured: nothing is parsed.
                if b'"phase":"Running"' in line:
                    self._names.add(re.search(rb'"metadata":\{"name":"([^"]+)"', line)[1])
                if self._done:
                    return

    def wait(self, pods: int) -> None:
        wait_for(lambda: len(self._names) >= pods, lambda: f"{pods} pods run, {len(self._names)} do", 400)
        self._done = True


def remove(cluster: Cluster, ns: str, paths: list) -> None:
    for path in paths:
        cluster.request("DELETE", path, {"propagationPolicy": "Background"})
    wait_for(lambda: not cluster.get(f"/api/v1/namespaces/{ns}/pods?limit=1")["items"], f"{ns} is empty", 400)


def measure_peer(cluster: Cluster, jobs: int) -> dict:
    ns = cluster.namespace("peer")
    process = Process(cluster.info["pids"]["training-operator"])
    before = peer_requests(cluster)
    running = RunningPods(cluster, ns)
    started = time.monotonic()
    create_all(cluster, KUBEFLOW.format(ns), [kubeflow_job(f"j{i}") for i in range(jobs)])
    running.wait(jobs * WORKERS)

    def all_say_so():
        items = cluster.get(KUBEFLOW.format(ns) + "?resourceVersion=0")["items"]
        return sum(any(c["type"] == "Running" and c["status"] == "True" for c in i.get("status", {}).get("conditions") or [])
                   for i in items) == jobs
    wait_for(all_say_so, "all jobs say that they run", 400)
    seconds = time.monotonic() - started
    time.sleep(3)
    result = {"seconds": seconds, "requests": (peer_requests(cluster) - before) / jobs,
              "cpu": process.spent() * 1000 / jobs, "memory": process.memory()}
    remove(cluster, ns, [KUBEFLOW.format(ns)])
    cluster.command("stop training-operator")
    return result


def peer_requests(cluster: Cluster) -> float:
    with urllib.request.urlopen(cluster.info["metrics"], timeout=30) as reply:
        text = reply.read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("rest_client_requests_total{"))


def measure_ours(cluster: Cluster, jobs: int, idle: float) -> tuple[dict, list]:
    """What was measured, and the objects that were written."""
    ns = cluster.namespace("ours")
    manager = Manager(cluster).wait_ready()
    try:
        process = Process(manager.process.pid)
        before = sum(manager.requests(aside=("watch",)).values())
        running = RunningPods(cluster, ns)
        started = time.monotonic()
        create_all(cluster, cluster.jobs(ns), [our_job(f"j{i}") for i in range(jobs)])
        running.wait(jobs * WORKERS)

        def all_say_so():
            items = cluster.get(cluster.jobs(ns) + "?resourceVersion=0")["items"]
            return sum(i.get("status", {}).get("phase") == "Running" for i in items) == jobs
        wait_for(all_say_so, "all jobs say that they run", 400)
        seconds = time.monotonic() - started
        time.sleep(5)  # late counters and events
        spent = manager.requests(aside=("watch",))
        result = {"seconds": seconds, "requests": (sum(spent.values()) - before) / jobs,
                  "cpu": process.spent() * 1000 / jobs, "memory": process.memory(), "peak": process.memory("VmHWM")}
        objects = written(cluster, ns)
        time.sleep(idle)
        result["idle"] = sum(manager.requests(aside=("watch",)).values()) - sum(spent.values())
        remove(cluster, ns, [cluster.jobs(ns)])
    finally:
        manager.stop()
    return result, objects


def written(cluster: Cluster, ns: str) -> list:
    """The pods, ConfigMaps and Events that there are, as they were when they were created, and the jobs' statuses."""
    found = []
    for item in cluster.get(f"/api/v1/namespaces/{ns}/events")["items"]:
        if item["involvedObject"]["kind"] == "PaddleJob":
            clean = {key: value for key, value in item.items() if key != "metadata"}
            found.append(("events", {**clean, "apiVersion": "v1", "kind": "Event",
                                     "metadata": {"name": item["metadata"]["name"]}}))
    for item in cluster.get(cluster.jobs(ns))["items"]:
        found.append(("paddlejobs/status", {"metadata": {"name": item["metadata"]["name"]}, "status": item["status"]}))
    for plural, kind in (("pods", "Pod"), ("configmaps", "ConfigMap")):
        for item in cluster.get(f"/api/v1/namespaces/{ns}/{plural}")["items"]:
            meta = item["metadata"]
            if not meta.get("ownerReferences"):
                continue  # Kubernetes' own
            clean = {"apiVersion": "v1", "kind": kind, "metadata": {
                k: meta[k] for k in ("name", "labels", "annotations") if k in meta}}
            if kind == "Pod":
                spec = item["spec"]
                for key in ("nodeName", "serviceAccount", "serviceAccountName", "volumes", "tolerations", "priority",
                            "preemptionPolicy", "enableServiceLinks"):
                    spec.pop(key, None)
                for container in spec["containers"]:
                    container.pop("volumeMounts", None)
                clean["spec"] = spec
            else:
                clean["data"] = item["data"]
            found.append((plural, clean))
    return found


def write(cluster: Cluster, ns: str, objects: list) -> subprocess.Popen:
    for plural, body in objects:
        if plural == "events":
            body["involvedObject"]["namespace"] = ns
    lines = "".join(f"{plural}\t{ns}\t{json.dumps(body)}\n" for plural, body in objects)
    writer = subprocess.Popen([RELEASE / "bin/kube_writer", cluster.info["kubeconfig"], str(WRITER_THREADS)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    writer.stdin.write(lines)
    writer.stdin.close()
    return writer


def end_of(writer: subprocess.Popen) -> dict:
    answer = json.loads(writer.stdout.read())
    assert writer.wait() == 0, answer
    return answer


def measure_bare(cluster: Cluster, jobs: int, objects: list) -> dict:
    ns = cluster.namespace("bare")
    running = RunningPods(cluster, ns)
    started = time.monotonic()
    statuses = [each for each in objects if each[0] == "paddlejobs/status"]
    writer = write(cluster, ns, [each for each in objects if each[0] != "paddlejobs/status"])
    create_all(cluster, cluster.jobs(ns), [our_job(f"j{i}") for i in range(jobs)])
    end_of(writer)
    end_of(write(cluster, ns, statuses))
    running.wait(jobs * WORKERS)
    seconds = time.monotonic() - started
    remove(cluster, ns, [cluster.jobs(ns), f"/api/v1/namespaces/{ns}/pods?gracePeriodSeconds=0"])
    return {"seconds": seconds, "requests": len(objects) / jobs}


def measure_memory(cluster: Cluster, objects: list, pods: int) -> dict:
    """A manager that watches many pods. Nobody else looks at them."""
    ns = cluster.namespace("many")
    for server in ("kube-scheduler", "kube-controller-manager", "kwok"):
        cluster.command(f"stop {server}")
    one = next(body for plural, body in objects if plural == "pods")
    many = []
    for i in range(pods):
        body = json.loads(json.dumps(one))
        name = f"m{i // WORKERS}-worker-{i % WORKERS}"
        body["metadata"]["name"] = body["metadata"]["labels"]["paddle-res-name"] = name
        body["metadata"]["ownerReferences"] = [{
            "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "name": f"m{i // WORKERS}",
            "uid": f"00000000-0000-0000-0000-{i // WORKERS:012}", "controller": True}]
        many.append(("pods", body))
    end_of(write(cluster, ns, many))
    manager = Manager(cluster).wait_ready()
    try:
        process = Process(manager.process.pid)
        time.sleep(5)
        return {"resident": process.memory(), "peak": process.memory("VmHWM")}
    finally:
        manager.stop()


def table(peer: dict, ours: dict, bare: dict, memory: dict) -> bool:
    def at_most(name, value, bar, unit=""):
        print(f"  {name:<58} {value:8.2f} {unit:<4} bar {bar:g} {'ok' if value <= bar else 'MISSED'}")
        return value <= bar

    print(f"{'':<20}{'seconds':>9}{'requests/job':>14}{'CPU ms/job':>12}{'MiB':>8}")
    for name, row in (("training-operator", peer), ("paddle-operator", ours), ("bare client", bare)):
        print(f"{name:<20}{row['seconds']:>9.1f}{row['requests']:>14.1f}{row.get('cpu', 0):>12.1f}{row.get('memory', 0):>8.1f}")
    checks = [
        at_most("time, of the peer's", ours["seconds"] / peer["seconds"], 0.25),
        at_most("time, of the bare client's", ours["seconds"] / bare["seconds"], 1.3),
        at_most("requests per job", ours["requests"], 10),
        at_most("CPU, of the peer's", ours["cpu"] / peer["cpu"], 1 / 3),
        at_most("memory, of the peer's", ours["memory"] / peer["memory"], 1 / 3),
        at_most("requests while nothing happens", ours["idle"], 0),
    ]
    if memory:
        checks.append(at_most("memory with many pods watched (peak)", memory["peak"], 64, "MiB"))
    return all(checks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--idle", type=float, default=60, help="seconds to leave the manager alone")
    parser.add_argument("--watched", type=int, default=10000, help="pods to watch; 0: leave this out")
    options = parser.parse_args()
    if not (RELEASE / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "paddle-operator", "kube_writer"],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    cluster = Cluster("--controllers", "--kwok", "20", *(word for arg in FAST for word in ("--arg", arg)),
                      peer="training-operator")
    def say(what: str, result: dict) -> dict:
        print(what, json.dumps(result), file=sys.stderr, flush=True)
        return result

    try:
        peer = say("training-operator", measure_peer(cluster, options.jobs))
        ours, objects = measure_ours(cluster, options.jobs, options.idle)
        say("paddle-operator", ours)
        bare = say("bare client", measure_bare(cluster, options.jobs, objects))
        memory = say("many pods", measure_memory(cluster, objects, options.watched)) if options.watched else {}
    finally:
        cluster.close()
    return 0 if table(peer, ours, bare, memory) else 1


if __name__ == "__main__":
    sys.exit(main())
