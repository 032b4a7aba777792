#!/usr/bin/python3
"""The whole system on this machine: API server, controllers, two logical nodes, and a job that trains with Paddle.

    demo/run.py [--keep] [--images 3000] [--directory D]

Progress is printed on the way; at the end a page of facts lies in build/demo-report.md. Everything that was
started is stopped, unless --keep is given. `make demo` builds the programs and runs this.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PEER = ROOT / "tests/peers/peer"
NAMESPACE = "paddle-system"
DEADLINE = 240  # seconds for any one step


class Failed(Exception):
    """The message is for the user."""


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


class Standalone:
    """`paddle-operator standalone`, from start to stop, and kubectl (or our own commands) to talk to it."""

    def __init__(self, binaries: pathlib.Path, directory: pathlib.Path, path: str) -> None:
        self.operator = binaries / "paddle-operator"
        if not self.operator.exists():
            raise Failed(f"{self.operator} is missing: run `make build`")
        self.data = directory / "standalone"
        self.kubeconfig = self.data / "kubeconfig"
        self.log = directory / "standalone.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [self.operator, "standalone", "--data-dir", self.data, "--nodes", "2"],
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
        command = [program] if program else [self.operator]
        done = subprocess.run([*command, "--kubeconfig", self.kubeconfig, *args] if program else
                              [*command, *args, "--kubeconfig", self.kubeconfig],
                              input=stdin, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise Failed(f"{' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *what: str, check: bool = True) -> list[dict]:
        text = self.kubectl("get", *what, "-o", "json", check=check)
        found = json.loads(text) if text.strip() else {"items": []}
        return found["items"] if "items" in found else [found]

    def apply(self, *objects: dict) -> None:
        for each in objects:
            self.kubectl("apply", "-f", "-", stdin=json.dumps(each))

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)


def condition(obj: dict, kind: str) -> str:
    for each in obj.get("status", {}).get("conditions", []):
        if each["type"] == kind:
            return each["status"]
    return ""


def wait_for(check, what: str, seconds: float = DEADLINE):
    end = time.monotonic() + seconds
    while not (value := check()):
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.2)
    return value


def paddle_job(name: str, python: str, data: str, epochs: int, workers: int = 2, *, volumes=(), mounts=(), spec=None) -> dict:
    container = {"name": "paddle", "image": "paddlepaddle/paddle:3.3.1",
                 "command": [python, str(HERE / "train.py"), data, "--epochs", str(epochs)],
                 "env": [{"name": "OMP_NUM_THREADS", "value": "1"}], "volumeMounts": list(mounts)}
    template = {"spec": {"containers": [container], "volumes": list(volumes)}}
    return {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"cleanPodPolicy": "Never", "worker": {"replicas": workers, "template": template}, **(spec or {})}}


def train(cluster: Standalone, job: dict) -> list[dict]:
    """Runs the job to its end; what its workers printed, one entry for each worker and epoch."""
    name = job["metadata"]["name"]
    cluster.apply(job)

    def phase() -> str | None:
        found = cluster.get("paddlejob", name, "-n", NAMESPACE)[0].get("status", {}).get("phase")
        return found if found in ("Completed", "Failed") else None

    ended = wait_for(phase, f"job {name} has ended")
    print(cluster.kubectl("get", "paddlejob", "-n", NAMESPACE), end="", flush=True)
    lines = []
    for worker in range(job["spec"]["worker"]["replicas"]):
        text = cluster.kubectl("logs", f"{name}-worker-{worker}", "-n", NAMESPACE)
        if ended == "Failed":
            raise Failed(f"job {name} failed; worker {worker} said:\n{text[-1500:]}")
        lines += [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    cluster.kubectl("delete", "paddlejob", name, "-n", NAMESPACE)
    return lines


def speed(lines: list[dict], epoch: int) -> float:
    """Images per second of all workers together."""
    of_epoch = [line for line in lines if line["epoch"] == epoch]
    return sum(line["images"] for line in of_epoch) / max(line["seconds"] for line in of_epoch)


def paddle() -> str:
    say("getting Paddle from PyPI (once; 0.9 GB)")
    subprocess.run([PEER, "get", "paddle"], check=True, stdout=subprocess.DEVNULL)
    found = subprocess.run([PEER, "path", "paddle"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def report(directory: pathlib.Path, images: str, lines: list[dict], seconds: float, keep: bool) -> pathlib.Path:
    epochs = sorted({line["epoch"] for line in lines})
    text = [f"# One run of `make demo`, {time.strftime('%Y-%m-%d %H:%M')}", "",
            f"{images}; 2 collective workers on 2 logical nodes of this machine ({os.cpu_count()} cores); {seconds:.0f} s in all.",
            "", "| epoch | images/s, all workers | mean loss |", "| --- | --- | --- |"]
    for epoch in epochs:
        losses = [line["loss"] for line in lines if line["epoch"] == epoch]
        text.append(f"| {epoch} | {speed(lines, epoch):.0f} | {sum(losses) / len(losses):.3f} |")
    file = (directory if keep else ROOT / "build") / "demo-report.md"
    file.write_text("\n".join(text) + "\n")
    return file


def run(options: argparse.Namespace, directory: pathlib.Path) -> None:
    started = time.monotonic()
    venv = paddle()
    python = f"{venv}/bin/python"
    say(f"starting standalone with 2 nodes in {directory}")
    cluster = Standalone(options.binaries, directory, f"{venv}/bin:{os.environ['PATH']}")
    try:
        cluster.wait_ready()
        print(cluster.kubectl("get", "nodes"), end="", flush=True)
        say(f"making {options.images} images")
        made = subprocess.run([python, HERE / "make_images.py", directory / "images", "--count", str(options.images)],
                              check=True, capture_output=True, text=True).stdout.strip()
        say(f"training on {made}: plain local files")
        cluster.kubectl("create", "namespace", NAMESPACE, check=False)
        lines = train(cluster, paddle_job(
            "plain", python, "/data/images", options.epochs,
            volumes=[{"name": "images", "hostPath": {"path": str(directory / "images"), "type": "Directory"}}],
            mounts=[{"name": "images", "mountPath": "/data/images", "readOnly": True}]))
        page = report(directory, made, lines, time.monotonic() - started, options.keep)
        print(page.read_text())
        say(f"the page is {page}")
        if options.keep:
            print(f"\nStill running. To try next:\n\n  export KUBECONFIG={cluster.kubeconfig}\n  kubectl get nodes,pods -A\n"
                  f"  kubectl apply -f tests/data/seeds-resnet.yaml\n\nTo stop it: kill {cluster.process.pid}")
    finally:
        if not options.keep:
            cluster.stop()


def interrupt(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave everything running")
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--directory", type=pathlib.Path, help="default: a temporary one")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupt)
    with contextlib.ExitStack() as stack:
        directory = options.directory
        if directory is None:
            directory = pathlib.Path(tempfile.mkdtemp(prefix="paddle-demo-"))
            if not options.keep:
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        try:
            run(options, directory.resolve())
        except Failed as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
