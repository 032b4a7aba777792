#!/usr/bin/env python3
"""A SampleSet from `kubectl create` to Ready, synced and warmed, beside the official tools.

    bench/sampleset.py [--share 2] [--only-ours]

Ours: a real API server, scheduler and controller-manager, our manager, and three nodes (`paddle-operator
node`) that run the pods; the time from the creation of the SampleSet until it is Ready, imported and warmed
for Paddle's sampler. Theirs: `juicefs sync` into a mount, then `juicefs warmup` on each of three mounts.
The same MinIO and Redis, in one run; SHARE 2 is 100,000 files of 4 KiB. Prints the ratio (bar: 5), how many
bytes were read from the source and how many blocks from the object store, and what the manager writes when
nothing changes. Needs build/release/bin/{samplefs,paddle-operator,bench_data}.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers import PEER, ROOT, Served

BIN = Path(os.environ.get("PADDLEOP_BIN_DIR", ROOT / "build/release/bin"))
NODES = 3
BAR = 5.0
BLOCK = 4 << 20
IDLE_SECONDS = 20
NS = "default"
SET = "small"

os.environ["PADDLEOP_BIN_DIR"] = str(BIN)
os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/integration" / room) for room in ("node", "operator")]

from agent import NodeAgent  # noqa: E402
from cluster import Cluster, Manager, wait_for  # noqa: E402

PATH = f"/apis/batch.paddlepaddle.org/v1alpha1/namespaces/{NS}/samplesets/{SET}"


def secret(name: str, /, **values: str) -> dict[str, Any]:
    data = {key.replace("_", "-"): base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "data": data}


class Ours:
    """The cluster; `run` measures."""

    def __init__(self, redis: Served, minio: Served) -> None:
        self.redis, self.minio = redis.facts, minio.facts
        self.cluster = Cluster("--controllers")
        self.agent = NodeAgent(self.cluster, f"--nodes={NODES}", "--network=loopback")
        self.manager = Manager(self.cluster, "--controllers=sampleset,samplejob")
        self.agent.wait_ready(NODES)
        self.manager.wait_ready()

    def stop(self) -> None:
        self.manager.stop()
        self.agent.stop()
        self.cluster.close()

    def status(self) -> dict[str, Any]:
        return (self.cluster.get(PATH) or {}).get("status", {})

    def since(self, kind: str) -> bool:
        return any(c["type"] == kind and c["status"] == "True" for c in self.status().get("conditions", []))

    def run(self) -> float:
        host = self.minio["endpoint"].removeprefix("http://")
        keys = {"access_key": self.minio["access_key"], "secret_key": self.minio["secret_key"]}
        for body in (secret("keys", **keys),
                     secret("volume", name="ours", storage="minio", bucket=f"{self.minio['endpoint']}/blocks",
                            metaurl=self.redis["url"].removesuffix("/0") + "/1", **keys)):
            self.cluster.post(f"/api/v1/namespaces/{NS}/secrets", body)
        start = time.monotonic()
        self.cluster.post(PATH.rsplit("/", 1)[0], {
            "apiVersion": "batch.paddlepaddle.org/v1alpha1", "kind": "SampleSet",
            "metadata": {"name": SET, "namespace": NS},
            "spec": {"partitions": NODES, "secretRef": {"name": "volume"},
                     "source": {"uri": f"minio://{host}/source/small/", "secretRef": {"name": "keys"}},
                     "warmup": {"auto": True, "strategyName": "random", "batchSize": 64}}})
        for condition in ("RuntimeReady", "Synced", "Warmed"):
            wait_for(lambda: self.since(condition), lambda: f"{condition}: {json.dumps(self.status())}", 600)
            print(f"  {condition:12} {time.monotonic() - start:6.1f} s")
        wait_for(lambda: self.status().get("phase") == "Ready", lambda: json.dumps(self.status()), 60)
        return time.monotonic() - start

    def counters(self, name: str, label: str) -> float:
        """The sum of a counter over all runtimes."""
        keys = self.cluster.get(f"/api/v1/namespaces/{NS}/secrets/{SET}-runtime-auth")["data"]
        context = ssl.create_default_context(cadata=base64.b64decode(keys["ca.crt"]).decode())
        context.check_hostname = False  # the certificates are for the pods' names
        total = 0.0
        for pod in self.cluster.pods(NS, f"{SET}-runtime").values():
            connection = http.client.HTTPSConnection(pod["status"]["podIP"], 7716, context=context, timeout=30)
            token = base64.b64decode(keys["token"]).decode()
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            for line in connection.getresponse().read().decode().splitlines():
                if line.startswith(name) and label in line:
                    total += float(line.split()[-1])
        return total

    def idle_writes(self) -> int:
        def writes() -> int:
            return sum(count for (verb, _), count in self.manager.requests().items() if verb != "get")
        time.sleep(5)  # the last figures
        before = writes()
        time.sleep(IDLE_SECONDS)
        return writes() - before


def theirs(directory: Path, redis: Served, minio: Served) -> float:
    facts = minio.facts
    found = subprocess.run([PEER, "path", "juicefs"], check=True, capture_output=True, text=True)
    juicefs = found.stdout.strip() + "/juicefs"
    meta = str(redis.facts["url"]).removesuffix("/0") + "/2"
    environment = {
        **os.environ,
        "HOME": str(directory),
        "ACCESS_KEY": facts["access_key"],
        "SECRET_KEY": facts["secret_key"],
        "MINIO_ACCESS_KEY": facts["access_key"],
        "MINIO_SECRET_KEY": facts["secret_key"],
        "NO_PROXY": "*",
    }

    def call(*argv: str) -> None:
        done = subprocess.run(
            [juicefs, *argv], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"bench/sampleset.py: juicefs {argv[0]}: {done.stderr[-500:]}")

    call("format", "--storage=minio", f"--bucket={facts['endpoint']}/blocks", meta, "theirs")
    mounts = [directory / f"mount-{i}" for i in range(NODES)]
    try:
        for i, mount in enumerate(mounts):
            cache = directory / f"their-cache-{i}"
            call("mount", "-d", f"--cache-dir={cache}", "--cache-size=8192", "--no-usage-report",
                 "--free-space-ratio=0.01", meta, str(mount))
        host = str(facts["endpoint"]).removeprefix("http://")
        start = time.monotonic()
        call("sync", f"minio://{host}/source/small/", f"{mounts[0]}/small/")
        synced = time.monotonic() - start
        for mount in mounts:
            call("warmup", f"{mount}/small")
        print(f"  juicefs sync {synced:6.1f} s, warmup on each {time.monotonic() - start - synced:6.1f} s")
        return time.monotonic() - start
    finally:
        for mount in mounts:
            subprocess.run([juicefs, "umount", "-f", mount], capture_output=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=2.0)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-sampleset-"))
    redis = Served("redis")
    minio = Served("minio", "--bucket", "source", "--bucket", "blocks")
    ours = None
    try:
        facts = minio.facts
        host = str(facts["endpoint"]).removeprefix("http://")
        uri = f"minio://{facts['access_key']}:{facts['secret_key']}@{host}/source/small/"
        subprocess.run([BIN / "bench_data", "small", uri, str(options.share)], check=True)
        files = int(50_000 * options.share)
        print(f"{files:,} files of 4 KiB, {NODES} partitions")
        ours = Ours(redis, minio)
        our_seconds = ours.run()
        read = ours.counters("paddleop_object_bytes_total", 'direction="read"')
        blocks = ours.counters("paddleop_peer_blocks_fetched_total", 'from="store"')
        size = files * 4096
        stored = blocks * BLOCK
        print(f"read from the source: {read - stored:,.0f} bytes, {(read - stored) / size:.3f} of the set's {size:,}")
        print(f"read from the object store: {blocks:.0f} blocks, at most {stored / size:.3f} of the set")
        idle = ours.idle_writes()
        print(f"API writes in {IDLE_SECONDS} idle seconds: {idle}")
        ours.stop()
        ours = None
        if options.only_ours:
            return 0
        their_seconds = theirs(directory, redis, minio)
    finally:
        if ours is not None:
            ours.stop()
        redis.stop()
        minio.stop()
        shutil.rmtree(directory, ignore_errors=True)
    ratio = their_seconds / our_seconds
    print(f"ours {our_seconds:.1f} s, official tools {their_seconds:.1f} s: {ratio:.1f} times (bar {BAR:g})")
    return 0 if ratio >= BAR and idle == 0 and stored <= size + NODES * BLOCK and read - stored <= 1.02 * size else 1


if __name__ == "__main__":
    sys.exit(main())
