"""Sets of several partitions with Redis and MinIO: sources, scaling, lost caches, nodes that die, keys that change."""

import os
import pathlib
import secrets
import shutil
import signal
import tempfile

from real import NS, SMALL, SMALL_SIZE, TRAIN, Peer, RealCase, process_root, put_small, wait_for, world
from sets import sample_job, sample_set, secret


class Partitions(RealCase):
    # --- three partitions ---

    def test_three_partitions(self):
        info = world.minio.info
        right = self.source_keys("source-keys")
        wrong = secret("source-keys", NS, access_key=info["access_key"] + "\n", secret_key="not-this-one\n")
        body = sample_set("three", partitions=3, sources=[
            self.source("source-keys"),
            {"uri": f"minio://{self.endpoint()}/public/imagenet/train/n00000000/", "path": "extra"}])
        del body["spec"]["source"]
        self.create(wrong, self.volume_secret("three", 2), body)
        # A wrong key is said; the right one, put into the Secret, is taken up.
        self.wait_phase("sampleset", "three", "SyncFailed")
        self.assertEqual(self.condition("sampleset", "three", "Synced")["status"], "False")
        self.change(wrong, {"data": right["data"]})
        status = self.wait_phase("sampleset", "three", "Ready")
        self.files = SMALL + TRAIN // 3
        self.wait_cached("three", self.files)
        self.assertEqual(sorted(p["node"] for p in status["partitions"]), ["node-0", "node-1", "node-2"])
        self.scaling(body)
        wait_for(lambda: all(p.get("cachedBytes", 0) > 0 for p in self.set("three")["status"]["partitions"]),
                 lambda: f"every partition has something: {self.set('three')['status']['partitions']}")
        for restart in (False, True):
            self.wiped(restart)
        self.drop("three")
        self.assertEqual(self.cached_blocks("three"), [])
        seen = world.agent.output() + "".join(manager.output() for manager in world.managers.values())
        seen += "".join(log.read_text() for log in (world.agent.data / "d/pods").glob("*/containers/*/*/log"))
        for text in ("not-this-one", info["secret_key"]):
            self.assertNotIn(text, seen)
        self.delete("Secret", "source-keys")

    def scaling(self, body):
        """Down to two partitions and up again: nothing is fetched that a partition has."""
        for partitions in (2, 3):
            self.change(body, {"spec": {"partitions": partitions}})
            wait_for(lambda: len([p for p in self.cluster.pods(NS) if p.startswith("three-runtime")]) == partitions,
                     f"{partitions} pods")
            wait_for(lambda: self.set("three")["status"].get("warmedPartitions") == partitions,
                     lambda: f"warmed again: {self.described('sampleset', 'three')}")
            self.wait_phase("sampleset", "three", "Ready")
            self.wait_cached("three", self.files)

    def wiped(self, restart):
        """Somebody empties a node's cache directory, under a runtime that runs or while its pod is replaced."""
        partition = next(p for p in self.set("three")["status"]["partitions"] if p["pod"] == "three-runtime-1")
        folder, = self.cache_folders("three", partition["node"])
        if restart:
            self.cluster.request("DELETE", f"/api/v1/namespaces/{NS}/pods/three-runtime-1")
        empty(folder)
        wait_for(lambda: next((p for p in self.set("three")["status"]["partitions"] if p["pod"] == "three-runtime-1"
                               and p.get("cacheID", partition["cacheID"]) != partition["cacheID"]), None),
                 lambda: f"the loss is noticed: {self.described('sampleset', 'three')}")
        wait_for(lambda: self.cached_blocks("three", partition["node"]),
                 lambda: f"blocks in the emptied directory: {self.described('sampleset', 'three')}")
        self.wait_phase("sampleset", "three", "Ready")
        self.wait_cached("three", self.files)

    # --- a node that dies ---

    def test_a_node_dies_with_its_runtime(self):
        cache = tempfile.mkdtemp(prefix="dead-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, cache, ignore_errors=True)
        mortal = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["mortal"]}]}
        self.create(self.source_keys("dead-keys"), self.volume_secret("dead", 3), sample_set(
            "dead", partitions=2, source=self.source("dead-keys"), tolerations=[{"key": "mortal", "operator": "Exists"}],
            nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": mortal}]},
            cache={"levels": [{"mediumType": "MEM", "path": f"{cache}/blocks", "cacheSize": 64}]}))
        self.wait_phase("sampleset", "dead", "Ready")
        self.wait_cached("dead", SMALL)
        lost = next(p for p in self.set("dead")["status"]["partitions"] if p["node"] == "mortal")
        process = self.runtime_process("dead", lost["pod"], world.mortal)
        world.mortal.kill()
        os.kill(process, signal.SIGKILL)
        self.cluster.request("DELETE", "/api/v1/nodes/mortal")
        # What is evicted from a node that is gone stays until somebody gives it up.
        self.cluster.request("DELETE", f"/api/v1/namespaces/{NS}/pods/{lost['pod']}", {"gracePeriodSeconds": 1})
        wait_for(lambda: self.cluster.pods(NS).get(lost["pod"], {}).get("spec", {}).get("nodeName") not in ("mortal", None),
                 lambda: f"the partition is on another node: {self.described('sampleset', 'dead')}")
        wait_for(lambda: self.condition("sampleset", "dead", "RuntimeReady").get("status") == "True",
                 lambda: self.described("sampleset", "dead"))
        self.cluster.wait_event(NS, "dead", "NodeLost")
        self.cluster.wait_event(NS, "dead", "CacheLost")
        self.wait_phase("sampleset", "dead", "Ready")
        self.wait_cached("dead", SMALL)
        self.drop("dead")
        self.delete("Secret", "dead-keys")

    # --- keys that change ---

    def test_the_volumes_keys_change(self):
        minio = Peer("minio", "--bucket", "volume", "--bucket", "source")
        self.addCleanup(minio.close)
        put_small(minio)
        self.create(self.source_keys("old-keys", minio=minio), self.volume_secret("rotated", 6, minio=minio),
                    sample_set("rotated", partitions=2, source=self.source("old-keys", minio)))
        self.wait_phase("sampleset", "rotated", "Ready")
        self.wait_cached("rotated", SMALL)
        sleeper = {"spec": {"containers": [{"name": "main", "image": "none", "command": ["sleep", "infinity"]}]}}
        self.create({"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
                     "metadata": {"name": "reader", "namespace": NS},
                     "spec": {"sampleSetRef": {"name": "rotated", "mountPath": "/mnt/rotated"},
                              "worker": {"replicas": 1, "template": sleeper}}})
        self.cluster.wait_phase(NS, "reader", "Running")
        # The old key is good no more.
        minio.info["secret_key"] = secrets.token_hex(16)
        pathlib.Path(minio.info["data_dir"], "root-password").write_text(minio.info["secret_key"])
        minio.command("kill minio")
        minio.command("start minio")
        new = self.volume_secret("rotated", 6, minio=minio)
        self.change(new, {"data": new["data"]})
        # Nodes bring changed Secrets to pods within a minute or so; the runtimes begin anew with them.
        wait_for(lambda: all(self.restarts(f"rotated-runtime-{i}") > 0 for i in range(2)),
                 lambda: f"runtimes with the new keys: {self.described('sampleset', 'rotated')}")
        self.wait_phase("sampleset", "rotated", "Ready")
        self.run_job(sample_job("rotated-clear", "clear", "rotated"))
        # The mount has nothing in its cache and only the old key; its node's runtime has the new one.
        for file in sorted((process_root(f"{world.agent.data}/", "/mnt/rotated") / "train").rglob("*.jpg"))[:40]:
            self.assertEqual(len(file.read_bytes()), SMALL_SIZE)
        self.run_job(sample_job("rotated-warmup", "warmup", "rotated"))
        self.wait_cached("rotated", SMALL)
        self.create(self.source_keys("new-keys", minio=minio))
        self.run_job(sample_job("rotated-sync", "sync", "rotated", secretRef={"name": "new-keys"},
                                syncOptions={"source": self.source("", minio)["uri"], "destination": "again"}))
        self.wait_cached("rotated", 2 * SMALL)
        self.delete("PaddleJob", "reader")
        for name in ("rotated-clear", "rotated-warmup", "rotated-sync"):
            self.delete("SampleJob", name)
        self.drop("rotated")
        for name in ("old-keys", "new-keys"):
            self.delete("Secret", name)

    def restarts(self, pod):
        containers = self.cluster.pods(NS).get(pod, {}).get("status", {}).get("containerStatuses", [])
        return sum(c["restartCount"] for c in containers)

    def run_job(self, body):
        self.create(body)
        status = self.wait_phase("samplejob", body["metadata"]["name"], "Succeeded", "Failed")
        self.assertEqual(status["phase"], "Succeeded", status)

    # --- two namespaces, and a schedule ---

    def test_two_sets_of_one_name_and_a_schedule(self):
        for database, ns in ((4, NS), (5, "other")):
            self.create(self.source_keys("twin-keys", ns), self.volume_secret("twin", database, ns),
                        sample_set("twin", ns, source=self.source("twin-keys")))
        first = self.wait_phase("sampleset", "twin", "Ready")
        second = self.wait_phase("sampleset", "twin", "Ready", ns="other")
        self.create(sample_job("each-minute", "clear", "twin", schedule="* * * * *"))
        self.assertNotEqual(first["volumeName"], second["volumeName"])
        self.assertNotEqual(first["nodeLabel"], second["nodeLabel"])
        for ns in (NS, "other"):
            self.wait_cached("twin", SMALL, ns)

        def made():
            return [name for name in self.cluster.events(NS, "each-minute")]
        wait_for(lambda: self.status_of("samplejob", "each-minute").get("lastScheduleTime"), made)
        self.wait_cache("twin", totalFiles=f"{SMALL:,}", cachedSize="0 B")
        self.wait_cached("twin", SMALL, "other")
        self.delete("SampleJob", "each-minute")
        self.drop("twin")
        self.assertEqual(self.cached_blocks(first["volumeName"]), [])
        self.assertEqual(self.status_of("sampleset", "twin", "other")["phase"], "Ready")
        self.assertNotEqual(self.cached_blocks(second["volumeName"]), [])
        self.drop("twin", ns="other")
        for ns in (NS, "other"):
            self.delete("Secret", "twin-keys", ns)


def empty(folder):
    """Whatever somebody writes meanwhile."""
    def gone():
        for entry in folder.iterdir():
            shutil.rmtree(entry, ignore_errors=True)
        return not any(f.count("_") == 2 for _, _, files in os.walk(folder) for f in files)
    wait_for(gone, "an empty directory")
