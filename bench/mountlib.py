"""What bench/mount.py measures with: the two clients, the servers, the data sets, the table."""

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

from peers import PEER, ROOT

BIN = ROOT / "build/release/bin"

# The tuning that is usual for training on this client.
TUNED = ["--open-cache", "7200", "--attr-cache", "7200", "--entry-cache", "7200",
         "--dir-entry-cache", "7200", "--prefetch", "1", "--buffer-size", "1024"]


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


def without_pages(path, names):
    """How many of the files the kernel no longer holds whole in memory. Asks nothing of the mount."""
    listed = must("sh", "-c", 'cd "$0" && xargs -d "\\n" fincore -rbno RES,SIZE <"$1"', path, names)
    return sum(int(held) < int(size) for held, size in map(str.split, listed.splitlines()))


def epoch(path, names, readers, seed, chunk=1 << 20):
    out = subprocess.run([BIN / "epoch_bench", path, names, str(readers), str(seed), str(chunk)],
                         capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"epoch_bench {path}: {out.stdout}{out.stderr}")
    return json.loads(out.stdout)


class Client:
    """One of the two mounts under test."""

    def __init__(self, name, home, minio):
        self.name = name
        self.home = pathlib.Path(home)
        self.environment = os.environ | {"HOME": str(home), "ACCESS_KEY": minio["access_key"],
                                         "SECRET_KEY": minio["secret_key"]}
        folder = must(PEER, "path", "juicefs").strip() if name == "juicefs" else BIN
        self.program = f"{folder}/{name}"

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
        quiet = ["--no-usage-report", "--backup-meta", "0"] if self.name == "juicefs" else ["--log-level", "warn"]
        with open(self.home / f"{self.name}.log", "a") as log:
            process = subprocess.Popen([self.program, "mount", url, path, *quiet, *common, *options],
                                       env=self.environment, stdout=subprocess.DEVNULL, stderr=log)
        try:
            end = time.monotonic() + 120
            while os.stat(path).st_dev == os.stat(self.home).st_dev:
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"{self.name} mount {url} did not come up, see {self.home}/{self.name}.log")
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


class MemoryGroup:
    """A control group with a limit of memory, of either version of the kernel's interface."""

    def __init__(self, limit):
        unified = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        self.path = pathlib.Path("/sys/fs/cgroup" if unified else "/sys/fs/cgroup/memory") / "samplefs-bench"
        self.path.mkdir(exist_ok=True)
        (self.path / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(limit))
        self.charged = self.path / ("memory.current" if unified else "memory.usage_in_bytes")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:  # what ended is still being accounted for
                time.sleep(0.1)

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def run(self, *argv):
        words = " ".join(map(str, argv))
        return must("sh", "-c", f"echo $$ > {self.path}/cgroup.procs; exec {words}")

    def cached(self):
        """Bytes of file pages that the group holds."""
        text = (self.path / "memory.stat").read_text()
        return int(re.search(r"^(?:total_cache|file|cache) (\d+)", text, re.M)[1])


class Workshop:
    """Servers, data sets and volumes; kept in a directory so that later runs find them again."""

    def __init__(self, home, redis, minio, shares):
        self.home = pathlib.Path(home)
        self.redis = redis
        self.minio = minio
        self.shares = shares
        self.ours = Client("samplefs", home, minio)
        self.theirs = Client("juicefs", home, minio)
        self.state = self.home / "sets.json"

    def _load(self):
        return json.loads(self.state.read_text()) if self.state.exists() else {}

    def _keep(self, kind, value):
        self.state.write_text(json.dumps(self._load() | {kind: value}))

    def url(self, number):
        return f"redis://{self.redis['host']}:{self.redis['port']}/{number}"

    def set_of(self, kind):
        """Source directory, list of names, URLs of a volume of each client, number of files."""
        found = self._load().get(kind)
        if not found:
            source = self.home / f"source-{kind}"
            source.mkdir()
            must(BIN / "bench_data", kind, f"file://{source}/", self.shares[kind])
            names = self.home / f"{kind}.list"
            files = sorted(str(p.relative_to(source)) for p in source.rglob("*") if p.is_file())
            names.write_text("".join(f"{n}\n" for n in files))
            urls = {}
            base = {"imagenet": 1, "small": 3, "big": 5}[kind]
            for i, client in enumerate((self.ours, self.theirs)):
                urls[client.name] = self.url(base + i)
                client.format(urls[client.name], self.minio, f"{client.name}-{kind}")
                client.fill(urls[client.name], source)
            found = {"source": str(source), "names": str(names), "urls": urls, "count": len(files)}
            self._keep(kind, found)
        return pathlib.Path(found["source"]), found["names"], found["urls"], found["count"]

    def tree(self, count):
        """A volume of many empty-handed files, for walks."""
        if self._load().get("tree") != count:
            self.theirs.format(self.url(8), self.minio, "tree")
            must(BIN / "meta_bench", self.url(8), "--fill", count)
            self._keep("tree", count)
        return self.url(8)

    def native_tree(self, count):
        """The same tree of files of the same sizes, without data, beside the volumes."""
        path = self.home / "native-tree"
        if self._load().get("native-tree") != count:
            shutil.rmtree(path, ignore_errors=True)
            for made in range(0, count, 1000):
                folder = path / f"fill{made}"
                folder.mkdir(parents=True)
                for i in range(made, made + 1000):
                    with open(folder / f"sample-{i}.jpg", "wb") as file:
                        file.truncate(100_000)
            self._keep("native-tree", count)
        return path

    def objects(self, kind):
        """The data set as plain objects, as s3fs serves them."""
        if not self._load().get(f"objects-{kind}"):
            host = self.minio["endpoint"].split("//")[1]
            uri = f"minio://{self.minio['access_key']}:{self.minio['secret_key']}@{host}/bench/plain-{kind}/"
            must(BIN / "bench_data", kind, uri, self.shares[kind])
            self._keep(f"objects-{kind}", True)
        return f"bench:/plain-{kind}"

    def cache(self, client, kind, fresh=False):
        path = self.home / f"cache-{client.name}-{kind}"
        if fresh:
            shutil.rmtree(path, ignore_errors=True)
        return path

    def commands(self):
        out = must("redis-cli", "-p", self.redis["port"], "info", "stats")
        return int(re.search(r"total_commands_processed:(\d+)", out)[1])

    @staticmethod
    def metric(path, pattern):
        text = must("curl", "-s", "--unix-socket",
                    f"/run/samplefs/{os.minor(os.stat(path).st_dev)}.sock", "http://mount/metrics")
        found = re.search(pattern + r" (\d+)", text)
        return int(found[1]) if found else 0

    def gets(self, path):
        return self.metric(path, r'paddleop_object_request_seconds_count\{op="get"\}')

    @staticmethod
    def requests(path):
        """How often the kernel has asked for what, by name."""
        return json.loads(must(BIN / "samplefs", "status", path, "--json"))["operations"]

    @contextlib.contextmanager
    def s3fs(self, kind):
        keys = self.home / "s3fs.keys"
        keys.write_text(f"{self.minio['access_key']}:{self.minio['secret_key']}\n")
        keys.chmod(0o600)
        path = tempfile.mkdtemp(dir=self.home)
        must("s3fs", self.objects(kind), path, "-o", f"passwd_file={keys}", "-o", f"url={self.minio['endpoint']}",
             "-o", "use_path_request_style", "-o", "parallel_count=20")
        try:
            yield path
        finally:
            must("umount", "-l", path)
            os.rmdir(path)


class Table:
    """Prints the rows; each has one number per round, and bars that are ratios."""

    def __init__(self):
        self.failed = False
        print(f"{'':44} {'ours':>9} {'juicefs':>9} {'native':>9} {'':8} {'x juicefs':>9} {'x native':>9}",
              flush=True)

    def row(self, title, ours, theirs=None, native=None, unit="files/s", over_juicefs=None, over_native=None,
            at_most=None):
        """`at_most` is a number that ours may not pass, or "ratio": then the bar over juicefs is one from above."""
        def ratio(other):
            return statistics.median(a / b for a, b in zip(ours, other, strict=True)) if other else None

        def show(values):
            return f"{statistics.median(values):9.{0 if statistics.median(values) >= 100 else 1}f}" if values else f"{'':9}"

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
                         (("x juicefs", over_juicefs), ("x native", over_native),
                          ("at most", at_most if at_most != "ratio" else None)) if b is not None)
        verdict = f"  [{bars}] {'ok' if good else 'MISSED'}" if bars else ""
        print(f"{title:44} {show(ours)} {show(theirs)} {show(native)} {unit:8} {cells[0]} {cells[1]}{verdict}",
              flush=True)
