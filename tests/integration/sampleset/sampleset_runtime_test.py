"""The walk through the seeds with real runtime servers, Redis and MinIO, on a real API server."""

import json
import os
import pathlib
import random
import subprocess
import sys
import time
import unittest

import boto3

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "operator"))

from cluster import ROOT, Cluster, Manager, wait_for  # noqa: E402
from kubelet import Kubelet, RealRuntime  # noqa: E402
from sampleset_test import NS, Account, SampleSets, sample_job, sample_set, secret  # noqa: E402

FILES, SIZE = 240, 20_000


class Peer:
    def __init__(self, *args):
        self.process = subprocess.Popen([ROOT / "tests/peers/peer", "serve", *args], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.info = json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


class RealRuntimes(SampleSets):
    """Inherits the helpers only; the tests are those below."""

    @classmethod
    def setUpClass(cls):
        cls.redis = Peer("redis")
        cls.minio = Peer("minio", "--bucket", "source", "--bucket", "volume")
        info = cls.minio.info
        cls.s3 = boto3.client("s3", endpoint_url=info["endpoint"], aws_access_key_id=info["access_key"],
                              aws_secret_access_key=info["secret_key"], region_name="us-east-1")
        rng = random.Random(7)
        for i in range(FILES):
            cls.s3.put_object(Bucket="source", Key=f"imagenet/train/n{i % 6:08d}/{i:05d}.jpg", Body=rng.randbytes(SIZE))
        cls.cluster = Cluster("--controllers")
        cls.cluster.namespace(NS)
        for manifest in ("v1/operator.yaml", "extensions/controllers.yaml"):
            cls.cluster.kubectl("apply", "-f", ROOT / "deploy" / manifest)
        cls.cluster.kubectl("-n", NS, "delete", "deployment", "--all", "--wait=false")
        cls.kubelet = Kubelet(cls.cluster, ["node-0", "node-1", "node-2"], cls.make_runtime, address="127.0.78")
        cls.sets = Manager(Account(cls.cluster, "paddle-sampleset-manager"), "--controllers=sampleset")
        cls.jobs = Manager(Account(cls.cluster, "paddle-samplejob-manager"), "--controllers=samplejob")
        cls.sets.wait_ready()
        cls.jobs.wait_ready()

    @classmethod
    def make_runtime(cls, pod, ip, auth, volume, root, command):
        return RealRuntime(pod, ip, auth, volume, root, command, cls.kubelet.root if hasattr(cls, "kubelet") else root)

    @classmethod
    def tearDownClass(cls):
        cls.sets.stop()
        cls.jobs.stop()
        cls.kubelet.close()
        cls.cluster.close()
        cls.redis.close()
        cls.minio.close()

    def source(self):
        return f"minio://{self.minio.info['endpoint'].split('://')[1]}/source/imagenet"

    def keys(self):
        return secret("source-keys", NS, access_key=self.minio.info["access_key"] + "\n",
                      secret_key=self.minio.info["secret_key"] + "\n")

    def volume(self, name, **values):
        redis = self.redis.info
        return secret(name, NS, name=name + "\n", metaurl=f"redis://127.0.0.1:{redis['port']}/{values.pop('db')}\n",
                      **values)

    def cache(self, name):
        return self.set(name)["status"].get("cacheStatus", {})

    def wait_files(self, name, files, cached_all, seconds=15):
        def shown():
            cache = self.cache(name)
            return cache.get("totalFiles") == f"{files:,}" and (
                cached_all is None or (cache["cachedPercent"] == "100%") == cached_all)
        try:
            wait_for(shown, f"{files} files, cached: {cached_all}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.cache(name)}") from None

    def walk(self, name, volume, partitions):
        self.create(volume, sample_set(name, partitions=partitions,
                                       source={"uri": self.source() + "/", "secretRef": {"name": "source-keys"}}))
        self.wait_phase("sampleset", name, "Ready", seconds=120)
        self.wait_files(name, FILES, True)
        self.job_done(sample_job(f"{name}-rmr", "rmr", name, rmrOptions={"paths": ["train/n00000000"]}))
        self.wait_files(name, FILES - FILES // 6, None)
        self.job_done(sample_job(f"{name}-sync", "sync", name, secretRef={"name": "source-keys"},
                                 syncOptions={"source": self.source() + "/"}))
        self.wait_files(name, FILES, None)
        self.job_done(sample_job(f"{name}-clear", "clear", name))
        wait_for(lambda: self.cache(name)["cachedSize"] == "0 B", "an empty cache", 15)
        self.job_done(sample_job(f"{name}-warmup", "warmup", name))
        self.wait_files(name, FILES, True)

    def job_done(self, body):
        name = body["metadata"]["name"]
        self.create(body)
        job = self.wait_phase("samplejob", name, "Succeeded", seconds=120)
        self.assertEqual(job["status"]["progress"]["percent"], "100%")

    def test_redis_holds_everything(self):
        self.create(self.keys())
        self.walk("imagenet", self.volume("imagenet", db=0, storage="redis\n",
                                          bucket=f"redis://127.0.0.1:{self.redis.info['port']}/1\n"), 1)
        self.drop("imagenet")
        self.cluster.kubectl("-n", NS, "delete", "samplejob", "--all", "--timeout=60s")
        self.cluster.kubectl("-n", NS, "delete", "secret", "source-keys")

    def test_minio_holds_the_data_three_partitions(self):
        self.create(self.keys())
        info = self.minio.info
        self.walk("three", self.volume("three", db=2, storage="minio", bucket=info["endpoint"] + "/volume",
                                       access_key=info["access_key"], secret_key=info["secret_key"]), 3)
        status = self.set("three")["status"]
        self.assertEqual(sorted(p["node"] for p in status["partitions"]), ["node-0", "node-1", "node-2"])
        for partition in status["partitions"]:
            self.assertGreater(partition["cachedBytes"], 0, partition)
        self.kills("three")
        self.drop("three")
        left = [os.path.join(folder, file) for folder, _, files in os.walk(self.kubelet.root)
                for file in files if "/dev/shm/" in folder and file.endswith("_0_4194304")]
        self.assertEqual(left, [])
        self.cluster.kubectl("-n", NS, "delete", "samplejob", "--all", "--timeout=60s")
        self.cluster.kubectl("-n", NS, "delete", "secret", "source-keys")

    def kills(self, name):
        """SIGKILL of runtimes and managers while jobs run: they end right, or fail with a reason."""
        seed = int(os.environ.get("PADDLEOP_SEED", random.randrange(1 << 30)))
        print(f"seed {seed}")
        rng = random.Random(seed)
        for i, kind in enumerate(("sync", "warmup", "clear", "sync")):
            body = sample_job(f"kill-{i}-{kind}", kind, name, backoffLimit=3)
            if kind == "sync":
                self.job_done(sample_job(f"empty-{i}", "rmr", name, rmrOptions={"paths": ["train"]}))
                body["spec"]["secretRef"] = {"name": "source-keys"}
            self.create(body)
            time.sleep(rng.random())
            victim = rng.choice(["three-runtime-0", "three-runtime-1", "manager"])
            if victim == "manager":
                self.jobs.process.kill()
                self.jobs.process.wait()
                type(self).jobs = Manager(Account(self.cluster, "paddle-samplejob-manager"),
                                          "--controllers=samplejob").wait_ready()
            else:
                runtime = self.kubelet.runtime(victim)
                runtime.kill()

            def ended():
                status = self.job(body["metadata"]["name"]).get("status", {})
                return status if status.get("phase") in ("Succeeded", "Failed") else None
            status = wait_for(ended, f"{kind} ends after the death of {victim}", 120)
            if status["phase"] == "Failed":
                self.assertTrue(status["message"], status)
            self.wait_phase("sampleset", name, "Ready", seconds=120)
            if kind == "sync" and status["phase"] == "Succeeded":
                self.wait_files(name, FILES, None)


# The helpers' own tests run in their own file.
for inherited in [n for n in dir(SampleSets) if n.startswith("test_")]:
    setattr(RealRuntimes, inherited, None)
del SampleSets


if __name__ == "__main__":
    unittest.main()
