"""The walk through the seeds, as docs/sampleset.md has it, with nothing imitated."""

import os
import re
import shlex

from real import DEMO, NS, ROOT, TRAIN, RealCase, process_root, wait_for, world
from sets import SETS

HEADER = ["NAME", "TOTAL SIZE", "CACHED SIZE", "AVAIL SPACE", "RUNTIME", "PHASE", "AGE"]


class Guide:
    """The commands and manifests of a page."""

    def __init__(self, path):
        text = path.read_text()
        self.yaml = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.lines = [line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines()
                      if line.startswith("    kubectl -n paddle-system ")]

    def commands(self, what):
        return [line for line in self.lines if line.startswith(f"kubectl -n paddle-system {what}")]

    def steps(self):
        return self.lines, [re.sub(r" *#.*", "", text) for text in self.yaml]


class Walk(RealCase):
    def wait_row(self, total, cached, runtime="1/1"):
        """What the seeds print of the set after each step."""
        def shown():
            header, rows = self.rows("-n", NS, "get", "sampleset", "imagenet")
            self.assertEqual(header, HEADER)
            self.last = rows[0]
            return rows[0][:3] + rows[0][4:6] == ["imagenet", total, cached, runtime, "Ready"]
        # As the API has it first: kubectl takes its time on a busy machine.
        self.wait_cache("imagenet", totalSize=total, cachedSize=cached)
        wait_for(shown, lambda: f"{total}, {cached}: {self.last}")
        self.assertRegex(self.last[3], r"^[0-9.]+ [KMGTP]iB$")

    def follow(self, kind, name=""):
        """Creates the object of docs/sampleset.md."""
        text = next(t for t in self.guide.yaml if f"kind: {kind}\n" in t and f"name: {name}" in t)
        self.cluster.kubectl("create", "-f", "-", stdin=self.here(text))
        if kind != "SampleJob":
            return
        status = self.wait_phase("samplejob", name, "Succeeded", "Failed")
        self.assertEqual(status["progress"]["percent"], "100%")
        header, rows = self.rows("-n", NS, "get", "samplejob", name)
        self.assertEqual((header, rows), (["NAME", "PHASE"], [[name, "Succeeded"]]))

    def here(self, text):
        """With servers of this machine in place of the guide's."""
        return text.replace("192.168.7.227:6379", f"127.0.0.1:{world.redis.info['port']}").replace(
            "bos://paddleflow-public.hkg.bcebos.com", f"minio://{self.endpoint()}/public")

    def run_guide(self, command):
        more = ["--timeout=240s", "--ignore-not-found"] if command == "delete" else []
        for line in self.guide.commands(command):
            self.cluster.kubectl(*shlex.split(self.here(line))[1:], *more)

    def test_e1_to_e7_with_redis_alone(self):
        self.guide = Guide(ROOT / "docs/sampleset.md")
        self.assertEqual(Guide(ROOT / "docs/sampleset.zh.md").steps(), self.guide.steps())
        self.run_guide("create secret")  # E1
        self.follow("SampleSet")  # E2
        self.wait_phase("sampleset", "imagenet", "Ready")
        self.wait_row(f"{DEMO} MiB", f"{DEMO} MiB")
        header, rows = self.rows("-n", NS, "get", "pods", "imagenet-runtime-0")
        self.assertEqual(header, ["NAME", "READY", "STATUS", "RESTARTS", "AGE"])
        self.assertEqual([row[:4] for row in rows], [["imagenet-runtime-0", "1/1", "Running", "0"]])
        self.follow("SampleJob", "imagenet-rmr")  # E3
        self.wait_row("0 B", "0 B")
        self.follow("SampleJob", "imagenet-sync")  # E4
        self.wait_row(f"{DEMO + TRAIN} MiB", f"{DEMO + TRAIN} MiB")
        self.follow("SampleJob", "imagenet-clear")  # E5
        self.wait_row(f"{DEMO + TRAIN} MiB", "0 B")
        self.follow("SampleJob", "imagenet-warmup")  # E6
        self.wait_row(f"{DEMO + TRAIN} MiB", f"{DEMO + TRAIN} MiB")
        self.follow("PaddleJob")  # E7
        self.cluster.wait_phase(NS, "ps-demo", "Running")
        header, rows = self.rows("-n", NS, "get", "paddlejob", "ps-demo")
        self.assertEqual((header, rows[0][:3]), (["NAME", "STATUS", "MODE", "AGE"], ["ps-demo", "Running", "PS"]))
        worker = self.cluster.pods(NS)["ps-demo-worker-0"]
        self.assertEqual(worker["spec"]["nodeName"], self.cluster.pods(NS)["imagenet-runtime-0"]["spec"]["nodeName"])
        seen = process_root(f"{world.agent.data}/", "/mnt/imagenet")
        self.assertEqual(sorted(os.listdir(seen)), ["demo", "train", "train_list.txt"])
        # The set waits for its user.
        self.cluster.request("DELETE", SETS.format(NS, "imagenet"))
        wait_for(lambda: "ps-demo" in self.condition("sampleset", "imagenet", "Deletable").get("message", ""),
                 "a condition that names the job")
        self.run_guide("delete")
        self.assertEqual(self.cached_blocks("imagenet"), [])
