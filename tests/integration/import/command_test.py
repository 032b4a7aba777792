#!/usr/bin/env python3
"""Every option of `samplefs sync`, and what `warmup` and `status` say, through the program itself.

On a volume of SQLite and a directory: what is tested is that each word on the command line means what the guide says.
"""

import json
import os
import pty
import subprocess
import time
import unittest

from sync_case import SAMPLEFS, SyncCase


class Command(SyncCase):
    def setUp(self):
        super().setUp()
        self.must("format", self.url, "command", "--bucket", f"{self.base}/blocks/", "--trash-days", "0")

    def sync(self, *options, code=0):
        return self.must("sync", self.url, self.source, "--json", *options, code=code)

    def put(self, name, text="x", seconds=None):
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if seconds:
            os.utime(path, (seconds, seconds))
        return path

    def content(self, path):
        return self.must("cat", self.url, path)

    def names(self, path="/", directories=False):
        """Files below the path; directories, if wanted, end with a slash."""
        out = self.must("ls", self.url, "-R", path, "--json", whole=True)
        entries = [json.loads(line) for line in out.splitlines()]
        return sorted(entry["path"] + ("/" if entry["type"] == "directory" else "") for entry in entries
                      if directories or entry["type"] != "directory")


class Sync(Command):
    def test_bounds_are_inclusive(self):
        for name in "abcde":
            self.put(name)
        self.sync("--start", "b", "--end", "d")
        self.assertEqual(self.names(), ["/b", "/c", "/d"])
        self.sync("-s", "e")
        self.assertEqual(self.names(), ["/b", "/c", "/d", "/e"])
        self.sync("--end", "A")  # nothing is before it
        self.assertEqual(self.samplefs("sync", self.url, self.source, "--start", "d", "--end", "b")[0], 2)

    def test_the_first_pattern_decides(self):
        for name in ("keep/a.jpg", "keep/a.tmp", "drop/b.jpg", "c.tmp"):
            self.put(name)
        self.sync("--include", "keep/*.tmp", "--exclude", "*.tmp", "--exclude", "drop/")
        self.assertEqual(self.names(), ["/keep/a.jpg", "/keep/a.tmp"])
        self.sync("--exclude", "*.tmp", "--include", "c.tmp", "--to", "/other")
        self.assertEqual(self.names("/other"), ["/other/drop/b.jpg", "/other/keep/a.jpg"])

    def test_what_is_copied_again(self):
        self.put("a", "old", 1_000_000_000)
        self.assertEqual(self.sync()["files"]["copied"], 1)
        self.assertEqual(self.sync()["files"]["skipped"], 1)
        self.put("a", "older one", 900_000_000)
        self.assertEqual(self.sync("--update")["files"]["copied"], 0)
        self.assertEqual(self.content("/a"), "old")
        self.assertEqual(self.sync()["files"]["copied"], 1)
        self.put("a", "newer one", 1_100_000_000)
        self.assertEqual(self.sync("-u")["files"]["copied"], 1)
        self.assertEqual(self.content("/a"), "newer one")
        again = self.sync("--force-update")["files"]
        self.assertEqual((again["copied"], again["skipped"]), (1, 0))
        self.assertEqual(self.samplefs("sync", self.url, self.source, "-u", "-f")[0], 2)

    def test_directories_and_modes(self):
        (self.source / "empty").mkdir()
        self.put("program").chmod(0o751)
        self.sync()
        self.assertEqual(self.names(directories=True), ["/program"])
        self.sync("--dirs", "--perms")
        self.assertEqual(self.names(directories=True), ["/empty/", "/program"])
        self.assertEqual(self.must("info", self.url, "/program", "--json")["mode"], "0751")

    def test_a_dry_run_changes_neither_side(self):
        self.put("a")
        self.sync()
        self.put("b")
        (self.source / "a").unlink()
        planned = self.sync("--dry", "--delete-dst")["files"]
        self.assertEqual((planned["copied"], planned["deleted"]), (1, 1))
        self.sync("--dry", "--delete-src")
        self.assertEqual(self.names(), ["/a"])
        self.assertTrue((self.source / "b").exists())

    def test_deletions(self):
        for name in ("a", "b", "d/c"):
            self.put(name)
        self.sync()
        (self.source / "b").unlink()
        self.assertEqual(self.sync("--delete-dst")["files"]["deleted"], 1)
        self.assertEqual(self.names(), ["/a", "/d/c"])
        self.assertEqual(self.sync("--delete-src")["files"]["deletedFromSource"], 2)
        self.assertEqual([p for p in self.source.rglob("*") if p.is_file()], [])
        self.assertEqual(self.names(), ["/a", "/d/c"])
        self.assertEqual(self.samplefs("sync", self.url, self.source, "--delete-src", "--delete-dst")[0], 2)

    def test_parts_make_a_whole(self):
        for i in range(1500):
            self.put(f"{i:04}")
        copied = [self.sync("--part", f"{part}/3")["files"]["copied"] for part in range(3)]
        self.assertEqual(sum(copied), 1500)
        self.assertGreater(len([count for count in copied if count]), 1, copied)
        self.assertEqual(len(self.names()), 1500)
        for wrong in ("4/3", "x", "1", "1/0"):
            self.assertEqual(self.samplefs("sync", self.url, self.source, "--part", wrong)[0], 2, wrong)

    def test_what_fails_is_reported(self):
        self.put("good")
        (self.source / "link").symlink_to("nowhere")
        report = self.base / "report"
        done = self.sync("--report", report, code=3)
        self.assertEqual((done["state"], done["files"]["failed"]), ("partly", 1))
        (line,) = report.read_text().splitlines()
        self.assertEqual(json.loads(line)["key"], "link")
        self.assertIn("does not exist", json.loads(line)["error"])
        (self.source / "good").unlink()
        self.assertEqual(self.sync(code=1)["state"], "failed")

    def test_progress_once_a_second_and_on_a_terminal(self):
        for i in range(8):
            self.put(f"{i}", "y" * 250_000)
        done = subprocess.run([SAMPLEFS, "sync", self.url, self.source, "--json", "--bwlimit", "8"], check=True,
                              capture_output=True, text=True, timeout=60, env=self.environment())
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        # 2 MB at 8 megabits a second: two seconds, perhaps a little less for what a limit lets through at first.
        self.assertGreaterEqual(len(lines), 2)
        self.assertLessEqual(len(lines), int(lines[-1]["elapsedSeconds"]) + 2)
        self.assertEqual([line["state"] for line in lines], ["running"] * (len(lines) - 1) + ["done"])
        self.assertEqual(lines[-1]["percent"], 100)
        for line in lines:
            self.assertLessEqual({"files", "bytes", "filesPerSecond", "bytesPerSecond", "etaSeconds"}, line.keys())
        leader, follower = pty.openpty()
        shown = subprocess.Popen([SAMPLEFS, "sync", self.url, self.source, "-f", "--bwlimit", "8"], stderr=follower,
                                 stdout=subprocess.DEVNULL, env=self.environment())
        os.close(follower)
        text = b""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                more = os.read(leader, 4096)
            except OSError:  # its other end is closed
                break
            if not more:
                break
            text += more
        os.close(leader)
        self.assertEqual(shown.wait(60), 0)
        self.assertIn(b"files", text)
        self.assertIn(b"/s", text)


class Secrets(Command):
    def test_a_password_on_the_command_line_is_warned_of(self):
        code, out, err = self.samplefs("status", "redis://:open-sesame@127.0.0.1:no-port/0")
        self.assertEqual(code, 1, out + err)
        self.assertIn("META_PASSWORD", err)
        self.assertNotIn("sesame", out + err)


class Away(Command):
    """A store that does not answer is tried again for most of a minute; both kinds at the same time."""

    def test_a_store_that_is_not_there(self):
        uris = ("minio://127.0.0.1:1/bucket/", "hdfs://127.0.0.1:1/data")
        runs = [subprocess.Popen([SAMPLEFS, "sync", self.url, uri, "--no-https"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=self.environment()) for uri in uris]
        for uri, run in zip(uris, runs, strict=True):
            out, err = run.communicate(timeout=120)
            self.assertEqual(run.returncode, 1, out + err)
            self.assertIn(uri.split("/")[2], err)
            self.assertIn("connect", err)
        self.assertEqual(self.names(), [])


class Warmup(Command):
    def setUp(self):
        super().setUp()
        for i in range(64):
            self.put(f"{i:03}.jpg", "z" * 70_000)
        self.sync()
        self.cache = ["--cache-dir", self.base / "cache", "--free-space-ratio", "0.001"]

    def warmup(self, *options, code=0):
        return self.must("warmup", self.url, *self.cache, "--json", *options, code=code)

    def test_ranks_epochs_and_eviction(self):
        sampler = ["--strategy", "random", "--ranks", "4", "--batch-size", "2"]
        done = self.warmup(*sampler, "--rank", "1", "--epoch", "3")
        self.assertEqual((done["files"]["total"], done["files"]["done"]), (16, 16))
        self.assertLessEqual({"filesPerSecond", "bytesPerSecond", "etaSeconds", "percent"}, done.keys())
        again = self.warmup(*sampler, "--rank", "1", "--epoch", "3", "--check")
        self.assertEqual(again["percent"], 100)
        other = self.warmup(*sampler, "--rank", "1", "--epoch", "4", "--check")
        self.assertLess(other["percent"], 100)
        last = self.warmup("--strategy", "sequence", "--ranks", "3", "--rank", "2", "--batch-size", "8", "--drop-last",
                           "--check")
        shuffled = self.warmup("--strategy", "sequence", "--ranks", "3", "--rank", "2", "--batch-size", "8", "--shuffle",
                               "--check")
        self.assertLess(last["files"], shuffled["files"])
        gone = self.warmup(*sampler, "--rank", "1", "--epoch", "3", "--evict")
        self.assertGreater(gone["blocks"], 0)
        self.assertEqual(self.warmup(*sampler, "--rank", "1", "--epoch", "3", "--check")["percent"], 0)

    def test_wrong_words(self):
        for words in (["--plan", "../x"], ["--rank", "1"], ["--strategy", "random", "--ranks", "2", "--rank", "2"],
                      ["--check", "--evict"]):
            code, out, err = self.samplefs("warmup", self.url, *self.cache, *words)
            self.assertEqual(code, 2, f"{words}: {out}{err}")
        self.assertFalse([p for p in (self.base / "cache").rglob("*") if p.name.endswith("_4194304")])


if __name__ == "__main__":
    unittest.main()
