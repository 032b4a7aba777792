"""The walk through the seeds with nothing imitated: API server, scheduler, controller-manager, Redis, MinIO, our managers
with the rights of deploy/, and nodes that run the pods (`paddle-operator node`): runtime servers and mounts as processes."""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import boto3
import botocore.config

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1] / "operator"), str(HERE.parents[1] / "node")]

from agent import NodeAgent  # noqa: E402
from cluster import BIN, ROOT, Cluster, Manager, wait_for  # noqa: E402
from sampleset_test import NS, Account, SetHelpers, sample_job, sample_set, secret  # noqa: E402

MIB = 1 << 20
# Where the seeds have 58 MiB and 4.2 GiB; "demo" lies in one directory there, too.
DEMO, TRAIN = 58, 42
SMALL, SMALL_SIZE = 240, 20_000
HEADER = ["NAME", "TOTAL SIZE", "CACHED SIZE", "AVAIL SPACE", "RUNTIME", "PHASE", "AGE"]
PUBLIC = {"Version": "2012-10-17", "Statement": [{
    "Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": ["s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"],
    "Resource": ["arn:aws:s3:::public", "arn:aws:s3:::public/*"]}]}


class Peer:
    def __init__(self, *args):
        self.process = subprocess.Popen([ROOT / "tests/peers/peer", "serve", *args], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the peer {args[0]} did not start; its message is above")
        self.info = json.loads(line)

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["ok"], (line, answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class Guide:
    """The commands and manifests of a page."""

    def __init__(self, path):
        text = path.read_text()
        self.yaml = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.lines = [line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines()
                      if line.startswith("    kubectl -n paddle-system ")]

    def commands(self, what):
        return [line for line in self.lines if line.startswith(f"kubectl -n paddle-system {what}")]

    def steps(self):
        return self.lines, [re.sub(r" *#.*", "", text) for text in self.yaml]


class RealRuntimes(SetHelpers):
    @classmethod
    def setUpClass(cls):
        # Pods start `samplefs`, as their image would have it.
        os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
        cls.start_stores()
        cls.cluster = Cluster("--controllers")
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.namespace(NS)
        for manifest in ("v1/operator.yaml", "extensions/controllers.yaml"):
            cls.cluster.kubectl("apply", "-f", ROOT / "deploy" / manifest)
        # The test runs the managers itself.
        cls.cluster.kubectl("-n", NS, "delete", "deployment", "--all", "--wait=false")
        # Caches are in memory unless the set says otherwise, so the nodes' directories are, too.
        tempfile.tempdir = "/dev/shm"
        cls.addClassCleanup(setattr, tempfile, "tempdir", None)
        cls.agent = NodeAgent(cls.cluster, "--nodes=3", "--network=loopback")
        cls.addClassCleanup(lambda: cls.agent.stop())
        cls.managers = {}
        for name in ("sampleset", "samplejob", "paddlejob"):
            cls.start_manager(name)
        cls.addClassCleanup(lambda: [manager.stop() for manager in cls.managers.values()])
        cls.agent.wait_ready(3)
        for manager in cls.managers.values():
            manager.wait_ready()

    @classmethod
    def start_stores(cls):
        cls.redis = Peer("redis", "--appendonly")
        cls.addClassCleanup(cls.redis.close)
        cls.minio = Peer("minio", "--bucket", "public", "--bucket", "source", "--bucket", "volume")
        cls.addClassCleanup(cls.minio.close)
        info = cls.minio.info
        cls.s3 = boto3.client("s3", endpoint_url=info["endpoint"], aws_access_key_id=info["access_key"],
                              aws_secret_access_key=info["secret_key"], region_name="us-east-1",
                              config=botocore.config.Config(max_pool_connections=8))
        cls.s3.put_bucket_policy(Bucket="public", Policy=json.dumps(PUBLIC))
        rng = random.Random(7)
        objects = [("public", f"imagenet/demo/n01514859/{i:05d}.jpg", rng.randbytes(MIB)) for i in range(DEMO)]
        objects += [("public", f"imagenet/train/n{i % 3:08d}/{i:05d}.jpg", rng.randbytes(MIB)) for i in range(TRAIN)]
        objects.append(("public", "imagenet/train_list.txt", b""))
        objects += [("source", f"train/n{i % 6:08d}/{i:05d}.jpg", rng.randbytes(SMALL_SIZE)) for i in range(SMALL)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda o: cls.s3.put_object(Bucket=o[0], Key=o[1], Body=o[2]), objects))

    @classmethod
    def start_manager(cls, name):
        account = {"paddlejob": "paddle-controller-manager"}.get(name, f"paddle-{name}-manager")
        cls.managers[name] = Manager(Account(cls.cluster, account), f"--controllers={name}")

    # --- what is looked at ---

    def endpoint(self):
        return self.minio.info["endpoint"].split("://")[1]

    def cache(self, name):
        return (self.set(name) or {}).get("status", {}).get("cacheStatus", {})

    def wait_cache(self, name, seconds=30, **want):
        """status.cacheStatus shows these values."""
        def shown():
            cache = self.cache(name)
            return all(cache.get(key) == value for key, value in want.items())
        try:
            wait_for(shown, f"{want}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.cache(name)}") from None

    def wait_row(self, total, cached, runtime="1/1"):
        """What the seeds print of the set after each step."""
        def shown():
            header, rows = self.rows("-n", NS, "get", "sampleset", "imagenet")
            self.assertEqual(header, HEADER)
            self.last = rows[0]
            return rows[0][:3] + rows[0][4:6] == ["imagenet", total, cached, runtime, "Ready"]
        try:
            wait_for(shown, f"{total}, {cached}", 30)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.last}") from None
        self.assertRegex(self.last[3], r"^[0-9.]+ [KMGTP]iB$")

    # --- E1 to E7 ---

    def follow(self, kind, name=""):
        """Creates the object of docs/sampleset.md."""
        text = next(t for t in self.guide.yaml if f"kind: {kind}\n" in t and f"name: {name}" in t)
        self.cluster.kubectl("create", "-f", "-", stdin=self.here(text))
        if kind != "SampleJob":
            return
        job = self.wait_phase("samplejob", name, "Succeeded", seconds=90)
        self.assertEqual(job["status"]["progress"]["percent"], "100%")
        header, rows = self.rows("-n", NS, "get", "samplejob", name)
        self.assertEqual((header, rows), (["NAME", "PHASE"], [[name, "Succeeded"]]))

    def here(self, text):
        """With servers of this machine in place of the guide's."""
        return text.replace("192.168.7.227:6379", f"127.0.0.1:{self.redis.info['port']}").replace(
            "bos://paddleflow-public.hkg.bcebos.com", f"minio://{self.endpoint()}/public")

    def run_guide(self, command):
        more = ["--timeout=90s", "--ignore-not-found"] if command == "delete" else []
        for line in self.guide.commands(command):
            self.cluster.kubectl(*shlex.split(self.here(line))[1:], *more)

    def test_1_the_walk_with_redis_alone(self):
        """E1 to E7, as docs/sampleset.md has them."""
        self.guide = Guide(ROOT / "docs/sampleset.md")
        self.assertEqual(Guide(ROOT / "docs/sampleset.zh.md").steps(), self.guide.steps())
        self.run_guide("create secret")  # E1
        self.follow("SampleSet")  # E2
        self.wait_phase("sampleset", "imagenet", "Ready", seconds=120)
        self.wait_row(f"{DEMO} MiB", f"{DEMO} MiB")
        header, rows = self.rows("-n", NS, "get", "pods")
        self.assertEqual(header, ["NAME", "READY", "STATUS", "RESTARTS", "AGE"])
        self.assertEqual([row[:4] for row in rows if row[0].startswith("imagenet")],
                         [["imagenet-runtime-0", "1/1", "Running", "0"]])
        self.follow("SampleJob", "imagenet-rmr")  # E3
        self.wait_row("0 B", "0 B")
        self.follow("SampleJob", "imagenet-sync")  # E4
        self.wait_row(f"{DEMO + TRAIN} MiB", f"{DEMO + TRAIN} MiB")
        self.follow("SampleJob", "imagenet-clear")  # E5
        self.wait_row(f"{DEMO + TRAIN} MiB", "0 B")
        self.follow("SampleJob", "imagenet-warmup")  # E6
        self.wait_row(f"{DEMO + TRAIN} MiB", f"{DEMO + TRAIN} MiB")
        self.follow("PaddleJob")  # E7
        self.cluster.wait_phase(NS, "ps-demo", "Running", seconds=120)
        header, rows = self.rows("-n", NS, "get", "paddlejob")
        self.assertEqual((header, rows[0][:3]), (["NAME", "STATUS", "MODE", "AGE"], ["ps-demo", "Running", "PS"]))
        worker = self.cluster.pods(NS)["ps-demo-worker-0"]
        self.assertEqual(worker["spec"]["nodeName"], self.cluster.pods(NS)["imagenet-runtime-0"]["spec"]["nodeName"])
        self.assertEqual(self.seen_in_worker("/mnt/imagenet"), ["demo", "train", "train_list.txt"])
        # The set waits for its user.
        self.cluster.kubectl("-n", NS, "delete", "sampleset", "imagenet", "--wait=false")
        wait_for(lambda: "ps-demo" in self.condition("sampleset", "imagenet", "Deletable").get("message", ""),
                 "a condition that names the job", 30)
        self.run_guide("delete")
        self.assertEqual(self.cached_blocks("imagenet"), [])

    def seen_in_worker(self, path):
        """As `ls` in the container lists it. Not by kubectl exec: API servers of this version speak SPDY to nodes."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                ours = os.readlink(process / "cwd").startswith(str(self.agent.data))
                if ours and f" {path} " in (process / "mountinfo").read_text():
                    return sorted(os.listdir(f"{process}/root{path}"))
            except OSError:
                continue
        raise AssertionError(f"no process sees {path}")

    def cached_blocks(self, volume):
        """Files of cached blocks on all nodes."""
        return [file for node in (self.agent.data / "d").rglob(f"dev/shm/{volume}") for file in node.rglob("*_*_*")]

    # --- three partitions, MinIO ---

    def test_2_three_partitions_with_minio(self):
        info = self.minio.info
        wrong = secret("source-keys", NS, access_key=info["access_key"] + "\n", secret_key="not-this-one\n")
        right = secret("source-keys", NS, access_key=info["access_key"] + "\n", secret_key=info["secret_key"] + "\n")
        self.create(wrong, secret("three", NS, name="three", storage="minio", bucket=info["endpoint"] + "/volume",
                                  metaurl=f"redis://127.0.0.1:{self.redis.info['port']}/2",
                                  access_key=info["access_key"], secret_key=info["secret_key"]))
        body = sample_set("three", partitions=3, sources=[
            {"uri": f"minio://{self.endpoint()}/source/", "secretRef": {"name": "source-keys"}},
            {"uri": f"minio://{self.endpoint()}/public/imagenet/train/n00000000/", "path": "extra"}])
        del body["spec"]["source"]
        self.create(body)
        # A wrong key is said; the right one, put into the Secret, is taken up.
        self.wait_phase("sampleset", "three", "SyncFailed", seconds=120)
        self.assertEqual(self.condition("sampleset", "three", "Synced")["status"], "False")
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(right))
        status = self.wait_phase("sampleset", "three", "Ready", seconds=120)["status"]
        self.files = SMALL + TRAIN // 3
        self.wait_cache("three", totalFiles=f"{self.files:,}", cachedPercent="100%")
        self.assertEqual(sorted(p["node"] for p in status["partitions"]), ["node-0", "node-1", "node-2"])
        self.scaling()
        wait_for(lambda: all(p.get("cachedBytes", 0) > 0 for p in self.set("three")["status"]["partitions"]),
                 lambda: f"every partition has something: {self.set('three')['status']['partitions']}", 30)
        self.wiped()
        self.kills()
        self.cluster.kubectl("-n", NS, "delete", "samplejob", "--all", "--timeout=60s")
        self.drop("three")
        self.assertEqual(self.cached_blocks("three"), [])
        seen = self.agent.output() + "".join(manager.output() for manager in self.managers.values())
        seen += "".join(log.read_text() for log in (self.agent.data / "d/pods").glob("*/containers/*/*/log"))
        for text in ("not-this-one", info["secret_key"]):
            self.assertNotIn(text, seen)
        self.cluster.kubectl("-n", NS, "delete", "secret", "source-keys")

    def scaling(self):
        """Down to two partitions and up again: nothing is fetched that a partition has."""
        for partitions in (2, 3):
            self.cluster.kubectl("-n", NS, "patch", "sampleset", "three", "--type=merge", "-p",
                                 json.dumps({"spec": {"partitions": partitions}}))
            wait_for(lambda: len([p for p in self.cluster.pods(NS) if p.startswith("three-runtime")]) == partitions,
                     f"{partitions} pods", 90)
            wait_for(lambda: self.set("three")["status"].get("warmedPartitions") == partitions, "warmed again", 90)
            self.wait_phase("sampleset", "three", "Ready", seconds=90)
            self.wait_cache("three", totalFiles=f"{self.files:,}", cachedPercent="100%")

    def wiped(self):
        """Somebody empties a node's cache directory: noticed, and filled again."""
        node = next(p["node"] for p in self.set("three")["status"]["partitions"] if p["pod"] == "three-runtime-1")
        folders = [f for f in (self.agent.data / "d").rglob(f"{node}/dev/shm/three") if f.is_dir()]
        self.assertEqual(len(folders), 1, folders)
        for entry in folders[0].iterdir():
            shutil.rmtree(entry)
        self.cluster.kubectl("-n", NS, "delete", "pod", "three-runtime-1", "--wait=true", "--timeout=60s")
        wait_for(lambda: self.cached_in(node), "blocks in the emptied directory", 90)
        self.wait_phase("sampleset", "three", "Ready", seconds=90)
        self.wait_cache("three", cachedPercent="100%", seconds=60)

    def cached_in(self, node):
        return [f for folder in (self.agent.data / "d").rglob(f"{node}/dev/shm/three") for f in folder.rglob("*_*_*")]

    def kills(self):
        """SIGKILL of managers, runtimes, Redis and MinIO while jobs run: they end right, or fail with a reason."""
        seed = int(os.environ.get("PADDLEOP_SEED", random.randrange(1 << 30)))
        print(f"PADDLEOP_SEED={seed}")
        rng = random.Random(seed)
        victims = ["samplejob", "sampleset", "three-runtime-0", "three-runtime-1", "redis", "minio"]
        for i in range(int(os.environ.get("PADDLEOP_KILL_ROUNDS", 1))):
            for kind in ("sync", "clear", "warmup", "rmr"):
                body = sample_job(f"kill-{i}-{kind}", kind, "three", backoffLimit=3)
                if kind == "sync":
                    body["spec"]["secretRef"] = {"name": "source-keys"}
                    body["spec"]["syncOptions"] = {"source": f"minio://{self.endpoint()}/source/",
                                                   "destination": f"again-{i}"}
                if kind == "rmr":
                    body["spec"]["rmrOptions"] = {"paths": [f"again-{i}"]}
                victim = rng.choice(victims)
                self.create(body)
                time.sleep(rng.random())
                self.kill(victim, rng)
                self.ended(body, victim)
                files = self.files + (SMALL if kind != "rmr" else 0)
                self.wait_cache("three", totalFiles=f"{files:,}", seconds=60)

    def kill(self, victim, rng):
        print(f"kill {victim}")
        if victim in self.managers:
            self.managers[victim].process.kill()
            self.managers[victim].process.wait()
            self.start_manager(victim)
        elif victim in ("redis", "minio"):
            peer = getattr(self, victim)
            peer.command(f"kill {victim}")
            time.sleep(rng.random() / 2)
            peer.command(f"start {victim}")
        else:
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    words = (process / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if words[1:2] == [b"runtime"] and f"--pod-name={victim}".encode() in words \
                        and b"--set=three" in words and self.is_ours(process):
                    os.kill(int(process.name), signal.SIGKILL)
                    return
            raise AssertionError(f"no process of {victim}")

    def is_ours(self, process):
        """A descendant of this test's agent's pods: its mounts are below the agent's directory."""
        try:
            return str(self.agent.data) in (process / "mountinfo").read_text()
        except OSError:
            return False

    def ended(self, body, victim):
        name = body["metadata"]["name"]

        def end():
            status = self.job(name).get("status", {})
            return status if status.get("phase") in ("Succeeded", "Failed") else None
        try:
            status = wait_for(end, f"{name} ends after the death of {victim}", 150)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(self.job(name).get('status'))}") from None
        if status["phase"] == "Succeeded":
            return
        # A reason is given, and the same job succeeds when nobody is killed.
        print(f"{name} failed: {status['message']}")
        self.assertTrue(status["message"], status)
        body["metadata"]["name"] = name + "-again"
        self.create(body)
        self.wait_phase("samplejob", name + "-again", "Succeeded", seconds=120)


if __name__ == "__main__":
    unittest.main()
