"""The servers of tests/peers, for benchmarks."""

import json
import pathlib
import re
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / "tests/peers/peer"


def requests_of(minio, name):
    """How many requests of that name (GetObject, PutObject...) MinIO has counted."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{minio['endpoint']}/minio/metrics/v3/api/requests", timeout=60) as page:
        counted = re.search(rf'^minio_api_requests_total\{{name="{name}".*\}} (\S+)$', page.read().decode(), re.M)
    return int(float(counted[1])) if counted else 0


class Served:
    """A peer for as long as this lives; `facts` says how to reach it. `with` gives the facts."""

    def __init__(self, name, *options):
        self.process = subprocess.Popen([PEER, "serve", name, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the peer {name} did not start")
        self.facts = json.loads(line)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(600)  # it removes what it kept

    def __enter__(self):
        return self.facts

    def __exit__(self, *_):
        self.stop()
