#!/usr/bin/env python3
"""A SampleSet from its source to cached on three nodes, beside the official tools.

    bench/sampleset.py [--share 2] [--keep DIR]

Ours: three `samplefs runtime` processes; the time from posting the import to the end of the warm-up.
Theirs: `juicefs sync` into a mount, then `juicefs warmup` on each of three mounts. The same MinIO and
Redis, in one run; SHARE 2 is 100,000 files of 4 KiB. Prints the ratio (bar: 5), and how often blocks
left the object store. Needs build/release/bin/{samplefs,bench_data}.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"
PEER = ROOT / "tests" / "peers" / "peer"
NODES = 3
BAR = 5.0
TOKEN = "0123456789abcdef0123456789abcdef"

sys.path.insert(0, str(ROOT / "tests" / "peers"))
from peerlib.certificates import Authority  # noqa: E402


class Served:
    """A peer for as long as this lives."""

    def __init__(self, name: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [PEER, "serve", name, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench/sampleset.py: {name} did not start")
        self.facts: dict[str, Any] = json.loads(line)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Runtime:
    """One partition."""

    def __init__(self, index: int, directory: Path, volume: Path, authority: Authority) -> None:
        self.name = f"set-runtime-{index}.set-runtime-service.ns.svc"
        self.port = free_port()
        self.index = index
        auth = directory / f"auth-{index}"
        auth.mkdir()
        pair = authority.server(f"runtime-{index}", f"DNS:{self.name}")
        (auth / "token").write_text(TOKEN)
        shutil.copy(authority.certificate, auth / "ca.crt")
        shutil.copy(pair.certificate, auth / "tls.crt")
        shutil.copy(pair.key, auth / "tls.key")
        self.context = ssl.create_default_context(cafile=str(authority.certificate))
        cache = directory / f"cache-{index}"
        cache.mkdir()
        self.log = (directory / f"runtime-{index}.log").open("w")
        self.process = subprocess.Popen(
            [
                BIN / "samplefs", "runtime", "--set=set", "--namespace=ns", f"--index={index}",
                f"--listen=127.0.0.1:{self.port}", f"--auth-dir={auth}", f"--volume-dir={volume}",
                f"--cache-dir={cache}", "--cache-size=8192", "--free-space-ratio=0.01",
                "--log-level=info",
            ],
            stderr=self.log,
        )

    def ask(self, method: str, path: str, body: Any = None, job: str = "") -> Any:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if job:
            headers["filename"] = job
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {text}")
        return text if path == "/metrics" else json.loads(text)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                info = self.ask("GET", "/cacheStatus/cacheInfo.json")
                if info["ready"]:
                    return
            except OSError:
                info = {"errorMassage": "not listening"}
            if time.monotonic() > deadline:
                sys.exit(f"bench/sampleset.py: runtime {self.index}: {info['errorMassage']}")
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def run_job(runtime: Runtime, kind: str, body: Any) -> dict[str, Any]:
    job = str(uuid.uuid4())
    runtime.ask("POST", f"/upload/{kind}Options", body, job)
    while True:
        result = runtime.ask("GET", f"/{kind}Result/{job}")
        if result["status"] != "running":
            break
        time.sleep(0.05)
    if result["status"] != "success":
        sys.exit(f"bench/sampleset.py: {kind}: {result['message']}")
    return dict(result)


def store_reads(runtimes: list[Runtime]) -> float:
    total = 0.0
    for runtime in runtimes:
        for line in runtime.ask("GET", "/metrics").splitlines():
            if line.startswith('paddleop_peer_blocks_fetched_total{from="store"}'):
                total += float(line.split()[-1])
    return total


def ours(directory: Path, redis: Served, minio: Served) -> tuple[float, float, float]:
    facts = minio.facts
    volume = directory / "volume"
    volume.mkdir()
    secret = {
        "name": "ours",
        "storage": "minio",
        "bucket": f"{facts['endpoint']}/blocks",
        "metaurl": str(redis.facts["url"]).removesuffix("/0") + "/1",
        "access-key": facts["access_key"],
        "secret-key": facts["secret_key"],
    }
    for key, value in secret.items():
        (volume / key).write_text(value)
    authority = Authority(directory / "pki", "set")
    runtimes = [Runtime(i, directory, volume, authority) for i in range(NODES)]
    try:
        peers = [
            {"index": r.index, "address": f"127.0.0.1:{r.port}", "tlsName": r.name} for r in runtimes
        ]
        for runtime in runtimes:
            runtime.wait_ready()
            runtime.ask("PUT", "/peers", {"generation": 1, "peers": peers})
        host = str(facts["endpoint"]).removeprefix("http://")
        source = {
            "uri": f"minio://{host}/source/small/",
            "accessKey": facts["access_key"],
            "secretKey": facts["secret_key"],
        }
        start = time.monotonic()
        synced = run_job(runtimes[0], "sync", {"options": {}, "sources": [source]})
        imported = time.monotonic() - start
        options = {"strategyName": "random", "batchSize": 64, "ranks": NODES, "epoch": 0}
        warmed = run_job(runtimes[0], "warmup", {"options": options})
        print(f"  sync   {imported:6.1f} s: {synced['message']}")
        print(f"  warmup {time.monotonic() - start - imported:6.1f} s: {warmed['message']}")
        return time.monotonic() - start, imported, store_reads(runtimes)
    finally:
        for runtime in runtimes:
            runtime.stop()


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
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    directory = options.keep or Path(tempfile.mkdtemp(prefix="bench-sampleset-"))
    directory.mkdir(exist_ok=True)
    redis = Served("redis")
    minio = Served("minio", "--bucket", "source", "--bucket", "blocks")
    try:
        facts = minio.facts
        host = str(facts["endpoint"]).removeprefix("http://")
        uri = f"minio://{facts['access_key']}:{facts['secret_key']}@{host}/source/small/"
        subprocess.run([BIN / "bench_data", "small", uri, str(options.share)], check=True)
        files = int(50_000 * options.share)
        print(f"{files} files of 4 KiB, {NODES} partitions")
        our_seconds, _, blocks = ours(directory, redis, minio)
        their_seconds = theirs(directory, redis, minio)
    finally:
        redis.stop()
        minio.stop()
        if options.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    ratio = their_seconds / our_seconds
    print(f"ours {our_seconds:.1f} s, official tools {their_seconds:.1f} s: {ratio:.1f} times")
    print(f"blocks read from the object store by ours: {blocks:.0f}")
    if ratio < BAR:
        print(f"below the bar of {BAR}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
