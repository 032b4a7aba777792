#!/usr/bin/env python3
"""Epochs, walks and writes through `samplefs mount`, beside native ext4, `juicefs mount` and s3fs.

    bench/mount.py [--share 1] [--rounds 3] [--rows cold,memory,local,limit,walk,big,write,resident,s3fs]

Data as bench_data makes them; files are read whole in random order by epoch_bench. Metadata on Redis,
objects on MinIO, both started here. "Local" is a new mount with a full cache directory and dropped
page caches; native caches are filled by reading. Every ratio is a median over rounds that alternate.
Prints the table of bars and exits 1 if one is missed. Needs root, s3fs and
build/release/bin/{samplefs,bench_data,epoch_bench,meta_bench}.

To run single rows on the same data: `--home DIR --prepare` makes the data and serves it until its
standard input ends; meanwhile `--home DIR --rows ROW` measures.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from mountlib import BIN, TUNED, MemoryGroup, Table, Workshop, drop_caches, epoch, must, resident, without_pages
from peers import Served

ROWS = "cold,memory,local,limit,walk,big,write,resident,s3fs"


class Bench:
    def __init__(self, options, shop):
        self.options = options
        self.shop = shop
        self.ours, self.theirs = shop.ours, shop.theirs
        self.table = Table()
        self.row = self.table.row
        self.seed = 0

    def mount(self, client, kind, *options, fresh=False):
        """Ours in data-set mode."""
        _, _, urls, _ = self.shop.set_of(kind)
        mode = ["--read-only"] if client is self.ours else []
        return client.mount(urls[client.name], self.shop.cache(client, kind, fresh), *mode, *options)

    def next_seed(self):
        self.seed += 1
        return self.seed

    def fill_caches(self, kind):
        """Every block in both cache directories, whatever rows ran before."""
        _, names, _, _ = self.shop.set_of(kind)
        for client in (self.ours, self.theirs):
            with self.mount(client, kind) as (path, _):
                epoch(path, names, 8, 1)

    def cold(self):
        for kind, bar in (("imagenet", 4), ("small", 10)):
            _, names, _, count = self.shop.set_of(kind)
            rates = {"samplefs": [], "juicefs": []}
            commands = {}
            for _ in range(self.options.rounds):
                seed = self.next_seed()
                for client in (self.theirs, self.ours):
                    with self.mount(client, kind, fresh=True) as (path, _):
                        drop_caches()
                        before = self.shop.commands()
                        rates[client.name].append(epoch(path, names, 8, seed)["files_per_s"])
                        # One of them asked for the count.
                        commands[client.name] = (self.shop.commands() - before - 1) * 1000 / count
                        if client is self.ours:
                            gets = self.shop.gets(path) * 1000 / count
            self.row(f"cold epoch, 8 readers, {kind}", rates["samplefs"], rates["juicefs"], over_juicefs=bar)
            self.row("  Redis commands per 1,000 files", [commands["samplefs"]], [commands["juicefs"]], unit="",
                     at_most=0)
            self.row("  GETs per 1,000 files", [gets], unit="", at_most=40)

    def memory(self):
        source, names, _, _ = self.shop.set_of("imagenet")
        with self.mount(self.ours, "imagenet") as (a, _), self.mount(self.theirs, "imagenet") as (b, _), \
                self.mount(self.theirs, "imagenet", *TUNED) as (c, _):
            paths = {"tuned": c, "default": b, "native": source, "ours": a}
            drop_caches()
            for path in paths.values():
                epoch(path, names, 8, 1)
            for readers in (2, 8):
                found = {name: [] for name in paths}
                # Of our epochs: files that the kernel had dropped pages of, pages that it dropped and read again, requests.
                counted = []
                for _ in range(self.options.rounds + 2):
                    seed = self.next_seed()
                    for name, path in paths.items():
                        if name == "native":
                            # A kernel may take pages back while slower epochs run (DAMON does), from any file system:
                            # both that are held against each other begin whole.
                            for whole in (source, a):
                                epoch(whole, names, 8, seed)
                        if name == "ours":
                            rate, *counts = self.counted_epoch(path, names, readers, seed)
                            counted.append(counts)
                        else:
                            rate = epoch(path, names, readers, seed)["files_per_s"]
                        found[name].append(rate)
                self.row(f"repeated epoch in memory, {readers} readers", found["ours"], found["default"],
                         found["native"], over_juicefs=15, over_native=0.85)
                self.row("  beside juicefs with the usual tuning", found["ours"], found["tuned"], over_juicefs=3)
                # One epoch right after the other, as training does it.
                for _ in range(self.options.rounds + 2):
                    counted.append(self.counted_epoch(a, names, readers, self.next_seed())[1:])
                lost, again, asked = zip(*counted)
                print(f"    files that the kernel had dropped pages of, by epoch: {list(lost)}")
                print(f"    pages that it read again after dropping them:         {list(again)}")
                print(f"    requests to the mount process, by epoch:              {list(asked)}")
                whole = [asked for lost, again, asked in counted if lost == again == 0]
                self.row(f"  requests of the {len(whole)} epochs that were whole in memory",
                         [max(whole, default=float("inf"))], unit="", at_most=0)

    def counted_epoch(self, path, names, readers, seed):
        lost = without_pages(path, names)
        before, refaults = sum(self.shop.requests(path).values()), page_refaults()
        rate = epoch(path, names, readers, seed)["files_per_s"]
        return rate, lost, page_refaults() - refaults, sum(self.shop.requests(path).values()) - before

    def local(self):
        source, names, _, _ = self.shop.set_of("imagenet")
        found = {"samplefs": [], "juicefs": [], "native": []}
        self.fill_caches("imagenet")
        for _ in range(self.options.rounds):
            seed = self.next_seed()
            drop_caches()
            found["native"].append(epoch(source, names, 8, seed)["files_per_s"])
            for client in (self.ours, self.theirs):
                with self.mount(client, "imagenet") as (path, _):
                    drop_caches()
                    found[client.name].append(epoch(path, names, 8, seed)["files_per_s"])
        self.row("epoch from the local cache, 8 readers", found["samplefs"], found["juicefs"], found["native"],
                 over_juicefs=4, over_native=0.7)

    def limit(self):
        """Reader and mount process together in a memory group half as large as the data."""
        source, names, _, _ = self.shop.set_of("imagenet")
        self.fill_caches("imagenet")
        size = sum(f.stat().st_size for f in source.rglob("*") if f.is_file())
        found = {"samplefs": [], "native": [], "juicefs": []}

        def inside(group, path):
            out = group.run(BIN / "epoch_bench", path, names, 8, self.next_seed())
            return json.loads(out)["files_per_s"]

        def measure(path, pid=None):
            drop_caches()
            with MemoryGroup(size // 2) as group:
                if pid:
                    group.add(pid)
                inside(group, path)
                rate = inside(group, path)
                if pid:  # it leaves with its mount
                    pathlib.Path(group.path.parent / "cgroup.procs").write_text(str(pid))
                return rate

        for _ in range(self.options.rounds):
            found["native"].append(measure(source))
            for client in (self.ours, self.theirs):
                with self.mount(client, "imagenet") as (path, pid):
                    found[client.name].append(measure(path, client.pid_of_server(pid)))
        self.row("epochs over data twice the memory", found["samplefs"], found["juicefs"], found["native"],
                 over_native=0.8)
        self.cached_once()

    def cached_once(self):
        """What an epoch from the local cache leaves in memory, beside the bytes of the data."""
        source, names, _, _ = self.shop.set_of("imagenet")
        size = sum(f.stat().st_size for f in source.rglob("*") if f.is_file())
        held = {}
        for client in (self.ours, self.theirs):
            with self.mount(client, "imagenet") as (path, pid):
                drop_caches()
                before = cached_bytes()
                epoch(path, names, 8, 1)
                held[client.name] = (cached_bytes() - before) / size
        self.row("  bytes in the page cache for each of the data", [held["samplefs"]], [held["juicefs"]], unit="",
                 at_most=1.15)

    def walk(self):
        url = self.shop.tree(self.options.tree)
        native = self.shop.native_tree(self.options.tree)
        found = {"samplefs": [], "juicefs": [], "native": []}

        def count_files(path):
            return subprocess.run(["find", path, "-type", "f", "-size", "-1000000"], check=True,
                                  capture_output=True).stdout.count(b"\n")

        for _ in range(self.options.rounds):
            drop_caches()
            begin = time.monotonic()
            if count_files(native) != self.options.tree:
                sys.exit(f"{native} does not have {self.options.tree} files")
            found["native"].append(self.options.tree / (time.monotonic() - begin))
            for client in (self.theirs, self.ours):
                mode = ["--read-only"] if client is self.ours else []
                with client.mount(url, self.shop.cache(client, "tree"), *mode) as (path, pid):
                    begin = time.monotonic()
                    count = count_files(path)
                    found[client.name].append(count / (time.monotonic() - begin))
                    # juicefs shows some files of its own in the root.
                    if not self.options.tree <= count <= self.options.tree + 10:
                        sys.exit(f"the walk of {client.name} found {count} files")
                    memory = resident(client.pid_of_server(pid))
        self.row(f"walk, {self.options.tree} files", found["samplefs"], found["juicefs"], found["native"],
                 over_juicefs=1.5)
        self.row("  resident memory after it", [memory], unit="MB", at_most=250)

    def big(self):
        source, names, _, _ = self.shop.set_of("big")
        cold = {"samplefs": [], "juicefs": []}
        local = {"samplefs": [], "juicefs": [], "native": []}
        for _ in range(self.options.rounds):
            seed = self.next_seed()
            for client in (self.theirs, self.ours):
                with self.mount(client, "big", fresh=True) as (path, _):
                    drop_caches()
                    cold[client.name].append(epoch(path, names, 1, seed)["mb_per_s"])
            for client in (self.theirs, self.ours):
                with self.mount(client, "big") as (path, _):
                    drop_caches()
                    local[client.name].append(epoch(path, names, 1, seed)["mb_per_s"])
            drop_caches()
            local["native"].append(epoch(source, names, 1, seed)["mb_per_s"])
        self.row("big, sequential, cold", cold["samplefs"], cold["juicefs"], unit="MB/s", over_juicefs=1.2)
        self.row("big, sequential, local", local["samplefs"], local["juicefs"], local["native"], unit="MB/s",
                 over_juicefs=1.2, over_native=0.8)

    def write(self):
        urls = {}
        for i, client in enumerate((self.ours, self.theirs)):
            urls[client.name] = self.shop.url(10 + i)
            must("redis-cli", "-u", urls[client.name], "flushdb")
            client.format(urls[client.name], self.shop.minio, f"{client.name}-write{int(time.time())}")
        large = {"samplefs": [], "juicefs": []}
        small = {"samplefs": [], "juicefs": []}
        files = 5000
        for round_ in range(self.options.rounds):
            # Neither pays for what the other left to be written to the disk, and they take turns in being first.
            for client in (self.theirs, self.ours) if round_ % 2 == 0 else (self.ours, self.theirs):
                with client.mount(urls[client.name], self.shop.cache(client, "write", fresh=True)) as (path, _):
                    drop_caches()
                    begin = time.monotonic()
                    writers = [subprocess.Popen(["dd", "if=/dev/zero", f"of={path}/{i}", "bs=1M",
                                                 f"count={self.options.mib}", "conv=fsync"],
                                                stderr=subprocess.DEVNULL) for i in range(4)]
                    if any(w.wait() for w in writers):
                        sys.exit("dd failed")
                    large[client.name].append(4 * self.options.mib / (time.monotonic() - begin))
                    drop_caches()
                    begin = time.monotonic()
                    must(BIN / "epoch_bench", "write", f"{path}", files, 8, round_)
                    small[client.name].append(files / (time.monotonic() - begin))
        self.row(f"write 4 x {self.options.mib} MiB", large["samplefs"], large["juicefs"], unit="MiB/s",
                 over_juicefs=1)
        self.row(f"write {files} small files, 8 writers", small["samplefs"], small["juicefs"], over_juicefs=1.2)

    def resident(self):
        _, names, _, _ = self.shop.set_of("imagenet")
        found = {}
        for client in (self.theirs, self.ours):
            with self.mount(client, "imagenet", fresh=True) as (path, pid):
                epoch(path, names, 8, 1)
                epoch(path, names, 8, 2)
                found[client.name] = [resident(client.pid_of_server(pid))]
        self.row("resident memory after imagenet", found["samplefs"], found["juicefs"], unit="MB",
                 over_juicefs=0.5, at_most="ratio")

    def s3fs(self):
        """s3fs over the same files as objects; a part of them, since it takes its time."""
        _, names, _, _ = self.shop.set_of("imagenet")
        part = self.shop.home / "s3fs.list"
        part.write_text("".join(pathlib.Path(names).read_text().splitlines(keepends=True)[::10]))
        found = {"cold": {}, "again": {}}
        with self.shop.s3fs("imagenet") as other, self.mount(self.ours, "imagenet", fresh=True) as (path, _):
            for name, where in (("s3fs", other), ("ours", path)):
                found["cold"][name] = [epoch(where, part, 8, 1)["files_per_s"]]
                found["again"][name] = [epoch(where, part, 8, seed)["files_per_s"] for seed in (2, 3, 4)]
        for name, title in (("cold", "cold epoch over a tenth"), ("again", "repeated epoch over a tenth")):
            ours, other = found[name]["ours"], statistics.median(found[name]["s3fs"])
            self.row(f"{title}; s3fs {other:.0f}/s", ours)


def page_refaults():
    """Pages of files that the kernel had to read again because it had dropped them, since the machine started."""
    for line in pathlib.Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("workingset_refault_file "):
            return int(line.split()[1])
    return 0


def cached_bytes():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Cached:"):
            return int(line.split()[1]) * 1024
    return 0


def prepare(bench, rows):
    for row in rows:
        for kind in {"cold": ("imagenet", "small"), "big": ("big",), "walk": (), "write": ()}.get(row, ("imagenet",)):
            bench.shop.set_of(kind)
        if row == "walk":
            bench.shop.tree(bench.options.tree)
            bench.shop.native_tree(bench.options.tree)
        if row == "s3fs":
            bench.shop.objects("imagenet")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1, help="of the files that bench_data makes")
    parser.add_argument("--big-share", type=float, default=0.25, help="of the size of its big files")
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tree", type=int, default=1_000_000, help="files of the walk")
    parser.add_argument("--mib", type=int, default=256, help="size of each large file that is written")
    parser.add_argument("--dir", default="/var/tmp", help="where data and caches go")
    parser.add_argument("--home", help="an existing directory that keeps data between runs")
    parser.add_argument("--prepare", action="store_true", help="make the data of --home and serve it")
    options = parser.parse_args()
    rows = options.rows.split(",")
    shares = {"imagenet": options.share, "small": options.share, "big": options.big_share}
    with contextlib.ExitStack() as stack:
        servers = options.home and pathlib.Path(options.home) / "servers.json"
        if options.home and not options.prepare:
            redis, minio = json.loads(servers.read_text())
            home = options.home
        else:
            home = options.home or stack.enter_context(tempfile.TemporaryDirectory(dir=options.dir,
                                                                                   prefix="mount-bench"))
            redis = stack.enter_context(Served("redis"))
            minio = stack.enter_context(Served("minio", "--bucket", "bench"))
        bench = Bench(options, Workshop(home, redis, minio, shares))
        if options.prepare:
            prepare(bench, rows)
            servers.write_text(json.dumps([redis, minio]))
            print("ready", flush=True)
            sys.stdin.read()
            return
        for row in rows:
            getattr(bench, row)()
    sys.exit(1 if bench.table.failed else 0)


if __name__ == "__main__":
    main()
