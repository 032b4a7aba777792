"""`paddle-operator standalone` and kubectl, for the tests beside this file."""

import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "operator"), str(HERE.parent / "node")]

from agent import NodeAgent  # noqa: E402,F401
from cluster import BIN, DATA, OPERATOR, ROOT, Cluster, wait_for  # noqa: E402,F401


def kubectl_program():
    path = subprocess.run([ROOT / "tests/peers/peer", "path", "kubectl"], capture_output=True, text=True, check=True)
    return pathlib.Path(path.stdout.strip()) / "kubectl"


def as_user(user, command):
    """The command, run by that user, through a descriptor: the programs may lie where that user may not look."""
    line = " ".join(["exec", "/proc/self/fd/9", *map(str, command[1:])])
    return ["bash", "-c", f"exec 9<{command[0]}; exec setpriv --reuid={user} --regid={user} --clear-groups bash -c '{line}'"]


class Standalone:
    """A server with a data directory of its own; start() and kill() as often as one likes."""

    def __init__(self, *flags, user=None):
        self.dir = tempfile.mkdtemp(prefix="standalone-")
        self.flags = flags
        self.user = user
        if user is not None:
            os.chown(self.dir, user, user)
        self.program = kubectl_program()
        self.start()

    def start(self):
        self.log = open(pathlib.Path(self.dir) / "log", "a")
        command = [OPERATOR, "standalone", "--data-dir", self.dir + "/data", *self.flags]
        self.process = subprocess.Popen(as_user(self.user, command) if self.user is not None else command,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, cwd="/")
        line = self.process.stdout.readline()
        if not line.startswith("serving at "):
            raise AssertionError(f"standalone did not start: {line}{self.output()}")
        self.server = line.split()[-1]
        self.kubeconfig = self.dir + "/data/kubeconfig"
        self.tls = ssl.create_default_context(cafile=self.dir + "/data/pki/ca.crt")
        self.token = pathlib.Path(self.dir, "data/pki/token").read_text()

    def output(self):
        return pathlib.Path(self.dir, "log").read_text()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.process.stdout.close()
        self.log.close()
        return code

    def close(self):
        code = self.stop()
        text = self.output()
        shutil.rmtree(self.dir, ignore_errors=True)
        assert code == 0 and "ERROR: AddressSanitizer" not in text and "runtime error:" not in text, (code, text)

    def kubectl(self, *args, stdin=None, check=True, env=None):
        done = subprocess.run([self.program, "--kubeconfig", self.kubeconfig, *map(str, args)], input=stdin,
                              capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(map(str, args))}: {done.stderr}")
        return done.stdout if check else done

    def request(self, method, path, body=None, content="application/json", headers=None):
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.server + path, method=method, data=data,
            headers={"Authorization": "Bearer " + self.token, "Content-Type": content, **(headers or {})})
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def get(self, path):
        status, body = self.request("GET", path)
        return body if status == 200 else None
