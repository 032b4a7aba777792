#!/usr/bin/env python3
"""Measures warming up a cold cache beside `juicefs warmup`, and prints ratios.

Data, on Redis and MinIO: *imagenet* (files of 60-160 kB in 100 directories) and *small* (files of
4 KiB), imported by `samplefs sync` into our volume, which packs them, and by `juicefs sync` into
theirs. Bars: 3 and 15 times the files/s, every block fetched exactly once. Also the time of `status`
over a cache of a few blocks and one of many (bar: the same within a factor of 2). Rounds alternate;
the median of the ratios counts. Exits 1 below a bar.

The full sizes are --imagenet 20000 --small 50000; importing them into theirs takes minutes.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from peers import ROOT, Served, requests_of
from volume import BIN, Juicefs, Table


def make_data(folder, files, low, high):
    source = random.Random(1)
    noise = source.randbytes(1 << 20)
    for i in range(files):
        directory = folder / f"class{i % 100:03}"
        directory.mkdir(parents=True, exist_ok=True)
        at, size = source.randrange(1 << 19), source.randint(low, high)
        (directory / f"sample{i:06}").write_bytes(i.to_bytes(8, "big") + noise[at:at + size - 8])


def samplefs(*arguments, environment=None):
    done = subprocess.run([BIN / "samplefs", *map(str, arguments)], capture_output=True, text=True,
                          env=os.environ | (environment or {}))
    if done.returncode != 0:
        sys.exit(f"samplefs {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def last(text):
    return json.loads(text.strip().splitlines()[-1])


def warm(table, juicefs, redis, minio, name, files, low, high, bar, options):
    home = pathlib.Path(juicefs.home)
    data = home / name
    make_data(data, files, low, high)
    keys = {"ACCESS_KEY": minio["access_key"], "SECRET_KEY": minio["secret_key"]}
    ours_url, theirs_url = f"{redis}/{1 if name == 'imagenet' else 3}", f"{redis}/{2 if name == 'imagenet' else 4}"
    bucket = ["--storage", "minio", "--bucket", f"{minio['endpoint']}/bench"]
    samplefs("format", ours_url, f"{name}-ours", *bucket, environment=keys)
    samplefs("sync", ours_url, f"file://{data}/", "--json", environment=keys)
    juicefs.environment |= keys | {"theirs": theirs_url}
    juicefs.run("format", theirs_url, f"{name}-theirs", "--trash-days", "0", *bucket)
    juicefs.run("sync", "--threads", "50", f"{data}/", "jfs://theirs/")
    shutil.rmtree(data)
    rates, gets = {"ours": [], "theirs": []}, {}

    def measured(who, work):
        os.sync()  # nobody pays for what was left to be written before
        before, begin = requests_of(minio, "GetObject"), time.monotonic()
        result = work()
        rates[who].append(files / (time.monotonic() - begin))
        gets[who] = requests_of(minio, "GetObject") - before
        return result

    def warm_theirs(cache):
        with juicefs.mount(theirs_url, "--cache-dir", cache) as (path, _):
            measured("theirs", lambda: juicefs.run("warmup", "-p", "50", path))

    def warm_ours(cache):
        done = last(measured("ours", lambda: samplefs("warmup", ours_url, "--cache-dir", cache, "--json")))
        if done["blocks"]["failed"] or done["bytes"]["fetched"] != done["bytes"]["total"]:
            sys.exit(f"warm-up fetched {done['bytes']['fetched']} of {done['bytes']['total']} bytes")
        return done

    cache = home / f"{name}-ours"
    for round_ in range(options.rounds):
        shutil.rmtree(cache, ignore_errors=True)
        for who in ("theirs", "ours") if round_ % 2 == 0 else ("ours", "theirs"):
            if who == "ours":
                done = warm_ours(cache)
            else:
                warm_theirs(home / f"{name}-theirs")
                shutil.rmtree(home / f"{name}-theirs")
    table.row(f"{name}, {files} files", rates["ours"], rates["theirs"], "files/s", bar)
    each = gets["ours"] / done["blocks"]["total"]
    table.failed |= each != 1
    print(f"{'  GETs that MinIO counted':34} {gets['ours'] / files:12.4f} {gets['theirs'] / files:12.4f} per file", flush=True)
    print(f"{'  GETs per block':34} {each:12.4f} {'':12} {'':9} {'':6} {1:5.2f}  {'ok' if each == 1 else 'MISSED'}", flush=True)
    return ours_url, cache


def status(table, few, many):
    """Milliseconds of `status` over two caches."""
    def best(url, cache):
        times = []
        for _ in range(5):
            begin = time.monotonic()
            samplefs("status", url, "--cache-dir", cache, "--json")
            times.append((time.monotonic() - begin) * 1000)
        return min(times)
    large, small = best(*many), best(*few)
    good = large <= 2 * small
    table.failed |= not good
    print(f"{'status: large, small cache':34} {large:12.1f} {small:12.1f} {'ms':9} {large / small:6.2f} {2:5.2f}"
          f"  {'ok' if good else 'MISSED'}", flush=True)


def grow(cache, uuid, count):
    """Adds small blocks to a cache behind its back, and lets a walk count them once."""
    for i in range(count):
        folder = cache / uuid / "raw/chunks/9000" / str(9_000_000 + i // 1000)
        if i % 1000 == 0:
            folder.mkdir(parents=True)
        (folder / f"{9_000_000_000 + i}_0_4").write_bytes(b"abcd")
    (cache / uuid / ".samplefs.counters").unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--imagenet", type=int, default=4000)
    parser.add_argument("--small", type=int, default=10000)
    parser.add_argument("--blocks", type=int, default=100000, help="files in the large cache")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--built", action="store_true", help="take the release program as it is")
    options = parser.parse_args()
    if not options.built:
        subprocess.run(["make", "build/release/build.ninja"], cwd=ROOT, check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", "--preset", "release", "--target", "samplefs"], cwd=ROOT,
                       check=True, stdout=sys.stderr)
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        redis = stack.enter_context(Served("redis"))
        minio = stack.enter_context(Served("minio", "--bucket", "bench"))
        base = f"redis://127.0.0.1:{redis['port']}"
        juicefs, table = Juicefs(home), Table()
        few = warm(table, juicefs, base, minio, "imagenet", options.imagenet, 60_000, 160_000, 3, options)
        many = warm(table, juicefs, base, minio, "small", options.small, 4096, 4096, 15, options)
        uuid = last(samplefs("status", many[0], "--cache-dir", many[1], "--json"))["setting"]["UUID"]
        grow(pathlib.Path(many[1]), uuid, options.blocks)
        samplefs("status", many[0], "--cache-dir", many[1], "--json")
        status(table, few, many)
    sys.exit(table.failed)


if __name__ == "__main__":
    main()
