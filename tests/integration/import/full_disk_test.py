#!/usr/bin/env python3
"""Imports and warm-ups that run out of room, on disks of a few megabytes and in volumes with limits.

Each fails with a reason that names what is full, leaves only whole files, and is completed by a second run once
there is room. Mounts tmpfs, so it needs root.
"""

import os
import pathlib
import subprocess
import unittest

from sync_case import SyncCase

ROOT = pathlib.Path(os.environ["PADDLEOP_SOURCE_DIR"])
FILES, SIZE = 300, 60_000


class FullDisk(SyncCase):
    def setUp(self):
        super().setUp()
        for i in range(FILES):
            path = self.source / f"class{i % 5}" / f"{i:04}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(i.to_bytes(4, "big") * (SIZE // 4))

    def format(self, bucket, *options):
        self.must("format", self.url, "full", "--bucket", f"{bucket}/", "--trash-days", "0", *options)

    def disk(self, name, size):
        path = self.base / name
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
        self.addCleanup(subprocess.run, ["umount", path], check=True)
        return path

    def grow(self, disk):
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)

    def check(self, least, most):
        """What is in the volume is whole, and nothing else is in the store."""
        self.must("fsck", self.url)
        garbage = self.must("gc", self.url, "--json")
        self.assertEqual(garbage["leakedObjects"], 0, garbage)
        names = [line for line in self.must("ls", self.url, "-R", "/").split() if line.endswith(".jpg")]
        self.assertGreaterEqual(len(names), least)
        self.assertLessEqual(len(names), most)

    def sync_fails(self, *words, options=()):
        report = self.base / "report.json"
        code, out, err = self.samplefs("sync", self.url, self.source, "--report", report, *options)
        self.assertEqual(code, 1, out + err)
        for word in words:
            self.assertIn(word, out + err)

    def sync_completes(self, *options):
        done = self.must("sync", self.url, self.source, "--json", *options)
        self.assertEqual(done["files"]["failed"], 0, done)
        self.assertEqual(done["files"]["copied"] + done["files"]["skipped"], FILES, done)
        self.check(FILES, FILES)

    def test_a_full_store(self):
        store = self.disk("store", "12m")
        self.format(store)
        self.sync_fails("No space left", str(store))
        self.must("fsck", self.url)
        self.grow(store)
        self.sync_completes()

    def test_a_volume_with_a_limit(self):
        self.format(self.base / "store", "--inodes", "100")
        self.sync_fails("make files in the volume")
        self.check(0, 100)
        self.juicefs("config", self.url, "--inodes", "0", "--yes")
        self.sync_completes()

    def test_a_directory_with_a_quota(self):
        self.format(self.base / "store")
        self.must("mkdir", self.url, "/train")
        self.juicefs("quota", "set", self.url, "--path", "/train", "--inodes", "100")
        self.sync_fails("make files in the volume", "quota of directory", options=["--to", "/train"])
        self.check(0, 100)
        self.juicefs("quota", "check", self.url, "--path", "/train")
        self.juicefs("quota", "set", self.url, "--path", "/train", "--inodes", "1000", "--capacity", "1")
        self.sync_completes("--to", "/train")
        # The official client counts what is there and finds what we counted.
        self.juicefs("quota", "check", self.url, "--path", "/train")

    def juicefs(self, *arguments):
        folder = subprocess.run([ROOT / "tests/peers/peer", "path", "juicefs"], check=True, capture_output=True,
                                text=True).stdout.strip()
        done = subprocess.run([folder + "/juicefs", *arguments], capture_output=True, text=True, timeout=60,
                              env=os.environ | {"HOME": str(self.base)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_full_cache(self):
        self.format(self.base / "store")
        self.sync_completes()
        cache = self.disk("cache", "12m")
        options = ["--cache-dir", cache, "--free-space-ratio", "0"]
        code, out, err = self.samplefs("warmup", self.url, *options)
        self.assertEqual(code, 3, out + err)
        self.assertIn(".jpg", err)
        self.assertIn(str(cache), err)
        self.assertLess(self.must("warmup", self.url, *options, "--check", "--json")["percent"], 100)
        self.grow(cache)
        self.must("warmup", self.url, *options)
        self.assertEqual(self.must("warmup", self.url, *options, "--check", "--json")["percent"], 100)


if __name__ == "__main__":
    unittest.main()
