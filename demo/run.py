#!/usr/bin/python3
"""The whole system on this machine: API server, controllers, two logical nodes, a cached data set, and jobs that
train on it with Paddle.

    demo/run.py [--keep] [--images 3000] [--directory D] [--report FILE]

Progress is printed on the way; at the end a page of facts and pictures lies in build/demo-report.md. Everything that
was started is stopped, unless --keep is given. `make demo` builds the programs and runs this.
"""

from __future__ import annotations

import argparse
import base64
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

import page
from cluster import Failed, Standalone, say, wait_for

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PEER = ROOT / "tests/peers/peer"
NAMESPACE = "paddle-system"
SET = "imagenet"
LIMIT = 50  # Mbps between each node and the store
BATCH = 32
WORKERS = 2


def named(kind: str, name: str, spec: dict, version: str = "v1alpha1") -> dict:
    return {"apiVersion": f"batch.paddlepaddle.org/{version}", "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def secret(directory: pathlib.Path) -> dict:
    values = {"name": SET, "storage": "file", "bucket": f"{directory}/objects/",
              "metaurl": f"sqlite3://{directory}/volume.db"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SET, "namespace": NAMESPACE}, "type": "Opaque",
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}}


def format_volume(options: argparse.Namespace, directory: pathlib.Path) -> None:
    """The runtime would make the volume by itself; ours is to have a limit, as the experiment's bucket had."""
    done = subprocess.run(
        [options.binaries / "samplefs", "format", f"sqlite3://{directory}/volume.db", SET, "--storage", "file",
         "--bucket", f"{directory}/objects/", "--download-limit", str(LIMIT)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"samplefs format: {done.stderr.strip()}")


def paddle_job(name: str, python: str, arguments: list[str], images: pathlib.Path) -> dict:
    container = {"name": "paddle", "image": "paddlepaddle/paddle:3.3.1",
                 "command": [python, str(HERE / "train.py"), "--batch-size", str(BATCH), *arguments],
                 "env": [{"name": "OMP_NUM_THREADS", "value": "1"},
                         {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                 "volumeMounts": [{"name": "images", "mountPath": "/data/images", "readOnly": True}]}
    volume = {"name": "images", "hostPath": {"path": str(images), "type": "Directory"}}
    return named("PaddleJob", name, {
        "cleanPodPolicy": "Never", "sampleSetRef": {"name": SET, "mountPath": f"/mnt/{SET}"},
        "worker": {"replicas": WORKERS, "template": {"spec": {"containers": [container], "volumes": [volume]}}}},
        version="v1")


def run_sample_job(cluster: Standalone, kind: str, **options) -> None:
    name = f"{SET}-{kind}"
    cluster.apply(named("SampleJob", name, {"type": kind, "sampleSetRef": {"name": SET}, **options}))

    def ended() -> dict | None:
        status = cluster.get("samplejob", name, "-n", NAMESPACE)[0].get("status", {})
        return status if status.get("phase") in ("Succeeded", "Failed") else None

    status = wait_for(ended, f"SampleJob {name} has ended")
    if status["phase"] == "Failed":
        raise Failed(f"SampleJob {name} failed: {status.get('message')}")
    cluster.show("get", "samplejob", name, "-n", NAMESPACE)


def train(cluster: Standalone, job: dict) -> list[dict]:
    """Runs the job to its end; what its workers printed, one entry for each worker and data directory."""
    name = job["metadata"]["name"]
    cluster.apply(job)

    def phase() -> str | None:
        found = cluster.get("paddlejob", name, "-n", NAMESPACE)[0].get("status", {}).get("phase")
        return found if found in ("Completed", "Failed") else None

    ended = wait_for(phase, f"job {name} has ended")
    cluster.show("get", "paddlejob", "-n", NAMESPACE)
    lines = []
    for worker in range(WORKERS):
        text = cluster.kubectl("logs", f"{name}-worker-{worker}", "-n", NAMESPACE)
        if ended == "Failed":
            raise Failed(f"job {name} failed; worker {worker} said:\n{text[-1500:]}")
        lines += [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    cluster.kubectl("delete", "paddlejob", name, "-n", NAMESPACE)
    return lines


def watched(cluster: Standalone, job: dict) -> tuple[list[dict], list[page.Reads]]:
    """Trains, and counts where each worker's reads came from meanwhile."""
    before = [cluster.cache_info(NAMESPACE, SET, index)["reads"] for index in range(WORKERS)]
    lines = train(cluster, job)
    reads = []
    for index, old in enumerate(before):
        new = cluster.cache_info(NAMESPACE, SET, index)["reads"]
        counts = {part: int(new[part]) - int(old[part]) for part in ("local", "peer", "store")}
        node = next(line["node"] for line in lines if line["rank"] == index)
        reads.append(page.Reads(worker=f"worker-{index}", node=node, **counts))
    return lines, reads


def speed(lines: list[dict], data: str) -> float:
    """Images per second of all workers together."""
    of_data = [line for line in lines if line["data"] == data]
    return sum(line["images"] for line in of_data) / max(line["seconds"] for line in of_data)


def loss(lines: list[dict], data: str) -> float:
    losses = [line["loss"] for line in lines if line["data"] == data]
    return sum(losses) / len(losses)


def paddle() -> str:
    say("getting Paddle from PyPI (once; 0.9 GB)")
    done = subprocess.run([PEER, "get", "paddle"], stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failed("Paddle could not be had; see above")
    found = subprocess.run([PEER, "path", "paddle"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def sample_set(cluster: Standalone, what: str, check) -> None:
    """Waits until the set's status is as it should be, and shows it."""
    def right() -> bool:
        status = cluster.get("sampleset", SET, "-n", NAMESPACE)[0].get("status", {})
        return status.get("phase") == "Ready" and check(status.get("cacheStatus", {}))
    wait_for(right, f"the SampleSet is Ready and {what}")
    cluster.show("get", "sampleset", "-n", NAMESPACE)


def experiment(options: argparse.Namespace, cluster: Standalone, python: str, directory: pathlib.Path) -> page.Facts:
    images = directory / "images"
    say(f"making {options.images} images")
    made = subprocess.run([python, HERE / "make_images.py", images, "--count", str(options.images)],
                          check=True, capture_output=True, text=True).stdout.strip()
    say(f"{made}; creating the SampleSet: a volume in a directory, its metadata in SQLite, 2 partitions")
    format_volume(options, directory)
    cluster.kubectl("create", "namespace", NAMESPACE, check=False)
    cluster.apply(secret(directory), named("SampleSet", SET, {
        "partitions": WORKERS, "source": {"uri": f"file://{images}"}, "secretRef": {"name": SET},
        # The cache leaves a tenth of the disk free; few machines that run a demo have that.
        "csi": {"driver": "samplefs", "juiceFSMountOptions": {"free-space-ratio": "0.01"}}}))
    sample_set(cluster, "all of it is cached", lambda status: status.get("cachedPercent") == "100%")
    cluster.show("get", "pods", "-n", NAMESPACE)

    say("SampleJobs: remove a class, bring it back, clear the cache")
    run_sample_job(cluster, "rmr", rmrOptions={"paths": ["class-1"]})
    run_sample_job(cluster, "sync")
    run_sample_job(cluster, "clear")
    say(f"training with Paddle, cold: every block comes from the store at {LIMIT} Mbps")
    cold, cold_reads = watched(cluster, paddle_job("cold", python, [f"/mnt/{SET}"], images))

    say("warming the cache for what each worker will read")
    run_sample_job(cluster, "warmup", warmupOptions={
        "strategyName": "random", "file": "list.txt", "batchSize": BATCH, "ranks": WORKERS, "epoch": 0})
    sample_set(cluster, "cached again", lambda status: status.get("cachedPercent") == "100%")
    say("training with Paddle, cached; then on the plain local files")
    warm, warm_reads = watched(cluster, paddle_job("cached", python, [f"/mnt/{SET}", "/data/images"], images))
    return page.Facts(
        images=made, limit=LIMIT, seconds=0,
        speeds={"cold": speed(cold, f"/mnt/{SET}"), "cached": speed(warm, f"/mnt/{SET}"),
                "plain": speed(warm, "/data/images")},
        losses={"cold": loss(cold, f"/mnt/{SET}"), "cached": loss(warm, f"/mnt/{SET}"),
                "plain": loss(warm, "/data/images")},
        reads={"cold": cold_reads, "cached": warm_reads},
        table=cluster.kubectl("get", "sampleset", "-n", NAMESPACE))


def to_try(cluster: Standalone, directory: pathlib.Path) -> str:
    has_kubectl = shutil.which("kubectl") is not None
    kubectl = "kubectl" if has_kubectl else str(cluster.operator)
    commands = [
        "get nodes -o wide",
        "get pods -A -o wide",
        f"describe sampleset {SET} -n {NAMESPACE}",
        f"get samplejob -n {NAMESPACE}",
        f"apply -f {ROOT}/tests/data/seeds-ps-demo.yaml",
        f"get paddlejob -n {NAMESPACE} -w          # until it is Running; Ctrl-C ends the watch",
        *([f"exec ps-demo-worker-0 -n {NAMESPACE} -- ls /mnt/{SET}"] if has_kubectl else []),
        f"describe pod ps-demo-worker-0 -n {NAMESPACE}",
        f"delete paddlejob ps-demo -n {NAMESPACE}"]
    lines = "\n".join(f"  {kubectl} {command}" for command in commands)
    return f"""
Still running, in {directory}. To try next:

  export KUBECONFIG={cluster.kubeconfig}
{lines}
  less {ROOT}/docs/quickstart.md

{to_stop(cluster, directory)}
"""


def to_stop(cluster: Standalone, directory: pathlib.Path) -> str:
    return f"To stop it: kill {cluster.process.pid}; when it has ended: rm -r {directory}"


def run(options: argparse.Namespace, directory: pathlib.Path) -> None:
    started = time.monotonic()
    venv = paddle()
    say(f"starting standalone with 2 nodes in {directory}")
    (directory / "images").mkdir(exist_ok=True)
    cluster = Standalone(options.binaries, directory, f"{venv}/bin:{os.environ['PATH']}", directory / "images")
    try:
        cluster.wait_ready()
        cluster.show("get", "nodes")
        facts = experiment(options, cluster, f"{venv}/bin/python", directory)
        facts.seconds = time.monotonic() - started
        print("\n" + page.write(facts, options.report))
        say(f"the page is {options.report}")
        if options.keep:
            print(to_try(cluster, directory))
    except BaseException:
        if options.keep:
            say(f"still running, with its log in {cluster.log}. {to_stop(cluster, directory)}")
        raise
    finally:
        if not options.keep:
            say("stopping everything")
            cluster.stop()


def interrupt(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave everything running")
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--directory", type=pathlib.Path, help="default: a temporary one")
    parser.add_argument("--report", type=pathlib.Path, default=ROOT / "build/demo-report.md")
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
