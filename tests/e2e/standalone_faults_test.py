#!/usr/bin/env python3
"""standalone when things go wrong: kill -9 in the middle of jobs, no room, no rights, no FUSE."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration/apiserver"))

from standalone import OPERATOR, Standalone, as_user, wait_for  # noqa: E402

NS = "paddle-system"
NOBODY = 65534
# Reads the data set again and again until it is told to end, and counts.
READER = """
until test -e {end}; do
  test "$(cat /mnt/set/*.txt | wc -l)" = 40 || exit 7
  i=$((i + 1)); echo $i > {count}; sleep 0.05
done
"""
# The same, but nothing that goes wrong ends it.
PATIENT = """
until test -e {end}; do
  if test "$(cat /mnt/set/*.txt 2>/dev/null | wc -l)" = 40; then i=$((i + 1)); echo $i > {count}; fi
  sleep 0.05
done
"""


def pod(name, command, restart="Never"):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS},
            "spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": 2,
                     "containers": [{"name": "main", "image": "none", "command": ["bash", "-c", command]}]}}


def ours(kind, name, spec, version="v1alpha1"):
    return {"apiVersion": f"batch.paddlepaddle.org/{version}", "kind": kind,
            "metadata": {"name": name, "namespace": NS}, "spec": spec}


class KillMinusNine(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="killed-"))
        self.source = self.dir / "source"
        self.source.mkdir()
        for i in range(40):
            (self.source / f"{i}.txt").write_text("x" * 5000 + "\n")
        self.server = Standalone("--network=loopback", "--nodes=2", f"--source-dir={self.source}")

    def tearDown(self):
        self.server.close()
        mounts = pathlib.Path("/proc/self/mountinfo").read_text()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.assertNotIn(self.server.dir, mounts)

    def create(self, *bodies):
        for body in bodies:
            self.server.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def get(self, kind, name):
        return json.loads(self.server.kubectl("get", kind, name, "-n", NS, "-o", "json"))

    def wait_phase(self, kind, name, phase):
        def there():
            found = self.get(kind, name).get("status", {})
            self.assertFalse(phase != "Failed" and found.get("phase") == "Failed", found)
            return found.get("phase") == phase
        wait_for(there, f"{kind} {name} is {phase}", 120)

    def count(self):
        file = self.dir / "count"
        text = file.read_text().strip() if file.exists() else ""
        return int(text or 0)

    def grows(self, what):
        before = self.count()
        wait_for(lambda: self.count() > before + 2, what, 60)

    def test_jobs_go_on_and_mounts_are_recovered(self):
        self.jobs_go_on()
        self.mounts_are_recovered()

    def mounts_are_recovered(self):
        """A mount process that dies is replaced, under pods that run on."""
        (self.dir / "count").unlink()
        body = pod("patient", PATIENT.format(end=self.dir / "ends-too", count=self.dir / "count"))
        body["spec"]["volumes"] = [{"name": "samples", "persistentVolumeClaim": {"claimName": "set"}}]
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "samples", "mountPath": "/mnt/set"}]
        self.create(body)
        self.grows("the pod reads its volume")
        before = self.get("pod", "patient")["status"]["containerStatuses"][0]

        process = self.mount_process()
        os.kill(process, signal.SIGKILL)
        process = self.mount_process(other_than=process)
        self.grows("it reads on after its mount process was killed")
        wait_for(lambda: self.remounted("patient"), "an event names the volume", 60)

        self.server.stop(signal.SIGKILL)
        os.kill(process, signal.SIGKILL)
        self.server.start()
        self.mount_process(other_than=process)
        self.grows("it reads on after standalone and its mount process were killed")
        after = self.get("pod", "patient")["status"]["containerStatuses"][0]
        self.assertEqual((after["restartCount"], after["state"]), (before["restartCount"], before["state"]))
        (self.dir / "ends-too").touch()
        self.wait_phase("pod", "patient", "Succeeded")

    def mount_process(self, other_than=None):
        """The PID of the one mount process there is."""
        def found():
            files = list(pathlib.Path(self.server.dir, "data/node/mounts").glob("*/process"))
            pids = [int(file.read_text().split()[0]) for file in files]
            return pids[0] if len(pids) == 1 and pids[0] != other_than else None
        return wait_for(found, "there is one mount process", 60)

    def remounted(self, name):
        events = json.loads(self.server.kubectl("get", "events", "-n", NS, "-o", "json",
                                                "--field-selector", f"involvedObject.name={name}"))["items"]
        return [e for e in events if e["type"] == "Warning" and e["reason"] == "VolumeRemounted" and '"samples"' in e["message"]]

    def jobs_go_on(self):
        secret = {"name": "set", "storage": "file", "bucket": f"{self.dir}/objects/",
                  "metaurl": f"sqlite3://{self.dir}/volume.db"}
        reader = {"name": "main", "image": "none",
                  "command": ["bash", "-c", READER.format(end=self.dir / "end", count=self.dir / "count")]}
        self.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "set", "namespace": NS}, "stringData": secret},
                    ours("SampleSet", "set", {"partitions": 1, "source": {"uri": f"file://{self.source}"},
                                              "secretRef": {"name": "set"}}),
                    ours("PaddleJob", "reader", {
                        "cleanPodPolicy": "Never", "sampleSetRef": {"name": "set", "mountPath": "/mnt/set"},
                        "worker": {"replicas": 1, "template": {"spec": {"containers": [reader]}}}}, "v1"),
                    pod("ends", f"until test -e {self.dir}/ends; do sleep 0.1; done; echo bye; exit 5"),
                    pod("again", f"echo $$ > {self.dir}/again; exec sleep 1000", restart="Always"))
        self.wait_phase("sampleset", "set", "Ready")
        self.grows("the job reads its data set")
        wait_for(lambda: (self.dir / "again").exists(), "the other pod runs", 60)
        self.create(ours("SampleJob", "more", {"type": "sync", "sampleSetRef": {"name": "set"}}))
        before = self.get("pod", "reader-worker-0")["status"]["containerStatuses"][0]

        self.server.stop(signal.SIGKILL)
        self.grows("the job reads on while nobody looks after it")
        (self.dir / "ends").touch()
        shell = self.find_process("exec sleep 1000", "sleep 1000")
        os.kill(shell, signal.SIGKILL)
        (self.dir / "again").unlink()
        self.server.start()

        self.wait_phase("pod", "ends", "Failed")
        ended = self.get("pod", "ends")["status"]["containerStatuses"][0]
        self.assertEqual((ended["state"]["terminated"]["exitCode"], ended["restartCount"]), (5, 0))
        self.assertEqual(self.server.kubectl("logs", "ends", "-n", NS), "bye\n")
        wait_for(lambda: (self.dir / "again").exists(), "the pod that was killed runs again", 60)
        wait_for(lambda: self.get("pod", "again")["status"]["containerStatuses"][0]["restartCount"] == 1, "it is counted", 60)
        self.wait_phase("samplejob", "more", "Succeeded")
        self.grows("the job still reads")
        after = self.get("pod", "reader-worker-0")["status"]["containerStatuses"][0]
        self.assertEqual((after["restartCount"], after["state"]), (before["restartCount"], before["state"]), "adopted")
        self.assertIn("0.txt", self.server.kubectl("exec", "reader-worker-0", "-n", NS, "--", "ls", "/mnt/set"))
        (self.dir / "end").touch()
        self.wait_phase("paddlejob", "reader", "Completed")
        self.wait_phase("sampleset", "set", "Ready")

    def find_process(self, *commands):
        """A process of the pod `again`, by what it runs."""
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if line in commands and b"HOSTNAME=again\0" in environment:
                return int(entry.name)
        raise AssertionError("no such process")


class OneClearLine(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="faults-")
        os.chmod(self.dir, 0o755)

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def said(self, *words, prefix=(), code=1):
        done = subprocess.run([*prefix, OPERATOR, "standalone", *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def warned(self, command, **options):
        """What it says at its start, while it runs on."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.assertIn("serving at", process.stdout.readline())
        line = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, rest)
        return line

    def as_nobody(self, *words):
        return as_user(NOBODY, [OPERATOR, "standalone", *words])

    def test_a_directory_that_cannot_be_written(self):
        pathlib.Path(self.dir, "file").touch()
        self.assertIn(f"{self.dir}/file", self.said("--data-dir", f"{self.dir}/file/data"))
        done = subprocess.run(self.as_nobody("--data-dir", f"{self.dir}/data"), capture_output=True, text=True, timeout=120, cwd="/")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("give a --data-dir that you may write to", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_not_root(self):
        """It says what cannot be done, and does the rest: pods, each at an address of its own."""
        os.chown(self.dir, NOBODY, NOBODY)
        self.assertIn("need root", self.said_by_nobody("--network", "namespaces"))
        server = Standalone("--nodes=2", user=NOBODY)
        try:
            lines = server.output().splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("not root", lines[0])
            self.assertIn("sudo", lines[0])
            serve = "import os, socket; s = socket.create_server((os.environ['IP'], 8080)); print('serves', flush=True); s.accept()"
            volume = pod("volume", "true")
            volume["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
            volume["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
            for body in (pod("a", f'exec python3 -c "{serve}"'), pod("b", f'exec python3 -c "{serve}"'), volume):
                body["spec"]["containers"][0]["env"] = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
                server.kubectl("create", "-f", "-", stdin=json.dumps(body))

            def get(name):
                return json.loads(server.kubectl("get", "pod", name, "-n", NS, "-o", "json"))["status"]
            for name in ("a", "b"):
                wait_for(lambda: server.kubectl("logs", name, "-n", NS, check=False).stdout == "serves\n",
                         lambda: f"{name} serves: {get(name)}", 60)
            addresses = {get(name)["podIP"] for name in ("a", "b")}
            self.assertEqual(len(addresses), 2, "the same port at two addresses")
            self.assertTrue(all(each.startswith("127.") for each in addresses), addresses)
            why = wait_for(lambda: server.kubectl("get", "events", "-n", NS, "-o", "jsonpath={.items[*].message}",
                                                  "--field-selector=involvedObject.name=volume,type=Warning"), "an event", 60)
            self.assertIn("run the node as root", why)
            self.assertEqual(server.kubectl("exec", "a", "-n", NS, "--", "id", "-u").strip(), str(NOBODY))
        finally:
            server.close()

    def said_by_nobody(self, *words):
        done = subprocess.run(self.as_nobody("--data-dir", f"{self.dir}/data", *words), capture_output=True, text=True,
                              timeout=120, cwd="/")
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr.strip().splitlines()[-1]

    def test_no_fuse(self):
        devices = "mkdir dev; mount -t tmpfs t dev; for f in null zero full random urandom; do touch dev/$f; " \
            "mount --bind /dev/$f dev/$f; done; mkdir dev/shm; mount --move dev /dev; "
        line = self.warned(["unshare", "-m", "bash", "-ec", devices + f"exec {OPERATOR} standalone --data-dir {self.dir}/data"],
                           cwd=self.dir)
        self.assertIn("no FUSE", line)
        self.assertIn("modprobe fuse", line)

    def test_no_space(self):
        for size in ("16k", "200k"):
            full = self.said_on_small_disk(size)
            self.assertIn("free some space", full)
            self.assertEqual(len(full.strip().splitlines()), 1, full)

    def said_on_small_disk(self, size):
        run = f"mount -t tmpfs -o size={size} t {self.dir}; exec {OPERATOR} standalone --data-dir {self.dir}/data"
        done = subprocess.run(["unshare", "-m", "bash", "-ec", run], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_no_space_any_more(self):
        """A full disk refuses writes with a reason; reading goes on, and writing when there is space again."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "t", self.dir], check=True)
        try:
            server = Standalone.__new__(Standalone)
            server.dir, server.flags, server.program, server.user = self.dir, ("--api-only",), None, None
            server.start()
            ballast = pathlib.Path(self.dir, "ballast")
            with open(ballast, "wb") as file:
                try:
                    while True:
                        file.write(b"x" * 65536)
                        file.flush()
                except OSError:
                    pass
            maps = "/api/v1/namespaces/default/configmaps"

            def refused():
                status, reply = server.request("POST", maps, {"metadata": {"generateName": "a-"}, "data": {"k": "v" * 200000}})
                return reply if status != 201 else None
            reply = wait_for(refused, "a write is refused", 60)
            self.assertEqual(reply["kind"], "Status")
            self.assertIn("free some space", reply["message"])
            self.assertIsNotNone(server.get(maps))
            ballast.unlink()
            wait_for(lambda: server.request("POST", maps, {"metadata": {"generateName": "b-"}})[0] == 201, "writing goes on", 60)
            self.assertEqual(server.stop(), 0)
        finally:
            subprocess.run(["umount", "-l", self.dir], check=True)


if __name__ == "__main__":
    unittest.main()
