#!/usr/bin/env python3
"""Standalone's API server beside a real kube-apiserver with etcd, on this machine and in one run.

    bench/apiserver.py [--objects 1000] [--watchers 100] [--idle 30] [--rounds 2]

Start: from the start of the process to its first answer. Create: OBJECTS ConfigMaps of 4 KiB over 8 connections.
Watch: WATCHERS watches while each object is updated once; until the last watch has seen the last update. The two servers
take turns and the best of ROUNDS counts. Idle: memory and CPU of standalone with its node and controllers. Exits 1 if a
bar is missed. Needs build/release/bin/paddle-operator and the peer `kube`.
"""

import argparse
import asyncio
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPERATOR = pathlib.Path(os.environ.get("PADDLEOP_BIN_DIR", ROOT / "build/release/bin")) / "paddle-operator"
PEER = ROOT / "tests/peers/peer"
SIZE = 4096
CONNECTIONS = 8
BARS = {"idle MiB": 60.0, "idle CPU %": 0.5}


class Connection:
    """HTTP/1.1, one request after the other."""

    def __init__(self, server):
        self.server = server

    async def __aenter__(self):
        at = urllib.parse.urlsplit(self.server["url"])
        context = ssl.create_default_context(cafile=self.server["ca"])
        self.reader, self.writer = await asyncio.open_connection(at.hostname, at.port, ssl=context, limit=1 << 22)
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    async def send(self, method, path, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.server['token']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        return int(head.split()[1]), head

    async def call(self, method, path, body=None):
        status, head = await self.send(method, path, body)
        if "content-length:" in head:
            length = int(head.split("content-length:")[1].split()[0])
            return status, await self.reader.readexactly(length)
        parts = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return status, b"".join(parts)


def config_map(name, letter):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": letter * SIZE}}


async def each(server, count, work):
    """Calls work(connection, number) for each number, over all connections; seconds."""
    numbers = iter(range(count))

    async def one():
        async with Connection(server) as connection:
            await connection.call("GET", "/version")  # the handshake is not counted
            ready.append(True)
            while len(ready) < CONNECTIONS:
                await asyncio.sleep(0.001)
            for number in numbers:
                await work(connection, number)

    ready = []
    started = time.monotonic()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return time.monotonic() - started


async def create(server, namespace, count):
    async def work(connection, number):
        status, reply = await connection.call(
            "POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map(f"c-{number}", "a"))
        assert status == 201, reply
    async with Connection(server) as connection:
        await connection.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    return await each(server, count, work)


async def watched_updates(server, namespace, count, watchers):
    """Seconds until every watch has seen every update."""
    seen = [0] * watchers

    async def watch(index):
        async with Connection(server) as connection:
            status, _ = await connection.send(
                "GET", f"/api/v1/namespaces/{namespace}/configmaps?watch=true&resourceVersion={version}")
            assert status == 200
            watching.append(index)
            while seen[index] < count:
                data = await connection.reader.read(1 << 18)
                assert data, "a watch has ended"
                seen[index] += data.count(b'"type":"MODIFIED"')

    async def update(connection, number):
        path = f"/api/v1/namespaces/{namespace}/configmaps/c-{number}"
        status, reply = await connection.call("PUT", path, config_map(f"c-{number}", "b"))
        assert status == 200, reply

    async with Connection(server) as connection:
        _, body = await connection.call("GET", f"/api/v1/namespaces/{namespace}/configmaps?limit=1")
        version = json.loads(body)["metadata"]["resourceVersion"]
    watching = []
    watches = [asyncio.create_task(watch(i)) for i in range(watchers)]
    while len(watching) < watchers:
        await asyncio.sleep(0.01)
    started = time.monotonic()
    await each(server, count, update)
    await asyncio.wait_for(asyncio.gather(*watches), 120)
    return time.monotonic() - started


def answers(url, ca):
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "--max-time", "1", "--cacert", ca, url + "/livez"])
    return done.returncode == 0


def ticks_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return fields


class Ours:
    def __init__(self, *flags):
        self.dir = tempfile.mkdtemp(prefix="bench-apiserver-")
        started = time.monotonic()
        self.process = subprocess.Popen([OPERATOR, "standalone", "--data-dir", self.dir, *flags],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        url = self.process.stdout.readline().split()[-1]
        ca = self.dir + "/pki/ca.crt"
        while not answers(url, ca):
            time.sleep(0.005)
        self.start = time.monotonic() - started
        self.server = {"url": url, "ca": ca, "token": pathlib.Path(self.dir, "pki/token").read_text()}

    def cpu(self):
        fields = ticks_of(self.process.pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Real:
    """`peer serve kube`; its API server's own start is found in /proc."""

    def __init__(self):
        self.peer = subprocess.Popen([PEER, "serve", "kube"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pid, port = self.find()
        while subprocess.run(["curl", "-sk", "-o", "/dev/null", "--max-time", "1",
                              f"https://127.0.0.1:{port}/livez"]).returncode != 0:
            time.sleep(0.005)
        uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
        self.start = uptime - int(ticks_of(pid)[19]) / os.sysconf("SC_CLK_TCK")
        info = json.loads(self.peer.stdout.readline())
        self.server = {"url": info["server"], "ca": info["ca"], "token": info["token"]}

    def find(self):
        """The process below the peer that is kube-apiserver, and its port."""
        while True:
            parents = {}
            for entry in pathlib.Path("/proc").iterdir():
                if entry.name.isdigit():
                    try:
                        parents[int(entry.name)] = int(ticks_of(entry.name)[1])
                    except OSError:
                        continue
            for pid in parents:
                above = pid
                while above in parents and above != self.peer.pid:
                    above = parents[above]
                if above != self.peer.pid:
                    continue
                try:
                    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                except OSError:
                    continue
                ports = [word.split("=")[1] for word in words if word.startswith("--secure-port=")]
                if ports and "apiserver" in words[0] + words[1]:
                    return pid, int(ports[0])
            time.sleep(0.005)

    def stop(self):
        self.peer.stdin.close()
        self.peer.wait(120)
        self.peer.stdout.close()


def idle(seconds):
    """Memory and share of a CPU of the whole standalone, with a node and the controllers."""
    ours = Ours()
    try:
        time.sleep(15)  # past the start
        before, at = ours.cpu(), time.monotonic()
        time.sleep(seconds)
        return ours.resident(), 100 * (ours.cpu() - before) / (time.monotonic() - at)
    finally:
        ours.stop()


def measure(options):
    best = {}
    real, ours = Real(), Ours("--api-only")
    try:
        best["start", "real"], best["start", "ours"] = real.start, ours.start
        for number in range(options.rounds):
            for name, server in (("real", real.server), ("ours", ours.server)):
                namespace = f"bench-{number}"
                for what, seconds in (
                        ("create", asyncio.run(create(server, namespace, options.objects))),
                        ("watch", asyncio.run(watched_updates(server, namespace, options.objects, options.watchers)))):
                    best[what, name] = min(seconds, best.get((what, name), 1e9))
    finally:
        ours.stop()
        real.stop()
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--idle", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    best = measure(options)
    titles = {"start": "start to first answer", "create": f"{options.objects} objects of 4 KiB created",
              "watch": f"{options.watchers} watches on {options.objects} updates"}
    missed = 0
    print(f"{'':40} {'standalone':>12} {'kube-apiserver':>15} {'ratio':>7}")
    for what, title in titles.items():
        ours, real = best[what, "ours"], best[what, "real"]
        missed += real < ours
        print(f"{title:40} {ours:10.2f} s {real:13.2f} s {real / ours:6.1f}x{'' if real >= ours else '  MISSED: bar 1.0'}")
    memory, cpu = idle(options.idle)
    for title, value in (("idle MiB", memory), ("idle CPU %", cpu)):
        missed += value > BARS[title]
        print(f"{title:40} {value:12.2f}   (at most {BARS[title]:g}){'  MISSED' if value > BARS[title] else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
