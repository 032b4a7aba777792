"""`paddle-operator node` against a cluster, for the tests beside this file and others that need pods that run."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "operator"))

from cluster import OPERATOR, wait_for  # noqa: E402


class NodeAgent:
    """Runs pods of `cluster` as processes of this machine. Everything is gone after stop()."""

    def __init__(self, cluster, *flags, kubeconfig=None):
        self.cluster = cluster
        self.data = pathlib.Path(tempfile.mkdtemp(prefix="paddleop-node-"))
        self.command = [OPERATOR, "node", "--kubeconfig", kubeconfig or cluster.info["kubeconfig"],
                        "--data-dir", self.data / "d", *flags]
        self.log = open(self.data / "agent.log", "a")
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=self.log)

    def wait_ready(self, nodes=1, seconds=90):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"the node agent ended: {self.output()}")
            found = self.cluster.get("/api/v1/nodes")["items"]
            return sum(any(c["type"] == "Ready" and c["status"] == "True"
                           for c in n.get("status", {}).get("conditions", [])) for n in found) >= nodes
        wait_for(ready, f"{nodes} nodes are ready", seconds)
        return self

    def output(self):
        return (self.data / "agent.log").read_text()

    def kill(self):
        """As a crash: its pods stay."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        text = self.output()
        self.log.close()
        left = self.leftovers()
        shutil.rmtree(self.data, ignore_errors=True)
        assert "ERROR: AddressSanitizer" not in text and "runtime error:" not in text, text
        assert not left, f"left behind: {left}"
        return code

    def leftovers(self):
        """Mounts below our directory, and processes of our pods."""
        text = pathlib.Path("/proc/self/mountinfo").read_text()
        mounts = [line for line in text.splitlines() if str(self.data) in line]
        processes = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                cwd = os.readlink(entry / "cwd")
            except OSError:
                continue
            if cwd.startswith(str(self.data)) or (b"pod-process" in words and str(self.data) in cwd):
                processes.append(words)
        return mounts + processes
