#!/usr/bin/env python3
"""The commands of docs/quickstart.md, pasted one after the other; and the same in both languages."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PADDLEOP_BIN_DIR", ROOT / "build/dev/bin"))


def commands(name):
    """What the page tells to type, without comments."""
    text = (ROOT / "docs" / name).read_text()
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return ["\n".join(line for line in block.splitlines() if not line.strip().startswith("#")) for block in blocks]


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Quickstart(unittest.TestCase):
    def test_both_languages_have_the_same_commands(self):
        self.assertGreater(len(commands("quickstart.md")), 5)
        self.assertEqual(commands("quickstart.md"), commands("quickstart.zh.md"))

    def test_the_commands_work(self):
        kubectl = subprocess.run([ROOT / "tests/peers/peer", "path", "kubectl"], capture_output=True, text=True, check=True)
        script = "set -em\n" + "\n".join(commands("quickstart.md")).replace("6379", str(free_port()))
        home = tempfile.mkdtemp(prefix="quickstart-")
        path = f"{BIN}:{kubectl.stdout.strip()}:{os.environ['PATH']}"
        with open(pathlib.Path(home, "output"), "w+") as written:
            shell = subprocess.Popen(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=written, stderr=written,
                                     env={**os.environ, "HOME": home, "PATH": path})
            try:
                shell.wait(280)
            finally:
                self.end_what_is_left(home)
            written.seek(0)
            output = written.read()
        log = pathlib.Path(home, "quickstart/standalone.log").read_text()
        shutil.rmtree(home, ignore_errors=True)
        self.assertEqual(shell.returncode, 0, output + log)
        for line in ("secret/imagenet created", "sampleset.batch.paddlepaddle.org/imagenet created",
                     "samplejob.batch.paddlepaddle.org/imagenet-rmr created", "demo\ntrain\ntrain_list.txt"):
            self.assertIn(line, output)
        self.assertRegex(output, r"imagenet +3.3 MiB +3.3 MiB +\S+ \S+ +1/1 +Ready")
        self.assertRegex(output, r"imagenet-runtime-0 +1/1 +Running")
        self.assertRegex(output, r"imagenet-rmr +Succeeded")
        self.assertRegex(output, r"imagenet +6.7 MiB +6.7 MiB +\S+ \S+ +1/1 +Ready")
        self.assertRegex(output, r"ps-demo +Running +PS")
        self.assertNotIn("ERROR: AddressSanitizer", log)

    @staticmethod
    def end_what_is_left(home):
        """Of a command that failed."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "cwd").startswith(home):
                    os.kill(int(entry.name), signal.SIGTERM)
            except OSError:
                continue


if __name__ == "__main__":
    unittest.main()
