"""What tests of `samplefs sync` through the program share: a volume of SQLite and a directory, and a source."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SAMPLEFS = os.environ["PADDLEOP_BIN_DIR"] + "/samplefs"


class SyncCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name)
        self.url = f"sqlite3://{self.base}/meta.db"
        self.source = self.base / "source"
        self.source.mkdir()

    def environment(self):
        return os.environ | {"SAMPLEFS_STATE_DIR": str(self.base / "state")}

    def samplefs(self, *arguments):
        done = subprocess.run([SAMPLEFS, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env=self.environment())
        return done.returncode, done.stdout, done.stderr

    def must(self, *arguments, code=0, whole=False):
        """What it printed: the last JSON object, if that was asked for, unless `whole`."""
        got, out, err = self.samplefs(*arguments)
        self.assertEqual(got, code, f"{arguments}: {out}{err}")
        return json.loads(out.splitlines()[-1]) if "--json" in arguments and not whole else out
