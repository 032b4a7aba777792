"""The servers of tests/peers, for benchmarks."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / "tests/peers/peer"


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
