"""One script of kubectl commands, run against standalone's API server and a real one: same answers."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from kubectl_script import CHANGES, ENDED_SCRIPT, RUNNING_SCRIPT, SCRIPT, WATCHED, WATCHES
from standalone import Cluster, NodeAgent, Standalone, kubectl_program, wait_for

# What differs between any two clusters.
VARIABLE = [
    (re.compile(r"\b\d+(\.\d+)?(ms|s|m|h)(\d+(s|m))?\b"), "AGE"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"resourceVersion\"?: \"\d+\""), "resourceVersion"),
    (re.compile(r"g-[a-z0-9]{5}\b"), "g-NAME"),
    (re.compile(r"kubectl-edit-\d+\.yaml"), "FILE"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"\b127\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r" +"), " "),
    # kubectl itself, when the first (empty) frame of a stream is there before it listens.
    (re.compile(r"(?m)^E\d{4} .* websocket\.go:\d+\] Unknown stream id \d, discarding message\n"), ""),
    # What changed in the pod, printed by a Go library; what was patched, printed by Go.
    (re.compile(r"(?s)(previously negative\))\s*core\.PodSpec\{.*"), r"\1"),
    (re.compile(r'patch: Invalid value: ".*": strict'), 'patch: Invalid value: "...": strict'),
    # Server-side apply is not ours.
    (re.compile(r", application/apply-patch\+yaml"), ""),
]


def plain(text):
    for pattern, word in VARIABLE:
        text = pattern.sub(word, text)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    # Events of one second come in any order.
    at = lines.index("Events:") if "Events:" in lines else len(lines)
    return "\n".join(lines[:at] + sorted(lines[at:]))


class Watch:
    """A kubectl that goes on until it is ended."""

    def __init__(self, command):
        self.output = tempfile.NamedTemporaryFile("w")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT)

    def text(self):
        return pathlib.Path(self.output.name).read_text()

    def end(self):
        self.process.terminate()
        self.process.wait(60)
        self.output.close()


class Kubectl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ours = Standalone("--api-only")
        cls.real = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.real.close()
        cls.ours.close()

    def command(self, server, ns, arguments):
        words = arguments.split(" ")
        if "-n" not in words and words[0] not in ("api-resources", "explain"):
            at = words.index("--") if "--" in words else len(words)
            words[at:at] = ["-n", ns]
        config = server.kubeconfig if server is self.ours else server.info["kubeconfig"]
        return [kubectl_program(), "--kubeconfig", config, *words]

    def run_on(self, server, ns, step):
        arguments, stdin, environment = (*step, None, None)[:3]
        done = subprocess.run(self.command(server, ns, arguments), input=stdin, capture_output=True, text=True,
                              timeout=240, env={**os.environ, **(environment or {})})
        return done.returncode, plain(done.stdout), plain(done.stderr)

    def namespace(self, name):
        self.ours.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        # Nobody makes the accounts of new namespaces there: the controller manager is not running.
        self.real.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.real.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})

    def compare(self, ns, script):
        different = 0
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            for step in script:
                ours, real = both.map(lambda server: self.run_on(server, ns, step), (self.ours, self.real))
                if ours != real:
                    different += 1
                    print(f"\n$ kubectl {step[0]}\n{(step[1:2] or [''])[0] or ''}\n--- ours {ours[0]}\n{ours[1]}{ours[2]}"
                          f"\n--- real {real[0]}\n{real[1]}{real[2]}", file=sys.stderr, flush=True)
        self.assertEqual(different, 0, f"of {len(script)} answers")

    def test_1_the_script(self):
        self.namespace("cmp")
        self.compare("cmp", SCRIPT)

    def test_2_what_a_watch_prints(self):
        self.namespace("watched")
        self.compare("watched", WATCHED)
        both = [(self.start_watch(self.ours, each), self.start_watch(self.real, each)) for each in WATCHES]
        try:
            self.compare("watched", CHANGES)
            for each, (ours, real) in zip(WATCHES, both):
                with self.subTest(each):
                    wait_for(lambda: plain(ours.text()) == plain(real.text()),
                             lambda: f"ours:\n{plain(ours.text())}\nreal:\n{plain(real.text())}", 60)
        finally:
            for watch in (w for pair in both for w in pair):
                watch.end()

    def start_watch(self, server, arguments):
        watch = Watch(self.command(server, "watched", arguments))
        # What happens before its first list is over would not be told as a change.
        wait_for(watch.text, f"{arguments} has begun", 60)
        return watch

    def test_3_pods_that_run(self):
        """The node agent serves both, as their node."""
        self.namespace("running")
        flags = ("--scheduler", "--builtin-controllers", "--network=loopback")
        nodes = [NodeAgent(self.ours, *flags, f"--token-file={self.ours.dir}/data/pki/token", kubeconfig=self.ours.kubeconfig),
                 NodeAgent(self.real, *flags, f"--client-ca-file={self.real.info['ca']}")]
        try:
            for node in nodes:
                node.wait_ready()
            self.compare("running", RUNNING_SCRIPT)
            self.follow_to_the_end(nodes)
            self.compare("running", ENDED_SCRIPT)
        finally:
            for node in nodes:
                node.stop()

    def follow_to_the_end(self, nodes):
        follow = "logs -f until-ends"
        both = [Watch(self.command(server, "running", follow)) for server in (self.ours, self.real)]
        for server, node, watch in zip((self.ours, self.real), nodes, both):
            wait_for(lambda: watch.text() == "begins\n", watch.text, 60)
            uid = server.get("/api/v1/namespaces/running/pods/until-ends")["metadata"]["uid"]
            (node.data / "d/pods" / uid / "work/main/go").touch()
        for watch in both:
            self.assertEqual(watch.process.wait(60), 0)
            self.assertEqual(watch.text(), "begins\nends\n")
            watch.end()


if __name__ == "__main__":
    unittest.main()
