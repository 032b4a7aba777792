#!/usr/bin/env python3
"""Epochs, walks and writes through `samplefs mount`, beside native ext4 and `juicefs mount`, in one run.

    bench/mount.py [--share 0.3] [--rows cold,memory,local,limit,walk,big,write,resident] [--rounds 3]

Data as bench_data makes them; files are read whole in random order by epoch_bench. Metadata on Redis,
objects on MinIO, both started here. "Local" is a new mount with a full cache directory and dropped
page caches. Every ratio is a median over rounds that alternate. Prints the table of bars and exits 1
if one is missed. Needs root, build/release/bin/{samplefs,bench_data,epoch_bench,meta_bench}.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / "tests/peers/peer"
BIN = ROOT / "build/release/bin"


@contextlib.contextmanager
def serve(name, *arguments):
    process = subprocess.Popen([PEER, "serve", name, *arguments], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(60)


def must(*argv, **options):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv[:3]))}: {done.stdout}{done.stderr}")
    return done.stdout


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


def resident(pid):
    """Resident memory of a process, in MB."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1000


class Client:
    """One of the two mounts under test."""

    def __init__(self, name, home, keys):
        self.name = name
        self.home = pathlib.Path(home)
        self.environment = os.environ | keys | {"HOME": str(home)}
        if name == "juicefs":
            folder = must(PEER, "path", "juicefs").strip()
            self.program = f"{folder}/juicefs"
        else:
            self.program = str(BIN / "samplefs")

    def format(self, url, minio, name):
        must(self.program, "format", url, name, "--storage", "minio", "--bucket",
             f"{minio['endpoint']}/bench", "--trash-days", "0", env=self.environment)

    def fill(self, url, source):
        if self.name == "juicefs":
            must(self.program, "sync", f"{source}/", "jfs://META/", "--threads", "20",
                 env=self.environment | {"META": url})
        else:
            must(self.program, "sync", url, f"file://{source}", env=self.environment)

    @contextlib.contextmanager
    def mount(self, url, cache, *options):
        path = tempfile.mkdtemp(dir=self.home)
        common = ["--cache-dir", str(cache), "--cache-size", "100000", "--free-space-ratio", "0.01"]
        if self.name == "juicefs":
            argv = [self.program, "mount", url, path, "--no-usage-report", "--backup-meta", "0", *common]
        else:
            argv = [self.program, "mount", url, path, "--log-level", "warn", *common]
        process = subprocess.Popen([*argv, *options], env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=open(self.home / f"{self.name}.log", "a"))
        try:
            end = time.monotonic() + 120
            while os.stat(path).st_dev == os.stat(self.home).st_dev:
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"{self.name} mount {url} did not come up")
                time.sleep(0.02)
            yield path, process.pid
        finally:
            subprocess.run(["umount", "-l", path], check=False)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.rmdir(path)

    def pid_of_server(self, pid):
        """juicefs serves from a child of the process that was started."""
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children and self.name == "juicefs" else pid


def epoch(path, names, readers, seed, chunk=1 << 20):
    out = subprocess.run([BIN / "epoch_bench", path, names, str(readers), str(seed), str(chunk)],
                         capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"epoch_bench {path}: {out.stdout}{out.stderr}")
    return json.loads(out.stdout)


class Bench:
    def __init__(self, options, home, redis, minio):
        self.options = options
        self.home = pathlib.Path(home)
        self.redis = redis
        self.minio = minio
        keys = {"ACCESS_KEY": minio["access_key"], "SECRET_KEY": minio["secret_key"]}
        self.ours = Client("samplefs", home, keys)
        self.theirs = Client("juicefs", home, keys)
        self.failed = False
        self.database = 0
        self.sets = {}
        self.seed = 0
        print(f"{'':44} {'ours':>9} {'juicefs':>9} {'native':>9} {'':8} {'x juicefs':>9} {'x native':>9}",
              flush=True)

    def row(self, title, ours, theirs=None, native=None, unit="files/s", over_juicefs=None, over_native=None,
            at_most=None):
        """Values are lists of one number per round; bars are ratios."""
        def ratio(other):
            return statistics.median(a / b for a, b in zip(ours, other, strict=True)) if other else None
        def show(values):
            return f"{statistics.median(values):9.0f}" if values else f"{'':9}"
        good = True
        cells = []
        for value, bar in ((ratio(theirs), over_juicefs), (ratio(native), over_native)):
            cells.append(f"{value:9.2f}" if value is not None else f"{'':9}")
            if bar is not None and value is not None:
                good &= value <= bar if at_most == "ratio" else value >= bar
        if isinstance(at_most, (int, float)):
            good &= statistics.median(ours) <= at_most
        self.failed |= not good
        bars = ", ".join(f"{w} {b:g}" for w, b in
                         (("juicefs", over_juicefs), ("native", over_native),
                          ("most", at_most if at_most != "ratio" else None)) if b is not None)
        print(f"{title:44} {show(ours)} {show(theirs)} {show(native)} {unit:8} {cells[0]} {cells[1]}"
              f"  [{bars}] {'ok' if good else 'MISSED'}", flush=True)

    def next_url(self):
        self.database += 1
        return f"redis://{self.redis['host']}:{self.redis['port']}/{self.database}"

    def commands(self):
        out = must("redis-cli", "-p", self.redis["port"], "info", "stats")
        return int(re.search(r"total_commands_processed:(\d+)", out)[1])

    def set_of(self, kind):
        """Source directory, list of names, and a volume of each client."""
        if kind in self.sets:
            return self.sets[kind]
        source = self.home / f"source-{kind}"
        source.mkdir()
        must(BIN / "bench_data", kind, f"file://{source}/", self.options.share)
        names = self.home / f"{kind}.list"
        found = sorted(str(p.relative_to(source)) for p in source.rglob("*") if p.is_file())
        names.write_text("".join(f"{n}\n" for n in found))
        urls = {}
        for client in (self.ours, self.theirs):
            urls[client.name] = self.next_url()
            client.format(urls[client.name], self.minio, f"{client.name}-{kind}")
            client.fill(urls[client.name], source)
        self.sets[kind] = (source, names, urls, len(found))
        return self.sets[kind]

    def cache(self, client, kind, fresh=False):
        path = self.home / f"cache-{client.name}-{kind}"
        if fresh:
            shutil.rmtree(path, ignore_errors=True)
        return path

    def options_of(self, client):
        return ["--read-only"] if client is self.ours else []

    def gets(self, path):
        text = must("curl", "-s", "--unix-socket",
                    f"/run/samplefs/{os.minor(os.stat(path).st_dev)}.sock", "http://mount/metrics")
        found = re.search(r'paddleop_object_request_seconds_count\{op="get"\} (\d+)', text)
        return int(found[1]) if found else 0

    def cold(self):
        for kind, bar in (("imagenet", 4), ("small", 10)):
            _, names, urls, count = self.set_of(kind)
            rates = {"samplefs": [], "juicefs": []}
            commands, gets = 0, 0
            for round_ in range(self.options.rounds):
                self.seed += 1
                for client in (self.theirs, self.ours):
                    with client.mount(urls[client.name], self.cache(client, kind, fresh=True),
                                      *self.options_of(client)) as (path, _):
                        before = self.commands()
                        rates[client.name].append(epoch(path, names, 8, self.seed)["files_per_s"])
                        if client is self.ours:
                            commands, gets = self.commands() - before - 1, self.gets(path)
            self.row(f"cold epoch, {kind}, 8 readers", rates["samplefs"], rates["juicefs"], over_juicefs=bar)
            self.row(f"  Redis commands per 1,000 files ({kind})", [commands * 1000 / count], unit="", at_most=5)
            self.row(f"  GETs per 1,000 files ({kind})", [gets * 1000 / count], unit="", at_most=40)

    def memory(self):
        source, names, urls, _ = self.set_of("imagenet")
        tuned = ["-o", "writeback_cache", "--attr-cache", "7200", "--entry-cache", "7200",
                 "--dir-entry-cache", "7200", "--open-cache", "7200"]
        for readers in (2, 8):
            found = {"ours": [], "default": [], "tuned": [], "native": []}
            ours, theirs = self.ours, self.theirs
            with ours.mount(urls["samplefs"], self.cache(ours, "imagenet"), "--read-only") as (a, _), \
                    theirs.mount(urls["juicefs"], self.cache(theirs, "imagenet")) as (b, _), \
                    theirs.mount(urls["juicefs"], self.cache(theirs, "imagenet"), *tuned) as (c, _):
                paths = {"ours": a, "default": b, "tuned": c, "native": source}
                for path in paths.values():
                    epoch(path, names, 8, 1)
                before = self.requests(a)
                for round_ in range(self.options.rounds + 2):
                    self.seed += 1
                    for name, path in paths.items():
                        found[name].append(epoch(path, names, readers, self.seed)["files_per_s"])
                requests = self.requests(a) - before
            title = f"repeated epoch in memory, {readers} readers"
            self.row(title, found["ours"], found["default"], found["native"], over_juicefs=15, over_native=0.85)
            self.row("  beside juicefs with long timeouts", found["ours"], found["tuned"], over_juicefs=3)
            self.row("  requests to the mount process", [requests], unit="", at_most=0)

    def requests(self, path):
        return json.loads(must(BIN / "samplefs", "status", path, "--json"))["requests"]

    def local(self):
        source, names, urls, _ = self.set_of("imagenet")
        found = {"samplefs": [], "juicefs": [], "native": []}
        for client in (self.ours, self.theirs):  # fill the caches
            with client.mount(urls[client.name], self.cache(client, "imagenet"),
                              *self.options_of(client)) as (path, _):
                epoch(path, names, 8, 1)
        for round_ in range(self.options.rounds):
            self.seed += 1
            drop_caches()
            found["native"].append(epoch(source, names, 8, self.seed)["files_per_s"])
            for client in (self.ours, self.theirs):
                with client.mount(urls[client.name], self.cache(client, "imagenet"),
                                  *self.options_of(client)) as (path, _):
                    drop_caches()
                    found[client.name].append(epoch(path, names, 8, self.seed)["files_per_s"])
        self.row("epoch from the local cache, 8 readers", found["samplefs"], found["juicefs"], found["native"],
                 over_juicefs=4, over_native=0.7)

    def limit(self):
        """Reader and mount process together in a memory cgroup smaller than the data."""
        source, names, urls, _ = self.set_of("imagenet")
        size = sum(f.stat().st_size for f in source.rglob("*") if f.is_file())
        group = pathlib.Path("/sys/fs/cgroup/samplefs-bench")
        if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
            print("epochs larger than memory: no cgroup v2 here, not run", flush=True)
            return
        group.mkdir(exist_ok=True)
        (group / "memory.max").write_text(str(size // 2 + (80 << 20)))
        found = {"samplefs": [], "native": []}
        def inside(path, pid=None):
            if pid:
                (group / "cgroup.procs").write_text(str(pid))
            script = f"echo $$ > {group}/cgroup.procs; exec {BIN}/epoch_bench {path} {names} 8 {self.seed}"
            return json.loads(must("sh", "-c", script))["files_per_s"]
        try:
            for round_ in range(self.options.rounds):
                self.seed += 1
                drop_caches()
                inside(source)
                found["native"].append(inside(source))
                with self.ours.mount(urls["samplefs"], self.cache(self.ours, "imagenet"),
                                     "--read-only") as (path, pid):
                    drop_caches()
                    inside(path, pid)
                    found["samplefs"].append(inside(path))
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
        self.row("epochs over data twice the memory", found["samplefs"], native=found["native"], over_native=0.8)

    def walk(self):
        url = self.next_url()
        self.theirs.format(url, self.minio, "tree")
        must(BIN / "meta_bench", url, "--fill", self.options.tree)
        found = {"samplefs": [], "juicefs": []}
        for round_ in range(self.options.rounds):
            for client in (self.theirs, self.ours):
                with client.mount(url, self.cache(client, "tree"), *self.options_of(client)) as (path, pid):
                    begin = time.monotonic()
                    out = subprocess.run(["find", path, "-type", "f", "-size", "+0"], check=True,
                                         capture_output=True).stdout
                    found[client.name].append(out.count(b"\n") / (time.monotonic() - begin))
                    memory = resident(client.pid_of_server(pid))
        self.row(f"walk, {self.options.tree} files", found["samplefs"], found["juicefs"], over_juicefs=1.5)
        self.row(f"  resident memory, {self.options.tree} files", [memory], unit="MB", at_most=250)

    def big(self):
        source, names, urls, _ = self.set_of("big")
        cold = {"samplefs": [], "juicefs": []}
        local = {"samplefs": [], "juicefs": [], "native": []}
        for round_ in range(self.options.rounds):
            self.seed += 1
            for client in (self.theirs, self.ours):
                with client.mount(urls[client.name], self.cache(client, "big", fresh=True),
                                  *self.options_of(client)) as (path, _):
                    drop_caches()
                    cold[client.name].append(epoch(path, names, 1, self.seed)["mb_per_s"])
            for client in (self.theirs, self.ours):
                with client.mount(urls[client.name], self.cache(client, "big"),
                                  *self.options_of(client)) as (path, _):
                    drop_caches()
                    local[client.name].append(epoch(path, names, 1, self.seed)["mb_per_s"])
            drop_caches()
            local["native"].append(epoch(source, names, 1, self.seed)["mb_per_s"])
        self.row("big, sequential, cold", cold["samplefs"], cold["juicefs"], unit="MB/s", over_juicefs=1.2)
        self.row("big, sequential, local", local["samplefs"], local["juicefs"], local["native"], unit="MB/s",
                 over_juicefs=1.2, over_native=0.8)

    def write(self):
        urls = {}
        for client in (self.ours, self.theirs):
            urls[client.name] = self.next_url()
            client.format(urls[client.name], self.minio, f"{client.name}-write")
        large = {"samplefs": [], "juicefs": []}
        small = {"samplefs": [], "juicefs": []}
        files = max(200, int(5000 * self.options.share))
        for round_ in range(self.options.rounds):
            for client in (self.theirs, self.ours):
                with client.mount(urls[client.name], self.cache(client, "write", fresh=True)) as (path, _):
                    begin = time.monotonic()
                    writers = [subprocess.Popen(["dd", "if=/dev/zero", f"of={path}/{round_}-{i}", "bs=1M",
                                                 f"count={self.options.mib}", "conv=fsync"],
                                                stderr=subprocess.DEVNULL) for i in range(4)]
                    if any(w.wait() for w in writers):
                        sys.exit("dd failed")
                    large[client.name].append(4 * self.options.mib / (time.monotonic() - begin))
                    begin = time.monotonic()
                    must(BIN / "epoch_bench", "write", f"{path}", files, 8, round_)
                    small[client.name].append(files / (time.monotonic() - begin))
        self.row(f"write 4 x {self.options.mib} MiB", large["samplefs"], large["juicefs"], unit="MiB/s", over_juicefs=1)
        self.row(f"write {files} small files, 8 writers", small["samplefs"], small["juicefs"], over_juicefs=1.2)

    def resident(self):
        _, names, urls, _ = self.set_of("imagenet")
        found = {"samplefs": [], "juicefs": []}
        for client in (self.theirs, self.ours):
            with client.mount(urls[client.name], self.cache(client, "imagenet", fresh=True),
                              *self.options_of(client)) as (path, pid):
                epoch(path, names, 8, 1)
                epoch(path, names, 8, 2)
                found[client.name].append(resident(client.pid_of_server(pid)))
        self.row("resident memory after imagenet", found["samplefs"], found["juicefs"], unit="MB",
                 over_juicefs=0.5, at_most="ratio")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.3, help="of the data that bench_data makes")
    parser.add_argument("--rows", default="cold,memory,local,limit,walk,big,write,resident")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tree", type=int, default=1_000_000, help="files of the walk")
    parser.add_argument("--mib", type=int, default=256, help="size of each large file that is written")
    parser.add_argument("--dir", default="/var/tmp", help="where data and caches go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="mount-bench") as home, \
            serve("redis") as redis, serve("minio", "--bucket", "bench") as minio:
        bench = Bench(options, home, redis, minio)
        for row in options.rows.split(","):
            getattr(bench, row)()
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
