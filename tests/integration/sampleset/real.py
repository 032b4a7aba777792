"""Everything real, shared by the cases of sampleset_runtime_test.py: API server, scheduler, controller-manager, Redis, MinIO,
our managers with the rights of deploy/, and nodes that run the pods (`paddle-operator node`) as processes."""

import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import boto3
import botocore.config

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "node"))

from sets import NS, SetHelpers, secret, wait_for  # isort: skip: it sets the path, too
from agent import NodeAgent
from cluster import BIN, ROOT, Cluster, Manager

MIB = 1 << 20
# Where the seeds have 58 MiB and 4.2 GiB; "demo" lies in one directory there, too.
DEMO, TRAIN = 58, 42
SMALL, SMALL_SIZE = 240, 20_000
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

    def s3(self):
        return boto3.client("s3", endpoint_url=self.info["endpoint"], aws_access_key_id=self.info["access_key"],
                            aws_secret_access_key=self.info["secret_key"], region_name="us-east-1",
                            config=botocore.config.Config(max_pool_connections=8))


def put_small(peer, bucket="source"):
    """SMALL files below train/."""
    rng = random.Random(7)
    put(peer, [(bucket, f"train/n{i % 6:08d}/{i:05d}.jpg", rng.randbytes(SMALL_SIZE)) for i in range(SMALL)])


def put(peer, objects):
    s3 = peer.s3()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda o: s3.put_object(Bucket=o[0], Key=o[1], Body=o[2]), objects))


class World:
    """What there is; `started` are to be closed, the last one first."""

    def __init__(self):
        self.started = []
        self.managers = {}
        self.identities = {}
        self.cluster = self.agent = self.mortal = self.redis = self.minio = None

    def keep(self, thing, close):
        self.started.append(lambda: close(thing))
        return thing

    def start(self):
        # Pods start `samplefs`, as their image would have it.
        os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
        # Nothing that was answered may be lost with the process.
        self.redis = self.keep(Peer("redis", "--appendonly", "--config", "appendfsync always"), Peer.close)
        self.minio = self.keep(Peer("minio", "--bucket", "public", "--bucket", "source", "--bucket", "volume"), Peer.close)
        self.fill()
        self.cluster = self.keep(Cluster("--controllers"), Cluster.close)
        for ns in (NS, "other"):
            self.cluster.namespace(ns)
        for manifest in ("v1/operator.yaml", "extensions/controllers.yaml"):
            self.cluster.kubectl("apply", "-f", ROOT / "deploy" / manifest)
        # The test runs the managers itself.
        self.cluster.kubectl("-n", NS, "delete", "deployment", "--all", "--wait=false")
        self.agent = self.start_agent("--nodes=3")
        self.mortal = self.start_agent("--node-name=mortal")
        for name in ("sampleset", "samplejob", "paddlejob"):
            self.start_manager(name)
        self.started.append(lambda: [manager.stop() for manager in self.managers.values()])
        # For the case that kills it, and nobody else.
        wait_for(lambda: self.cluster.get("/api/v1/nodes/mortal"), "the node is registered")
        self.cluster.patch("/api/v1/nodes/mortal", {"spec": {"taints": [{"key": "mortal", "effect": "NoSchedule"}]}})
        self.agent.wait_ready(4)
        for manager in self.managers.values():
            manager.wait_ready()

    def fill(self):
        rng = random.Random(8)
        objects = [("public", f"imagenet/demo/n01514859/{i:05d}.jpg", rng.randbytes(MIB)) for i in range(DEMO)]
        objects += [("public", f"imagenet/train/n{i % 3:08d}/{i:05d}.jpg", rng.randbytes(MIB)) for i in range(TRAIN)]
        objects.append(("public", "imagenet/train_list.txt", b""))
        self.minio.s3().put_bucket_policy(Bucket="public", Policy=json.dumps(PUBLIC))
        put(self.minio, objects)
        put_small(self.minio)

    def start_agent(self, *flags):
        # Caches are in memory unless the set says otherwise, so the nodes' directories are, too.
        tempfile.tempdir = "/dev/shm"
        try:
            return self.keep(NodeAgent(self.cluster, "--network=loopback", *flags), NodeAgent.stop)
        finally:
            tempfile.tempdir = None

    def start_manager(self, name):
        account = {"paddlejob": "paddle-controller-manager"}.get(name, f"paddle-{name}-manager")
        if name not in self.identities:
            self.identities[name] = self.keep(self.cluster.kubeconfig_of(NS, account), lambda file: file.close())
        self.managers[name] = Manager(self.cluster, f"--controllers={name}", kubeconfig=self.identities[name].name)

    def stop(self):
        problems = []
        while self.started:
            try:
                self.started.pop()()
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                problems.append(str(error))
        assert not problems, "\n".join(problems)


def process_root(home, path):
    """What a container with its home below `home` has mounted at `path`, seen from here. Not by kubectl exec: API servers
    of this version speak SPDY to nodes."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(home) and f" {path} " in (process / "mountinfo").read_text():
                return pathlib.Path(f"{process}/root{path}")
        except OSError:
            continue
    raise AssertionError(f"no process sees {path}")


world = World()


class RealCase(SetHelpers):
    cluster = property(lambda self: world.cluster)

    @staticmethod
    def endpoint(minio=None):
        return (minio or world.minio).info["endpoint"].split("://")[1]

    def volume_secret(self, name, database, ns=NS, minio=None):
        """Of a volume with its metadata in a database of the one Redis and its data in MinIO."""
        info = (minio or world.minio).info
        return secret(name, ns, name=f"{name}-{database}", storage="minio", bucket=info["endpoint"] + "/volume",
                      metaurl=f"redis://127.0.0.1:{world.redis.info['port']}/{database}",
                      access_key=info["access_key"], secret_key=info["secret_key"])

    def source_keys(self, name, ns=NS, minio=None):
        info = (minio or world.minio).info
        return secret(name, ns, access_key=info["access_key"] + "\n", secret_key=info["secret_key"] + "\n")

    def source(self, keys, minio=None):
        return {"uri": f"minio://{self.endpoint(minio)}/source/", "secretRef": {"name": keys}}

    def wait_cache(self, name, ns=NS, **want):
        """status.cacheStatus shows these values."""
        def cache():
            return self.status_of("sampleset", name, ns).get("cacheStatus", {})
        wait_for(lambda: all(cache().get(key) == value for key, value in want.items()),
                 lambda: f"{want}: {cache()}\n{self.described('sampleset', name, ns)}")

    def wait_cached(self, name, files, ns=NS):
        self.wait_cache(name, ns, totalFiles=f"{files:,}", cachedPercent="100%")

    @staticmethod
    def cache_folders(volume, node="*"):
        """Where nodes keep what they have cached of a volume."""
        return list((world.agent.data / "d/nodes").glob(f"{node}/dev/shm/{volume}"))

    def cached_blocks(self, volume, node="*"):
        return [file for folder in self.cache_folders(volume, node) for _, _, files in os.walk(folder)
                for file in files if file.count("_") == 2]

    @staticmethod
    def runtime_process(name, pod, agent=None):
        """The id of the process of a runtime pod, once there is one: a killed one comes back after a while."""
        def find():
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    words = (process / "cmdline").read_text().split("\0")
                    if words[1:2] == ["runtime"] and {f"--set={name}", f"--pod-name={pod}"} <= set(words) \
                            and (agent or world.agent).data.name in (process / "mountinfo").read_text():
                        return int(process.name)
                except (OSError, UnicodeDecodeError):
                    continue
            return None
        return wait_for(find, f"a process of {pod}")
