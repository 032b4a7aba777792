"""The SampleSet and SampleJob controllers on a real API server, scheduler and controller-manager; cases side by side.

Runtimes are stand-ins (fake_runtime.py) whose jobs end as the test wants; sampleset_runtime_test.py has the real ones.
The managers run as their ServiceAccounts of deploy/, with no more rights than those have."""

import base64
import os
import pathlib
import shutil
import tempfile
import time
import unittest

from sets import JOBS, NS, SETS, SetHelpers, encoded, sample_job, sample_set, secret, wait_for  # isort: skip
from cluster import DATA, ROOT, Cluster, Manager
from fake_runtime import FakeRuntime, Store
from kubelet import Kubelet
from official_runtime import OfficialRuntime
from parallel import ParallelSuite, alone


MORTAL = ["mortal-0", "mortal-1", "mortal-2"]  # nodes for the set that loses one


def volume_secret(name, ns, end="\n"):
    """As `echo ... | base64` makes it: with the line's end."""
    return secret(name, ns, name=name + end, storage="redis" + end, bucket="redis://192.0.2.1:6379/1" + end,
                  metaurl="redis://192.0.2.1:6379/0" + end)


class SampleSets(SetHelpers):
    stores = {}  # by the name of the set
    identities = []
    kubelet = sets = jobs = sources = official = None

    @classmethod
    def start(cls):
        cls.sources = tempfile.mkdtemp(prefix="sources-")
        cls.cluster = Cluster("--controllers")
        for ns in (NS, "other"):
            cls.cluster.namespace(ns)
        for manifest in ("v1/operator.yaml", "extensions/controllers.yaml"):
            cls.cluster.kubectl("apply", "-f", ROOT / "deploy" / manifest)
        # The test runs the managers itself.
        cls.cluster.kubectl("-n", NS, "delete", "deployment", "--all", "--wait=false")
        cls.kubelet = Kubelet(cls.cluster, ["node-0", "node-1", "node-2", *MORTAL], cls.make_runtime, taints={
            name: [{"key": "mortal", "effect": "NoSchedule"}] for name in MORTAL})
        cls.sets, cls.jobs = cls.manager("sampleset"), cls.manager("samplejob")
        cls.sets.wait_ready()
        cls.jobs.wait_ready()

    @classmethod
    def manager(cls, name):
        cls.identities.append(cls.cluster.kubeconfig_of(NS, f"paddle-{name}-manager"))
        more = [f"--source-dir={cls.sources}"] if name == "sampleset" else []
        return Manager(cls.cluster, f"--controllers={name}", "--leader-elect", *more, kubeconfig=cls.identities[-1].name)

    @classmethod
    def make_runtime(cls, pod, ip, auth, volume, root, command):
        if "--driver=juicefs" in command:
            cls.official = OfficialRuntime(pod, ip, auth, volume, root, command)
            return cls.official
        store = cls.stores.setdefault(pod.rsplit("-runtime-", 1)[0], Store())
        return FakeRuntime(pod, ip, auth, store, f"{pod} on {pathlib.Path(root).name}")

    @classmethod
    def stop(cls):
        codes = [manager.stop() for manager in (cls.sets, cls.jobs) if manager]
        if cls.kubelet:
            cls.kubelet.close()
        if cls.cluster:
            cls.cluster.close()
        for identity in cls.identities:
            identity.close()
        shutil.rmtree(cls.sources, ignore_errors=True)
        assert codes == [0, 0], codes

    # --- the walk through the seeds ---

    def test_e1_to_e7(self):
        self.create(volume_secret("imagenet", NS))
        self.cluster.kubectl("create", "-f", DATA / "seeds-sampleset.yaml")
        self.wait_phase("sampleset", "imagenet", "Ready")
        store = self.stores["imagenet"]
        header, rows = self.rows("-n", NS, "get", "sampleset", "imagenet")
        self.assertEqual(header, ["NAME", "TOTAL SIZE", "CACHED SIZE", "AVAIL SPACE", "RUNTIME", "PHASE", "AGE"])
        self.assertEqual(rows[0][:6], ["imagenet", "58 MiB", "58 MiB", "12 GiB", "1/1", "Ready"])
        header, rows = self.rows("-n", NS, "get", "pods", "imagenet-runtime-0")
        self.assertEqual(rows[0][:3], ["imagenet-runtime-0", "1/1", "Running"])
        kind, _, body = store.posts[0]
        self.assertEqual(kind, "sync")
        self.assertEqual(body["sources"], [{"uri": "bos://paddleflow-public.hkg.bcebos.com/imagenet/demo"}])
        copy = self.cluster.get(f"/api/v1/namespaces/{NS}/secrets/imagenet-volume")["data"]
        self.assertEqual(copy["metaurl"], encoded("redis://192.0.2.1:6379/0"))
        volume = self.cluster.get("/api/v1/persistentvolumes/imagenet")
        self.assertEqual(volume["status"]["phase"], "Bound")
        self.assertEqual(volume["spec"]["csi"]["driver"], "csi.samplefs.paddlepaddle.org")
        node = self.cluster.pods(NS)["imagenet-runtime-0"]["spec"]["nodeName"]
        self.assertEqual(self.cluster.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
                         ["paddlepaddle.org/juicefs-imagenet"], "imagenet-runtime-0")

        self.run_job(sample_job("imagenet-rmr", "rmr", "imagenet", rmrOptions={"paths": ["n01514859"]}))
        self.assert_sizes("0 B", "0 B")
        store.total, store.files = 4_509_715_660, 128_660
        self.run_job(sample_job("imagenet-sync", "sync", "imagenet", secretRef={"name": "imagenet"},
                                syncOptions={"source": "bos://paddleflow-public.hkg.bcebos.com/imagenet"}))
        self.assert_sizes("4.2 GiB", "4.2 GiB")
        self.run_job(sample_job("imagenet-clear", "clear", "imagenet"))
        self.assert_sizes("4.2 GiB", "0 B")
        self.run_job(sample_job("imagenet-warmup", "warmup", "imagenet"))
        self.assert_sizes("4.2 GiB", "4.2 GiB")
        header, _ = self.rows("-n", NS, "get", "samplejob", "imagenet-warmup", "-o", "wide")
        self.assertEqual(header, ["NAME", "PHASE", "TYPE", "PROGRESS", "RATE", "ETA", "MESSAGE", "AGE"])
        for kind in ("rmr", "sync", "clear", "warmup"):
            self.delete("SampleJob", f"imagenet-{kind}")
        self.drop("imagenet")

    def run_job(self, body):
        name = body["metadata"]["name"]
        self.create(body)
        self.assertEqual(self.wait_phase("samplejob", name, "Succeeded", "Failed")["phase"], "Succeeded",
                         self.described("samplejob", name))
        header, rows = self.rows("-n", NS, "get", "samplejob", name)
        self.assertEqual(header, ["NAME", "PHASE"])
        self.assertEqual(rows, [[name, "Succeeded"]])

    def assert_sizes(self, total, cached):
        def shown():
            status = self.set("imagenet")["status"]["cacheStatus"]
            return (status["totalSize"], status["cachedSize"]) == (total, cached)
        wait_for(shown, f"{total} of which {cached} are cached")

    # --- more than the seeds show ---

    def test_two_sets_of_one_name(self):
        for ns in (NS, "other"):
            self.create(volume_secret("twin", ns), sample_set("twin", ns))
        first = self.wait_phase("sampleset", "twin", "Ready")
        second = self.wait_phase("sampleset", "twin", "Ready", ns="other")
        self.assertNotEqual(first["volumeName"], second["volumeName"])
        self.assertNotEqual(first["nodeLabel"], second["nodeLabel"])
        for ns, status in ((NS, first), ("other", second)):
            claim = self.cluster.get(f"/api/v1/namespaces/{ns}/persistentvolumeclaims/twin")
            self.assertEqual(claim["spec"]["volumeName"], status["volumeName"])
            self.assertEqual(claim["status"]["phase"], "Bound")
        self.drop("twin", ns=NS)
        still = self.set("twin", "other")["status"]
        self.assertEqual(still["phase"], "Ready")
        self.assertIsNotNone(self.cluster.get(f"/api/v1/persistentvolumes/{second['volumeName']}"))
        self.drop("twin", ns="other")

    def test_deletion_waits_and_leaves_nothing(self):
        self.create(volume_secret("gone", NS), sample_set("gone", partitions=2))
        self.wait_phase("sampleset", "gone", "Ready")
        self.create({"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
                     "metadata": {"name": "trainer", "namespace": NS},
                     "spec": {"sampleSetRef": {"name": "gone", "mountPath": "/data"},
                              "worker": {"replicas": 1, "template": {"spec": {"containers": [
                                  {"name": "c", "image": "i"}]}}}}})
        self.cluster.request("DELETE", SETS.format(NS, "gone"))
        wait_for(lambda: "trainer" in self.condition("sampleset", "gone", "Deletable").get("message", ""),
                 "a condition that names the job")
        self.assertEqual(len([p for p in self.cluster.pods(NS) if p.startswith("gone-runtime")]), 2)
        self.delete("PaddleJob", "trainer")
        self.drop("gone")
        self.assertEqual(self.stores["gone"].purged, {"gone-runtime-0", "gone-runtime-1"})
        for path in ("persistentvolumes/gone", f"namespaces/{NS}/persistentvolumeclaims/gone",
                     f"namespaces/{NS}/services/gone-runtime-service", f"namespaces/{NS}/secrets/gone-runtime-auth",
                     f"namespaces/{NS}/secrets/gone-volume"):
            self.assertIsNone(self.cluster.get(f"/api/v1/{path}"), path)
        self.assertIsNone(self.cluster.get(f"/apis/apps/v1/namespaces/{NS}/statefulsets/gone-runtime"))
        for node in self.cluster.get("/api/v1/nodes")["items"]:
            self.assertNotIn("paddlepaddle.org/juicefs-gone", node["metadata"]["labels"])

    def test_scaling(self):
        self.create(volume_secret("grow", NS), sample_set("grow"))
        self.wait_phase("sampleset", "grow", "Ready")
        self.change(sample_set("grow"), {"spec": {"partitions": 3}})
        wait_for(lambda: self.set("grow")["status"].get("runtimeStatus", {}).get("runtimeReady") == "3/3", "3/3")
        self.wait_phase("sampleset", "grow", "Ready")
        self.assertEqual(self.set("grow")["status"]["warmedPartitions"], 3)
        self.assertEqual(len(self.stores["grow"].peers["grow-runtime-2"]["peers"]), 3)
        self.change(sample_set("grow"), {"spec": {"partitions": 2}})
        wait_for(lambda: len([p for p in self.cluster.pods(NS) if p.startswith("grow-runtime")]) == 2, "two pods")
        self.wait_phase("sampleset", "grow", "Ready")
        kinds = [(kind, body.get("options", body).get("partitions")) for kind, _, body in self.stores["grow"].posts]
        self.assertEqual([k for k, _ in kinds], ["sync", "warmup", "warmup"])
        self.drop("grow")

    def test_a_dead_node_is_replaced(self):
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": MORTAL}
        self.create(volume_secret("dead", NS), sample_set(
            "dead", partitions=2, tolerations=[{"key": "mortal", "operator": "Exists"}],
            nodeAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [here]}]}}))
        self.wait_phase("sampleset", "dead", "Ready")
        node = self.cluster.pods(NS)["dead-runtime-1"]["spec"]["nodeName"]
        label = self.set("dead")["status"]["nodeLabel"]
        self.kubelet.dead.add(node)
        self.addCleanup(self.kubelet.dead.discard, node)
        # What the node controller does when a node has not been heard of for long enough.
        self.cluster.request("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": [
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": ""}]}},
            "application/merge-patch+json")
        self.cluster.request("PATCH", f"/api/v1/namespaces/{NS}/pods/dead-runtime-1/status", {"status": {"conditions": [
            {"type": "Ready", "status": "False"}]}}, "application/merge-patch+json")
        wait_for(lambda: node in self.condition("sampleset", "dead", "RuntimeReady").get("message", ""),
                 lambda: f"a condition that names {node}: {self.condition('sampleset', 'dead', 'RuntimeReady')}")
        self.cluster.request("DELETE", f"/api/v1/namespaces/{NS}/pods/dead-runtime-1", {"gracePeriodSeconds": 1})
        wait_for(lambda: self.cluster.pods(NS).get("dead-runtime-1", {}).get("spec", {}).get("nodeName")
                 not in (node, None), "the partition is on another node")
        self.wait_phase("sampleset", "dead", "Ready")
        labelled = {n["metadata"]["name"]: n["metadata"]["labels"][label]
                    for n in self.cluster.get("/api/v1/nodes")["items"] if label in n["metadata"]["labels"]}
        self.assertEqual(sorted(labelled.values()), ["dead-runtime-0", "dead-runtime-1"])
        self.assertNotIn(node, labelled)
        self.assertEqual([kind for kind, _, _ in self.stores["dead"].posts], ["sync", "warmup"])
        self.kubelet.dead.discard(node)
        self.drop("dead")

    def test_bad_input_is_said_where_it_is(self):
        self.create(sample_set("lost"))
        wait_for(lambda: self.condition("sampleset", "lost", "SecretReady").get("reason") == "ErrorSecretNotExist",
                 "a condition about the Secret")
        self.assertIn("ErrorSecretNotExist", wait_for(lambda: self.cluster.events(NS, "lost"), "an event"))
        self.create(secret("lost", NS, name="lost", storage="redis"))
        wait_for(lambda: "bucket, metaurl" in self.condition("sampleset", "lost", "SecretReady")["message"],
                 "the missing keys")
        self.delete("Secret", "lost")
        self.create(volume_secret("lost", NS))
        self.wait_phase("sampleset", "lost", "Ready")
        self.create(sample_job("bad-path", "rmr", "lost", rmrOptions={"paths": ["../etc"]}),
                    sample_job("bad-options", "clear", "lost", warmupOptions={"threads": 3}),
                    sample_job("bad-cron", "clear", "lost", schedule="61 * * * *"),
                    sample_job("bad-set", "clear", "nowhere"))
        for name, kind, text in (("bad-path", "Accepted", "spec.rmrOptions.paths[0]"),
                                 ("bad-options", "Accepted", "spec.warmupOptions"),
                                 ("bad-cron", "Scheduled", "spec.schedule"),
                                 ("bad-set", "Accepted", "spec.sampleSetRef.name")):
            wait_for(lambda: text in self.condition("samplejob", name, kind).get("message", ""), f"{name}: {text}")
            wait_for(lambda: any(text in m for m in self.cluster.events(NS, name).values()), f"{name}: an event")
        refused = self.cluster.kubectl("-n", NS, "patch", "sampleset", "lost", "--type=merge", "-p",
                                       '{"spec":{"cache":{"levels":[{"path":"/elsewhere"}]}}}', check=False)
        self.assertIn("cache cannot change", refused.stderr)
        for name in ("bad-path", "bad-options", "bad-cron", "bad-set"):
            self.delete("SampleJob", name)
        self.drop("lost")

    def test_jobs_fail_stop_and_come_by_schedule(self):
        self.create(volume_secret("busy", NS), sample_set("busy"))
        self.wait_phase("sampleset", "busy", "Ready")
        store = self.stores["busy"]
        self.create(sample_job("every-minute", "clear", "busy", schedule="* * * * *", timeZone="Asia/Shanghai",
                               successfulJobsHistoryLimit=1))
        store.outcome["rmr"] = "running"
        self.create(sample_job("long", "rmr", "busy", rmrOptions={"paths": ["a"]}))
        running = self.wait_phase("samplejob", "long", "Running")
        self.assertEqual(running["progress"]["percent"], "40%")
        self.assertEqual(running["progress"]["rate"], "120 MiB/s")
        self.assertEqual(running["progress"]["eta"], "3m20s")
        name = running["jobName"]
        self.jobs.process.kill()  # a manager that dies takes nothing with it, and nothing runs twice
        self.jobs.process.wait()
        type(self).jobs = self.manager("samplejob").wait_ready()
        wait_for(lambda: self.job("long")["status"]["phase"] == "Running", "still running")
        self.assertEqual([p[1] for p in store.posts if p[0] == "rmr"], [name])
        self.delete("SampleJob", "long")
        self.assertIn(name, store.cancelled)
        store.outcome["rmr"] = "failed"
        store.message = "n1: no such directory"
        self.create(sample_job("doomed", "rmr", "busy", rmrOptions={"paths": ["n1"]}, ttlSecondsAfterFinished=2))
        wait_for(lambda: self.job("doomed") is None, "gone after its time")
        self.assertIn(store.message, self.cluster.wait_event(NS, "doomed", "ErrorDoRmrJob"))
        store.message = ""

        def children():
            items = self.cluster.get(JOBS.format(NS, ""))["items"]
            return [j for j in items if j["metadata"]["name"].startswith("every-minute-")]
        wait_for(lambda: any(j.get("status", {}).get("phase") == "Succeeded" for j in children()),
                 "a job made by the schedule")
        parent = self.job("every-minute")
        self.assertEqual(parent["status"]["phase"], "Scheduled")
        self.delete("SampleJob", "every-minute")
        wait_for(lambda: not children(), "its jobs go with it")
        self.drop("busy")

    # --- the official client, for real ---

    def test_the_official_driver(self):
        source, home = pathlib.Path(self.sources, "images"), pathlib.Path(self.sources, "official")
        for folder in (source, home):
            folder.mkdir()
        content = {f"{i:03d}.jpg": os.urandom(20_000) for i in range(50)}
        for name, data in content.items():
            (source / name).write_bytes(data)
        self.create(secret("official", NS, name="official", storage="file", bucket=f"{home}/blocks/",
                           metaurl=f"sqlite3://{home}/meta.db"),
                    sample_set("official", csi={"driver": "juicefs"}, source={"uri": f"file://{source}/"}))
        self.wait_phase("sampleset", "official", "Ready")
        volume = self.cluster.get("/api/v1/persistentvolumes/official")["spec"]["csi"]
        self.assertEqual((volume["driver"], volume["fsType"]), ("csi.juicefs.com", "juicefs"))
        self.assertEqual(volume["nodePublishSecretRef"], {"name": "official-volume", "namespace": NS})
        pod = self.cluster.pods(NS)["official-runtime-0"]["spec"]
        self.assertIn({"name": "data", "persistentVolumeClaim": {"claimName": "official"}}, pod["volumes"])
        mount = self.official.mount
        self.assertEqual({f.name: f.read_bytes() for f in mount.iterdir() if f.suffix == ".jpg"}, content)

        def cached():
            cache = self.set("official")["status"]["cacheStatus"]
            return [cache[member] for member in ("totalSize", "totalFiles", "cachedSize", "cachedPercent")]
        for kind, size, percent in (("clear", "0 B", "0%"), ("warmup", "977 KiB", "100%")):
            self.run_job(sample_job(f"official-{kind}", kind, "official"))
            wait_for(lambda: cached() == ["977 KiB", "50", size, percent],
                     lambda: f"after {kind}: {self.described('sampleset', 'official')}")
        self.run_job(sample_job("official-rmr", "rmr", "official", rmrOptions={"paths": ["000.jpg"]}))
        self.assertFalse((mount / "000.jpg").exists())
        self.run_job(sample_job("official-sync", "sync", "official"))
        self.assertEqual((mount / "000.jpg").read_bytes(), content["000.jpg"])
        for kind in ("clear", "warmup", "rmr", "sync"):
            self.delete("SampleJob", f"official-{kind}")
        self.drop("official")

    @alone
    def test_idle_sets_cost_no_writes_and_nothing_secret_is_seen(self):
        self.create(volume_secret("calm", NS), secret("keys", NS, access_key="AKVISIBLE", secret_key="SKHIDDEN"),
                    sample_set("calm", source={"uri": "s3://b.host/p", "secretRef": {"name": "keys"}}))
        self.wait_phase("sampleset", "calm", "Ready")
        self.assertEqual(self.stores["calm"].posts[0][2]["sources"][0]["secretKey"], "SKHIDDEN")
        def writes():
            return {k: v for k, v in self.sets.requests().items() if k[0] != "get"}

        def quiet():
            before = writes()
            time.sleep(22)  # runtimes are asked every 10 s, Secrets read every 20
            return writes() == before
        wait_for(quiet, "22 s without a write", 60)
        seen = self.sets.output() + self.jobs.output()
        for kind in ("sampleset", "samplejob", "statefulset", "pod", "pv", "pvc", "service", "event", "node"):
            seen += self.cluster.kubectl("get", kind, "-A", "-o", "json")
        token = base64.b64decode(self.cluster.get(f"/api/v1/namespaces/{NS}/secrets/calm-runtime-auth")
                                 ["data"]["token"]).decode()
        for text in ("SKHIDDEN", "AKVISIBLE", token, "PRIVATE KEY"):
            self.assertNotIn(text, seen)
        self.drop("calm")
        self.delete("Secret", "keys")


def load_tests(loader, _, __):
    return ParallelSuite([loader.loadTestsFromTestCase(SampleSets)], SampleSets.start, SampleSets.stop)


if __name__ == "__main__":
    unittest.main()
