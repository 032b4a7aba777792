#!/usr/bin/env python3
"""Measures our HTTP client against wrk and curl on one local nginx, and prints ratios.

Small: requests per second of the client's own CPU time, 4 KiB bodies, the same number of
connections (bar: 0.25 of wrk). Large: throughput of 256 MiB bodies (bar: 0.9 of the curl program).
Rounds alternate between the programs and the median of their ratios counts, so that a busy moment
of the machine does not fall on one of them alone. Exits 1 below a bar.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """
daemon off;
master_process off;
error_log stderr error;
pid {dir}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nodelay on;
  keepalive_requests 1000000000;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  open_file_cache max=16;
  server {{ listen 127.0.0.1:{port}; root {dir}; }}
}}
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A private nginx with one small and one large file."""

    def __init__(self, directory: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        root = pathlib.Path(directory)
        (root / "small").write_bytes(os.urandom(4 << 10))
        block = os.urandom(1 << 20)
        with open(root / "large", "wb") as out:
            for _ in range(256):
                out.write(block)
        config = root / "nginx.conf"
        config.write_text(CONFIG.format(dir=directory, port=self.port))
        self.process = subprocess.Popen(
            ["nginx", "-p", directory, "-c", str(config), "-e", "stderr"]
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("bench/http_client.py: nginx did not start")
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def run(command: list[str]) -> tuple[str, float, float]:
    """Output, wall seconds and CPU seconds of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return out, wall, cpu


def wrk(url: str, connections: int, seconds: int) -> float:
    out, _, cpu = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", url])
    requests = next(int(line.split()[0]) for line in out.splitlines() if " requests in " in line)
    return requests / cpu


def ours(bench: str, url: str, connections: int, seconds: int, mode: str) -> float:
    out, _, cpu = run([bench, "small", url, str(connections), str(seconds), mode])
    result = json.loads(out)
    if result["errors"]:
        sys.exit(f"bench/http_client.py: {result['errors']} requests of ours failed")
    return result["requests"] / cpu


def curl_large(url: str, times: int) -> float:
    command = ["curl", "-sf"]
    for _ in range(times):
        command += ["-o", "/dev/null", url]
    _, wall, _ = run(command)
    return times * 256 / wall


def ours_large(bench: str, url: str, times: int) -> float:
    out, wall, _ = run([bench, "large", url, str(times)])
    result = json.loads(out)
    if result["errors"] or result["bytes"] != times * (256 << 20):
        sys.exit("bench/http_client.py: a large body of ours was not whole")
    return times * 256 / wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=2, help="of each small round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    for program in ("nginx", "wrk", "curl"):
        if not shutil.which(program):
            sys.exit(f"bench/http_client.py: {program} is missing; tools/deps.sh bench installs it")
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    subprocess.run(["make", "build/release/build.ninja"], check=True)
    build = ["cmake", "--build", "--preset", "release", "--target", "http_client_bench"]
    subprocess.run(build, check=True, stdout=sys.stderr)
    bench = "build/release/bin/http_client_bench"

    with tempfile.TemporaryDirectory(prefix="http-bench-") as directory:
        server = Server(directory)
        try:
            small, large = f"{server.url}/small", f"{server.url}/large"
            found: dict[str, list[float]] = {
                name: [] for name in ("wrk", "blocking", "started", "curl", "ours")
            }
            for _ in range(options.rounds):
                found["wrk"].append(wrk(small, options.connections, options.seconds))
                for mode in ("blocking", "started"):
                    found[mode].append(
                        ours(bench, small, options.connections, options.seconds, mode)
                    )
                # Wall time suffers most from whatever else runs: many short turns.
                for _ in range(4):
                    found["curl"].append(curl_large(large, 1))
                    found["ours"].append(ours_large(bench, large, 1))
        finally:
            server.stop()

    median = {name: statistics.median(values) for name, values in found.items()}
    rows = [
        ("GET 4 KiB, blocking calls", "blocking", "wrk", "req per CPU s", 0.25),
        ("GET 4 KiB, started calls", "started", "wrk", "req per CPU s", 0.25),
        ("GET 256 MiB, streamed", "ours", "curl", "MiB/s", 0.9),
    ]
    print(f"HTTP client, {options.connections} connections, median of {options.rounds} rounds")
    print(f"{'':28} {'ours':>10} {'peer':>10}  {'':14} {'ratio':>6} {'bar':>5}")
    failed = False
    for title, mine, peer, unit, bar in rows:
        # Of neighbours in time, so that both had the same machine.
        ratio = statistics.median(a / b for a, b in zip(found[mine], found[peer], strict=True))
        failed |= ratio < bar
        print(
            f"{title:28} {median[mine]:10.0f} {median[peer]:10.0f}  {unit:14} "
            f"{ratio:6.2f} {bar:5.2f}  {'ok' if ratio >= bar else 'MISSED'} ({peer})"
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
