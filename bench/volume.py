#!/usr/bin/env python3
"""Measures volumes through our library beside the official client, and prints ratios.

Operations: create, lookup (each name once) and unlink from 8 threads through the library, beside the
same through a `juicefs mount` of the same volume (bars: 1.5 on Redis, 3 on SQLite). Tree: a million
files loaded from Redis, beside `find` over a `juicefs` mount (bars: 5 for names and attributes, 2.5
with slices; at most 150 bytes a file). Read: a cold file of 1 GiB from MinIO (bars: 1 of the
throughput, 0.5 of the memory). Rounds alternate; the median of the ratios counts. Exits 1 below a bar.
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from mountlib import BIN
from peers import PEER, ROOT, Served


class Juicefs:
    def __init__(self, home):
        self.program = subprocess.run([PEER, "path", "juicefs"], capture_output=True, text=True,
                                      check=True).stdout.strip() + "/juicefs"
        self.home = home
        self.environment = os.environ | {"HOME": str(home)}

    def run(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], env=self.environment,
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"juicefs {arguments[0]}: {done.stdout}{done.stderr}")

    def format(self, url, *arguments):
        self.run("format", url, "bench", "--trash-days", "0", *arguments)

    @contextlib.contextmanager
    def mount(self, url, *options):
        path = tempfile.mkdtemp(dir=self.home)
        process = subprocess.Popen(
            [self.program, "mount", url, path, "--no-usage-report", *options],
            env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        try:
            end = time.monotonic() + 60
            while os.stat(path).st_ino != 1:
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"juicefs mount {url} did not come up")
                time.sleep(0.05)
            yield path, process
        finally:
            subprocess.run(["umount", path], check=False)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:  # it has a child that may hang after an unmount
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def rates(*arguments):
    """The rates that meta_bench prints, by label."""
    out = subprocess.run([BIN / "meta_bench", *map(str, arguments)], capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"meta_bench {arguments[0]}: {out.stderr}")
    return {m[1].strip(): float(m[2]) for m in re.finditer(r"^(.{16}) +(\d+) ", out.stdout, re.M)}, out.stdout


class Table:
    def __init__(self):
        self.failed = False
        print(f"{'':34} {'ours':>12} {'juicefs':>12} {'':9} {'ratio':>6} {'bar':>5}", flush=True)

    def row(self, title, ours, theirs, unit, bar, at_most=False):
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        good = ratio <= bar if at_most else ratio >= bar
        self.failed |= not good
        print(f"{title:34} {statistics.median(ours):12.0f} {statistics.median(theirs):12.0f} {unit:9}"
              f" {ratio:6.2f} {bar:5.2f}  {'ok' if good else 'MISSED'}", flush=True)


def operations(table, juicefs, engine, url, bar, options):
    juicefs.format(url, "--storage", "file", "--bucket", f"{juicefs.home}/data-{engine}/")
    ours, theirs = [], []
    with juicefs.mount(url) as (path, _):
        for round_ in range(options.rounds):
            for found, target in ((theirs, path), (ours, url)):
                found.append(rates(target, 8, options.files)[0])
                # The directories stay; the next round makes its own.
                subprocess.run(f"rmdir {path}/bench*", shell=True, check=True)
    for what in ("create", "lookup", "unlink"):
        table.row(f"{engine}: {what}, 8 threads", [r[what] for r in ours], [r[what] for r in theirs],
                  "ops/s", bar)


def tree(table, juicefs, url, options):
    juicefs.format(url, "--storage", "file", "--bucket", f"{juicefs.home}/data-tree/")
    rates(url, "--fill", options.tree)
    ours, theirs, text = [], [], ""
    for _ in range(options.rounds):
        with juicefs.mount(url) as (path, _):
            begin = time.monotonic()
            found = subprocess.run(["find", path, "-type", "f", "-size", "+0"], check=True,
                                   capture_output=True).stdout.count(b"\n")
            theirs.append(found / (time.monotonic() - begin))
        found, text = rates(url, "--load")
        ours.append(found)
    table.row(f"load {options.tree} names, attributes", [r["load"] for r in ours], theirs, "files/s", 5)
    table.row("the same with slices", [r["load with slices"] for r in ours], theirs, "files/s", 2.5)
    resident = [float(m) for m in re.findall(r"([\d.]+) resident", text)]
    for what, size in zip(("", ", with slices"), resident, strict=True):
        good = size <= 150
        table.failed |= not good
        print(f"resident bytes per file{what:11} {size:12.0f} {'':22} {'':6} {150:5}"
              f"  {'ok' if good else 'MISSED'}", flush=True)


def read(table, juicefs, redis, options):
    with Served("minio") as minio:
        url = redis + "/3"
        keys = {"ACCESS_KEY": minio["access_key"], "SECRET_KEY": minio["secret_key"]}
        juicefs.environment |= keys
        juicefs.format(url, "--storage", "minio", "--bucket", f"{minio['endpoint']}/bench")
        with juicefs.mount(url) as (path, _):
            with open(f"{path}/big", "wb") as out:
                block = os.urandom(1 << 20)
                for _ in range(options.mib):
                    out.write(block)
        ours, theirs, memory, their_memory = [], [], [], []
        for round_ in range(options.rounds):
            with juicefs.mount(url, "--cache-dir", f"{juicefs.home}/cold{round_}") as (path, process):
                begin = time.monotonic()
                subprocess.run(["cat", f"{path}/big"], stdout=subprocess.DEVNULL, check=True)
                theirs.append(options.mib / (time.monotonic() - begin))
                their_memory.append(peak(children(process.pid)))
            begin = time.monotonic()
            process = subprocess.Popen([BIN / "samplefs", "cat", url, "/big"], stdout=subprocess.DEVNULL,
                                       env=os.environ | keys)
            _, status, usage = os.wait4(process.pid, 0)
            if status != 0:
                sys.exit("samplefs cat failed")
            ours.append(options.mib / (time.monotonic() - begin))
            memory.append(usage.ru_maxrss / 1024)
    table.row(f"cold read, {options.mib} MiB from MinIO", ours, theirs, "MiB/s", 1)
    table.row("the same, resident memory", memory, their_memory, "MiB", 0.5, at_most=True)


def children(pid):
    """The process and those below it: juicefs mounts in a child of its own."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += children(int(child))
    return found


def peak(pids):
    return max(int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{p}/status").read_text())[1])
               for p in pids) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=1000, help="per thread")
    parser.add_argument("--tree", type=int, default=1_000_000)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--only", choices=["operations", "tree", "read"])
    options = parser.parse_args()
    subprocess.run(["make", "build/release/build.ninja"], cwd=ROOT, check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "meta_bench", "samplefs"],
                   cwd=ROOT, check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory() as home, Served("redis") as redis:
        juicefs = Juicefs(pathlib.Path(home))
        base = f"redis://127.0.0.1:{redis['port']}"
        table = Table()
        if options.only in (None, "operations"):
            operations(table, juicefs, "Redis", base + "/1", 1.5, options)
            operations(table, juicefs, "SQLite", f"sqlite3://{home}/meta.db", 3, options)
        if options.only in (None, "tree"):
            tree(table, juicefs, base + "/2", options)
        if options.only in (None, "read"):
            read(table, juicefs, base, options)
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
