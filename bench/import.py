#!/usr/bin/env python3
"""Imports and removals beside `juicefs sync` and `juicefs rmr`, in one run on one machine.

    bench/import.py [--share 1] [--rows imagenet,small,directory,big,million] [--keep DIR] [--no-build]

Prints a table: rates, the ratio to the peer, the share of the ceiling (wrk reading each object once
and writing the packed blocks), CPU seconds of the client, resident memory, Redis commands and PUTs
per file; removals; `status` over a small and a large volume. Fails if a bar is missed. Builds the
programs it needs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers import PEER, ROOT, Served

BIN = ROOT / "build" / "release" / "bin"


@dataclass
class Cost:
    seconds: float
    cpu: float
    resident: float  # MB
    commands: int
    output: str


@dataclass
class Bench:
    share: float
    directory: Path
    redis: Served = field(init=False)
    minio: Served = field(init=False)
    juicefs: str = field(init=False)
    failed: list[str] = field(default_factory=list)
    s3: Any = None
    database: int = 0

    def __post_init__(self) -> None:
        self.redis = Served("redis")
        self.minio = Served("minio", "--bucket", "source", "--bucket", "blocks", "--bucket", "wrk")
        path = subprocess.run([PEER, "path", "juicefs"], check=True, capture_output=True, text=True)
        self.juicefs = path.stdout.strip() + "/juicefs"
        self._make_public()

    def stop(self) -> None:
        self.redis.stop()
        self.minio.stop()

    def _make_public(self) -> None:
        """wrk does not sign: anyone may read and write what it uses."""
        import boto3
        import botocore.config

        self.s3 = boto3.client(
            "s3",
            endpoint_url=self.minio.facts["endpoint"],
            aws_access_key_id=self.minio.facts["access_key"],
            aws_secret_access_key=self.minio.facts["secret_key"],
            region_name="us-east-1",
            config=botocore.config.Config(proxies={}),
        )
        for bucket in ("source", "wrk"):
            statement = {
                "Effect": "Allow",
                "Principal": {"AWS": ["*"]},
                "Action": ["s3:GetObject", "s3:PutObject", "s3:ListBucket"],
                "Resource": [f"arn:aws:s3:::{bucket}/*", f"arn:aws:s3:::{bucket}"],
            }
            policy = {"Version": "2012-10-17", "Statement": [statement]}
            self.s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))

    def drop(self, bucket: str, prefix: str) -> None:
        """Makes room: deletes all objects below the prefix."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for page in pages:
            keys = [{"Key": entry["Key"]} for entry in page.get("Contents", [])]
            if keys:
                self.s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})

    def environment(self) -> dict[str, str]:
        facts = self.minio.facts
        return {
            **os.environ,
            "ACCESS_KEY": facts["access_key"],
            "SECRET_KEY": facts["secret_key"],
            "SAMPLEFS_STATE_DIR": str(self.directory / "state"),
            "HOME": str(self.directory),
            "NO_PROXY": "*",
        }

    def host(self) -> str:
        return str(self.minio.facts["endpoint"]).removeprefix("http://")

    def uri(self, kind: str) -> str:
        return f"minio://{self.host()}/source/{kind}/"

    def with_keys(self, uri: str) -> str:
        facts = self.minio.facts
        return uri.replace("minio://", f"minio://{facts['access_key']}:{facts['secret_key']}@")

    def redis_counter(self, name: str) -> int:
        out = subprocess.run(
            ["redis-cli", "-p", str(self.redis.facts["port"]), "info", "stats"],
            check=True, capture_output=True, text=True,
        )
        found = re.search(rf"{name}:(\d+)", out.stdout)
        assert found
        return int(found[1])

    def commands(self) -> int:
        return self.redis_counter("total_commands_processed")

    def round_trips(self) -> int:
        """How often Redis read from its clients: about one for each request that waits."""
        return self.redis_counter("total_reads_processed")

    def run(self, argv: list[str], accept: tuple[int, ...] = (0,)) -> Cost:
        before = self.commands()
        start = time.monotonic()
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                argv, stdout=out, stderr=subprocess.STDOUT, env=self.environment()
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - start
            out.seek(0)
            text = out.read().decode(errors="replace")
        if process.returncode not in accept:
            sys.exit(f"{' '.join(argv)} ended with {process.returncode}:\n{text[-2000:]}")
        return Cost(
            seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000,
            self.commands() - before, text,
        )

    def volume(self) -> str:
        """A new, empty volume of the official client's making."""
        self.database += 1
        url = f"redis://127.0.0.1:{self.redis.facts['port']}/{self.database}"
        facts = self.minio.facts
        self.run([self.juicefs, "format", url, f"volume-{self.database}", "--storage", "minio",
                  "--bucket", f"{facts['endpoint']}/blocks", "--access-key", facts["access_key"],
                  "--secret-key", facts["secret_key"], "--trash-days", "0"])
        return url

    def theirs(self, url: str, source: str) -> Cost:
        name = f"volume{self.database}"
        os.environ[name] = url
        return self.run([self.juicefs, "sync", "--no-https", self.with_keys(source),
                         f"jfs://{name}/all/", "--threads", "10"])

    def ours(self, url: str, source: str) -> tuple[Cost, dict[str, Any]]:
        cost = self.run([str(BIN / "samplefs"), "sync", url, source, "--to", "/all",
                         "--json"])
        return cost, json.loads(cost.output.strip().splitlines()[-1])

    def wrk(self, script: str, seconds: int) -> float:
        """Requests a second."""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
            file.write(script)
            file.flush()
            out = subprocess.run(
                ["wrk", "-t1", "-c16", f"-d{seconds}s", "-s", file.name,
                 self.minio.facts["endpoint"]],
                check=True, capture_output=True, text=True, env={**os.environ, "NO_PROXY": "*"},
            ).stdout
        if "Non-2xx" in out:
            sys.exit(f"wrk: {out}")
        found = re.search(r"Requests/sec:\s+([\d.]+)", out)
        assert found
        return float(found[1])

    def get_rate(self, paths: list[str], ranged: bool = False) -> float:
        names = self.directory / "paths.txt"
        names.write_text("\n".join(paths) + "\n")
        header = 'h["Range"] = string.format("bytes=%d-%d", (i % 16) * 4194304, ' \
                 "(i % 16 + 1) * 4194304 - 1)" if ranged else ""
        return self.wrk(
            f"""local paths, i, h = {{}}, 0, {{}}
            for line in io.lines("{names}") do paths[#paths + 1] = line end
            request = function()
              i = i + 1
              {header}
              return wrk.format("GET", paths[i % #paths + 1], h)
            end""", 6)

    def put_rate(self) -> float:
        return self.wrk(
            """local body, i = string.rep("0123456789abcdef", 262144), 0
            request = function()
              i = i + 1
              return wrk.format("PUT", "/wrk/block-" .. (i % 64), {}, body)
            end""", 6)

    def line(self, what: str, value: float, unit: str, peer: float | None = None,
             least: float | None = None, most: float | None = None, ratio: bool = True) -> None:
        """A row of the table. With a peer and `ratio`, the bar is for value / peer."""
        judged = value / peer if peer is not None and ratio else value
        good = (least is None or judged >= least) and (most is None or judged <= most)
        bar = f">= {least:g}" if least is not None else f"<= {most:g}" if most is not None else ""
        print(f"{what:34} {value:10.4g} {'' if peer is None else f'{peer:10.4g}':>10} {unit:14}"
              f" {'' if peer is None else f'{value / peer:8.3g}':>8} {bar:>8}"
              f"  {('ok' if good else 'MISSED') if bar else ''}", flush=True)
        if not good:
            self.failed.append(f"{what}: {judged:.3g}, the bar is {bar}")


def make_data(bench: Bench, kind: str, uri: str) -> None:
    bench.run([str(BIN / "bench_data"), kind, uri, str(bench.share)])


def paths_of(kind: str, share: float) -> list[str]:
    small = kind == "small"
    files = int(share * (50_000 if small else 20_000))
    directories = 50 if small else 100
    ending = "bin" if small else "jpg"
    return [f"/source/{kind}/n{i % directories:04}/{i:06}.{ending}" for i in range(files)]


def import_row(bench: Bench, kind: str, times: float, of_ceiling: float,
               puts: float) -> tuple[str, str]:
    """One import from MinIO; the URLs of our volume and of theirs."""
    make_data(bench, kind, bench.uri(kind))
    paths = paths_of(kind, bench.share)
    peer_url = bench.volume()
    theirs = bench.theirs(peer_url, bench.uri(kind))
    gets, blocks = bench.get_rate(paths), bench.put_rate()
    url = bench.volume()
    ours, report = bench.ours(url, bench.uri(kind))
    files = report["files"]["copied"]
    assert files == len(paths), report
    # Half of the ceiling is measured before and half after: the machine's speed varies.
    gets, blocks = (gets + bench.get_rate(paths)) / 2, (blocks + bench.put_rate()) / 2
    ceiling = files / (files / gets + report["uploads"]["bytes"] / 4194304 / blocks)
    name = f"import {kind}"
    bench.line(f"{name}: rate", files / ours.seconds, "files/s", files / theirs.seconds, least=times)
    bench.line(f"{name}: of wrk's", files / ours.seconds, "files/s", ceiling, least=of_ceiling)
    bench.line(f"{name}: client CPU", ours.cpu, "s", theirs.cpu, most=0.25)
    bench.line(f"{name}: Redis commands", ours.commands / files, "per file",
               theirs.commands / files, most=4, ratio=False)
    bench.line(f"{name}: PUTs", report["uploads"]["objects"] / files, "per file", 1, most=puts,
               ratio=False)
    bench.line(f"{name}: resident memory", ours.resident, "MB", theirs.resident, most=100,
               ratio=False)
    return url, peer_url


def again_row(bench: Bench, url: str, peer_url: str, kind: str) -> None:
    """A second import of an unchanged source. The best of three: they are short."""
    theirs = min(bench.theirs(peer_url, bench.uri(kind)).seconds for _ in range(3))
    best = float("inf")
    for _ in range(3):
        ours, report = bench.ours(url, bench.uri(kind))
        assert report["files"]["copied"] == 0 and report["bytes"]["read"] == 0, report
        best = min(best, ours.seconds)
    files = report["files"]["skipped"]
    bench.line(f"second import of {kind}", files / best, "files/s", files / theirs, least=3)
    # Nobody can be quicker than a client that lists and does nothing else.
    directories = sorted({path.split("/")[3] for path in paths_of(kind, bench.share)})
    lists = bench.get_rate([f"/source?list-type=2&prefix={kind}/{name}/" for name in directories])
    bench.line("  of wrk's listing", files / best, "files/s", lists * files / len(directories))


def directory_row(bench: Bench) -> None:
    source = bench.directory / "small"
    make_data(bench, "small", f"file://{source}/")
    theirs = bench.theirs(bench.volume(), f"{source}/")
    ours, report = bench.ours(bench.volume(), str(source))
    files = report["files"]["copied"]
    name = "import small from a directory"
    bench.line(name, files / ours.seconds, "files/s", files / theirs.seconds, least=20)
    bench.line("  resident memory", ours.resident, "MB", theirs.resident, most=100, ratio=False)
    shutil.rmtree(source)


def big_row(bench: Bench) -> None:
    """Three rounds in which both take turns in being first: how quickly MinIO writes to its disk varies."""
    make_data(bench, "big", bench.uri("big"))
    paths = [f"/source/big/part-{i}" for i in range(4)]
    gets, puts = bench.get_rate(paths, ranged=True), bench.put_rate()
    costs: dict[str, list[Cost]] = {"ours": [], "theirs": []}
    for round_ in range(3):
        for who in ("theirs", "ours") if round_ % 2 == 0 else ("ours", "theirs"):
            url = bench.volume()
            if who == "ours":
                cost, report = bench.ours(url, bench.uri("big"))
            else:
                cost = bench.theirs(url, bench.uri("big"))
            costs[who].append(cost)
            bench.drop("blocks", f"volume-{bench.database}/")
    size = report["bytes"]["copied"] / 1e6
    gets, puts = (gets + bench.get_rate(paths, ranged=True)) / 2, (puts + bench.put_rate()) / 2
    blocks = size * 1e6 / 4194304
    ceiling = size / (blocks / gets + blocks / puts)
    ours, theirs = (sorted(costs[who], key=lambda cost: cost.seconds) for who in ("ours", "theirs"))
    rates = [[round(size / cost.seconds) for cost in costs[who]] for who in ("ours", "theirs")]
    print(f"  MB/s in each round: {rates[0]}, juicefs {rates[1]}")
    bench.line("import big: rate", size / ours[1].seconds, "MB/s", size / theirs[1].seconds, least=1.3)
    bench.line("import big: of wrk's", size / ours[1].seconds, "MB/s", ceiling, least=0.75)
    bench.line("import big: client CPU", ours[1].cpu, "s", theirs[1].cpu)
    bench.line("import big: resident memory", max(cost.resident for cost in ours), "MB",
               max(cost.resident for cost in theirs), most=100, ratio=False)


def remove(bench: Bench, url: str, path: str) -> tuple[Cost, float]:
    """What it cost, and the seconds until the names were gone; the objects are gone at the end."""
    cost = bench.run([str(BIN / "samplefs"), "rmr", url, path, "--skip-trash", "--json"])
    report = json.loads(cost.output.strip().splitlines()[-1])
    left = json.loads(bench.run([str(BIN / "samplefs"), "gc", url, "--json"]).output.splitlines()[-1])
    assert left["objects"] == 0 and left["pendingSlices"] == 0 and left["pendingFiles"] == 0, left
    return cost, report["namesSeconds"]


def rmr_row(bench: Bench, packed: str, peer_url: str, files: int) -> None:
    mount = bench.directory / "mnt"
    mount.mkdir(exist_ok=True)
    bench.run([bench.juicefs, "mount", "-d", peer_url, str(mount), "--no-usage-report",
               "--cache-dir", str(bench.directory / "cache"),
               "--log", str(bench.directory / "mount.log")])
    try:
        theirs = bench.run([bench.juicefs, "rmr", str(mount / "all")])
    finally:
        bench.run([bench.juicefs, "umount", str(mount)])
    ours, names = remove(bench, packed, "all")
    bench.line("rmr of imagenet: names", files / names, "files/s", files / theirs.seconds, least=10)
    bench.line("  until the objects are gone", ours.seconds, "s", names, most=2)
    bench.line("  Redis commands", ours.commands / files, "per file", theirs.commands / files)


def status_seconds(bench: Bench, url: str) -> float:
    return min(bench.run([str(BIN / "samplefs"), "status", url, "--json"]).seconds
               for _ in range(5))


def million_row(bench: Bench) -> None:
    """Status over 1,000 files and 1,000,000, then the removal of the latter, packed."""
    urls = []
    for files in (1000, int(1_000_000 * bench.share)):
        urls.append(bench.volume())
        bench.run([str(BIN / "meta_bench"), urls[-1], "--fill-packed", str(files)])
    few, many = (status_seconds(bench, url) for url in urls)
    bench.line(f"status of {files} files, of 1000", many * 1000, "ms", few * 1000, most=2)
    before = bench.round_trips()
    ours, names = remove(bench, urls[1], "fill")
    bench.line(f"rmr of {files} files: names", files / names, "files/s")
    bench.line("  until the objects are gone", ours.seconds, "s", names, most=2)
    bench.line("  reads of Redis from us", (bench.round_trips() - before) / files, "per file",
               most=0.1)
    bench.line("  resident memory", ours.resident, "MB", most=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the full data sets")
    parser.add_argument("--rows", default="imagenet,small,directory,big,million")
    parser.add_argument("--keep", help="use this directory and leave it")
    parser.add_argument("--no-build", action="store_true", help="use the programs that are there")
    arguments = parser.parse_args()
    if not arguments.no_build:
        subprocess.run(["make", "-s", "build/release/build.ninja"], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--build", "--preset", "release", "--target", "samplefs",
                        "bench_data", "meta_bench"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    rows = arguments.rows.split(",")
    directory = Path(arguments.keep or tempfile.mkdtemp(prefix="import-bench-"))
    directory.mkdir(exist_ok=True)
    bench = Bench(arguments.share, directory)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    print(f"{'':34} {'ours':>10} {'juicefs':>10} {'':14} {'ratio':>8} {'bar':>8}", flush=True)
    try:
        if "imagenet" in rows:
            url, peer_url = import_row(bench, "imagenet", 2.5, 0.75, 0.04)
            again_row(bench, url, peer_url, "imagenet")
            rmr_row(bench, url, peer_url, int(20_000 * arguments.share))
        if "small" in rows:
            import_row(bench, "small", 6, 0.6, 0.002)
        if "directory" in rows:
            directory_row(bench)
        if "big" in rows:
            big_row(bench)
        if "million" in rows:
            million_row(bench)
    finally:
        bench.stop()
        if not arguments.keep:
            shutil.rmtree(directory, ignore_errors=True)
    if bench.failed:
        sys.exit("below the bar:\n  " + "\n  ".join(bench.failed))


if __name__ == "__main__":
    main()
