"""`paddle-operator standalone` from start to stop, and the commands that talk to it."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import time

DEADLINE = 240  # seconds for any one step


class Failed(Exception):
    """The message is for the user."""


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def wait_for(check, what: str, seconds: float = DEADLINE):
    end = time.monotonic() + seconds
    while not (value := check()):
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.2)
    return value


def condition(obj: dict, kind: str) -> str:
    for each in obj.get("status", {}).get("conditions", []):
        if each["type"] == kind:
            return each["status"]
    return ""


class Standalone:
    """Two logical nodes on this machine. kubectl talks to them, or our own commands where there is none."""

    def __init__(self, binaries: pathlib.Path, directory: pathlib.Path, path: str, sources: pathlib.Path) -> None:
        self.operator = binaries / "paddle-operator"
        if not self.operator.exists():
            raise Failed(f"{self.operator} is missing: run `make build`")
        self.data = directory / "standalone"
        self.kubeconfig = self.data / "kubeconfig"
        self.log = directory / "standalone.log"
        # All pods use the machine's own network, each at an address 127.x.y.z: needs no root.
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [self.operator, "standalone", "--data-dir", self.data, "--nodes", "2", "--network", "loopback",
                 "--source-dir", sources],
                stdout=log, stderr=log, env={**os.environ, "PATH": path}, start_new_session=True)

    def wait_ready(self) -> None:
        def ready() -> bool:
            if self.process.poll() is not None:
                raise Failed(f"standalone ended:\n{self.log.read_text()[-2000:]}")
            if not self.kubeconfig.exists():
                return False
            nodes = self.get("nodes", check=False)
            return sum(condition(node, "Ready") == "True" for node in nodes) == 2
        wait_for(ready, "two nodes are Ready")

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        program = shutil.which("kubectl")
        command = [program, "--kubeconfig", self.kubeconfig, *args] if program else \
            [self.operator, *args, "--kubeconfig", self.kubeconfig]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise Failed(f"{' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def show(self, *args: str) -> None:
        """A command as a user would type it, and its answer."""
        print("$ kubectl " + " ".join(args))
        print(self.kubectl(*args), end="", flush=True)

    def get(self, *what: str, check: bool = True) -> list[dict]:
        text = self.kubectl("get", *what, "-o", "json", check=check)
        found = json.loads(text) if text.strip() else {"items": []}
        return found["items"] if "items" in found else [found]

    def apply(self, *objects: dict) -> None:
        for each in objects:
            print(self.kubectl("apply", "-f", "-", stdin=json.dumps(each)), end="", flush=True)

    def cache_info(self, namespace: str, name: str, index: int) -> dict:
        """What the runtime server of one partition says of its cache."""
        pod = f"{name}-runtime-{index}"
        address = self.get("pod", pod, "-n", namespace)[0]["status"]["podIP"]
        data = self.get("secret", f"{name}-runtime-auth", "-n", namespace)[0]["data"]
        authority = base64.b64decode(data["ca.crt"]).decode()
        token = base64.b64decode(data["token"]).decode().strip()
        context = ssl.create_default_context(cadata=authority)
        with socket.create_connection((address, 7716), timeout=10) as plain, \
                context.wrap_socket(plain, server_hostname=f"{pod}.{name}-runtime-service.{namespace}.svc") as secure:
            secure.sendall(f"GET /cacheStatus/cacheInfo.json HTTP/1.1\r\nHost: {pod}\r\nConnection: close\r\n"
                           f"Authorization: Bearer {token}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: secure.recv(1 << 16), b""))
        return json.loads(answer.partition(b"\r\n\r\n")[2])

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
