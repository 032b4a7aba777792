#!/usr/bin/env python3
"""`make demo` with few images: it runs to its end, its page says what it must, and nothing is left running."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PADDLEOP_BIN_DIR", ROOT / "build/dev/bin"))


def cells(page, heading):
    """The rows of the table below a heading."""
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


class Demo(unittest.TestCase):
    def test_reduced(self):
        with tempfile.TemporaryDirectory(prefix="demo-test-") as directory:
            report = pathlib.Path(directory) / "page.md"
            done = subprocess.run(
                [sys.executable, ROOT / "demo/run.py", "--images", "300", "--binaries", BIN, "--directory",
                 directory + "/work", "--report", report], capture_output=True, text=True, timeout=280)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
            page = report.read_text()
            self.assertIn(page.strip(), done.stdout, "the page is printed too")
            for picture in re.findall(r"!\[.*\]\((.*)\)", page):
                xml.etree.ElementTree.parse(report.parent / picture)
            log = (pathlib.Path(directory) / "work/standalone.log").read_text()
            self.assertNotIn("ERROR: AddressSanitizer", log)
            self.assertNotIn("runtime error:", log)
            mounts = pathlib.Path("/proc/self/mountinfo").read_text()
            self.assertNotIn(directory, mounts, "everything is unmounted")
            left = [line for line in subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True)
                    .stdout.splitlines() if directory in line]
            self.assertEqual(left, [], "everything is stopped")
        speeds = {row[0]: float(row[1]) for row in cells(page, "Images per second, both workers")}
        self.assertEqual(list(speeds), ["cold", "cached", "plain local files"])
        self.assertTrue(all(speed > 0 for speed in speeds.values()), speeds)
        reads = cells(page, "Where each worker's reads came from")
        self.assertEqual([row[:3] for row in reads],
                         [[job, f"worker-{i}", f"node-{i}"] for job in ("cold", "cached") for i in range(2)])
        for row in reads:
            self.assertGreater(int(row[3]), 0, row)
            if row[0] == "cached":
                self.assertEqual(row[4], "100.0 %", "the warmed epoch is read from the worker's own node")
        beside = cells(page, "Beside the original project's figures")
        self.assertEqual([row[0] for row in beside], ["original, 1 GPU", "original, 2 GPUs", "this run, 2 workers"])
        self.assertRegex(page, r"imagenet +10 MiB +10 MiB +\S+ \S+ +2/2 +Ready")


if __name__ == "__main__":
    unittest.main()
