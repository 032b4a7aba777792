"""Nodes of a real API server whose pods are run by this test: runtime pods as servers on loopback addresses."""

import base64
import datetime
import pathlib
import shutil
import tempfile
import threading
import time


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Kubelet:
    """Registers nodes, reports them ready, and runs their pods. `make(pod, ip, auth, volume, root, command)`
    starts a runtime; other pods are only said to run."""

    def __init__(self, cluster, names, make, address="127.0.77", taints=None):
        self.cluster, self.names, self.make, self.address = cluster, list(names), make, address
        self.taints = taints or {}  # by node
        self.root = tempfile.mkdtemp(prefix="kubelet-")
        self.running = {}  # uid: (pod, runtime or None, ready)
        self.dead = set()  # nodes that say nothing any more
        self.next_ip = 1
        self.stopping = threading.Event()
        for name in self.names:
            self._register(name)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self):
        self.stopping.set()
        self.thread.join(60)
        for _, runtime, _ in self.running.values():
            if runtime:
                runtime.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def runtime(self, pod_name):
        for pod, runtime, _ in self.running.values():
            if pod["metadata"]["name"] == pod_name:
                return runtime
        return None

    def _register(self, name):
        self.cluster.request("POST", "/api/v1/nodes", {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": self.taints.get(name, [])}})
        self._report(name)

    def _report(self, name):
        size = {"cpu": "32", "memory": "64Gi", "pods": "110"}
        self.cluster.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {
            "capacity": size, "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                            "lastHeartbeatTime": now()[:19] + "Z", "lastTransitionTime": now()[:19] + "Z"}]}},
            "application/merge-patch+json")
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"},
                 "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()}}
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        status, _ = self.cluster.request("PATCH", f"{path}/{name}", {"spec": lease["spec"]},
                                         "application/merge-patch+json")
        if status == 404:
            self.cluster.request("POST", path, lease)

    def _run(self):
        reported = 0.0
        while not self.stopping.wait(0.25):
            try:
                if time.monotonic() - reported > 10:
                    for name in self.names:
                        if name not in self.dead:
                            self._report(name)
                    reported = time.monotonic()
                self._pass()
            except (OSError, KeyError, TypeError):
                continue  # the API server is away; a kubelet goes on

    def _pass(self):
        pods = {p["metadata"]["uid"]: p for p in self.cluster.get("/api/v1/pods")["items"]
                if p["spec"].get("nodeName") in self.names and p["spec"].get("nodeName") not in self.dead}
        for uid in list(self.running):
            if uid not in pods:
                _, runtime, _ = self.running.pop(uid)
                if runtime:
                    runtime.stop()
        for uid, pod in pods.items():
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            if "deletionTimestamp" in meta:
                _, runtime, _ = self.running.pop(uid, (None, None, None))
                if runtime:
                    runtime.stop()
                self.cluster.request("DELETE", path, {"gracePeriodSeconds": 0})
            elif uid not in self.running:
                self._start(pod, path)
            else:
                self._follow(uid, path)

    def _start(self, pod, path):
        container = pod["spec"]["containers"][0]
        ip = f"{self.address}.{self.next_ip}"
        runtime = None
        if container["name"] == "runtime":
            folders = self._materialise(pod)
            if folders is None:
                return  # a Secret is missing; a kubelet tries again
            root = pathlib.Path(self.root) / pod["spec"]["nodeName"]
            root.mkdir(exist_ok=True)
            runtime = self.make(pod["metadata"]["name"], ip, folders["auth"], folders["volume"], str(root),
                                container["command"])
        self.next_ip += 1
        self.running[pod["metadata"]["uid"]] = (pod, runtime, None)
        pod["status"]["podIP"] = ip
        self._set(path, container["name"], ip, runtime is None)
        if runtime is None:
            self.running[pod["metadata"]["uid"]] = (pod, None, True)

    def _follow(self, uid, path):
        pod, runtime, ready = self.running[uid]
        if runtime is None:
            return
        self._materialise(pod)
        is_ready = runtime.ready()
        if is_ready != ready:
            self._set(path, "runtime", pod["status"]["podIP"], is_ready)
            self.running[uid] = (pod, runtime, is_ready)

    def _set(self, path, container, ip, ready):
        self.cluster.request("PATCH", path + "/status", {"status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "startTime": now()[:19] + "Z",
            "conditions": [{"type": t, "status": "True" if ready or t == "PodScheduled" else "False"}
                           for t in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
            "containerStatuses": [{"name": container, "image": "i", "imageID": "", "ready": ready,
                                   "restartCount": 0, "started": True,
                                   "state": {"running": {"startedAt": now()[:19] + "Z"}}}]}},
            "application/merge-patch+json")

    def _materialise(self, pod):
        """The Secret volumes of a pod as folders; None while one is missing."""
        ns = pod["metadata"]["namespace"]
        folders = {}
        for volume in pod["spec"]["volumes"]:
            sources = []
            if "secret" in volume:
                sources = [(volume["secret"]["secretName"], None, False)]
            elif "projected" in volume:
                sources = [(s["secret"]["name"], [i["key"] for i in s["secret"]["items"]],
                            s["secret"].get("optional", False))
                           for s in volume["projected"]["sources"] if "secret" in s]
            if not sources:
                continue
            folder = pathlib.Path(self.root) / pod["metadata"]["uid"] / volume["name"]
            folder.mkdir(parents=True, exist_ok=True)
            for name, keys, optional in sources:
                secret = self.cluster.get(f"/api/v1/namespaces/{ns}/secrets/{name}")
                if secret is None:
                    if optional:
                        continue
                    return None
                for key, value in secret.get("data", {}).items():
                    if keys is not None and key not in keys:
                        continue
                    data = base64.b64decode(value)
                    file = folder / key
                    if not file.exists() or file.read_bytes() != data:
                        fresh = folder / f".{key}.new"
                        fresh.write_bytes(data)
                        fresh.rename(file)
            folders[volume["name"]] = str(folder)
        return folders
