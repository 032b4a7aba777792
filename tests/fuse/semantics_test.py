"""Runs the examples of docs/semantics.md on real mounts."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(os.environ.get("PADDLEOP_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BIN = pathlib.Path(os.environ["PADDLEOP_BIN_DIR"])
SAMPLEFS = str(BIN / "samplefs")


def examples() -> list[tuple[str, str]]:
    """The sh blocks of the page: the comment in the first line, and the whole text."""
    text = (ROOT / "docs/semantics.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(block.splitlines()[0].lstrip("# "), block) for block in blocks]


def run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")


class Semantics(unittest.TestCase):
    trash_days = "0"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        base = pathlib.Path(self.folder.name)
        url = f"sqlite3://{base}/meta.db"
        run(SAMPLEFS, "format", url, "test", "--bucket", f"{base}/objects", "--trash-days", self.trash_days)
        self.paths = {}
        for name, options in (("A", []), ("B", []), ("SET", ["--read-only"])):
            point = base / name.lower()
            point.mkdir()
            self.paths[name] = str(point)
            run(SAMPLEFS, "mount", url, str(point), "-d", "--log", f"{base}/{name}.log",
                "--cache-dir", f"{base}/cache", *options)
            self.addCleanup(subprocess.run, ["umount", "-l", str(point)], capture_output=True)
        (base / "local").mkdir()
        self.paths["T"] = str(base / "local")

    def test_a_mount_of_the_volume_is_no_other_source(self):
        url = f"sqlite3://{self.folder.name}/meta.db"
        folder = pathlib.Path(self.paths["A"]) / "set"
        (folder / "deep").mkdir(parents=True)
        (folder / "file").write_text("the only copy")
        for to, option in (("/set", "--delete-src"), ("/set/deep", "--delete-src"), ("/", "--delete-dst")):
            done = subprocess.run([SAMPLEFS, "sync", url, str(folder), "--to", to, option], capture_output=True,
                                  text=True, timeout=120)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("--to" if option == "--delete-src" else "delete-dst", done.stderr)
        self.assertEqual((folder / "file").read_text(), "the only copy")
        run(SAMPLEFS, "sync", url, str(folder), "--to", "/copy")
        self.assertEqual((pathlib.Path(self.paths["A"]) / "copy/file").read_text(), "the only copy")

    def test_every_example_holds(self):
        found = examples()
        self.assertGreaterEqual(len(found), 10)
        path = f"{BIN}:{os.environ['PATH']}"
        for title, block in found:
            with self.subTest(title):
                done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", block],
                                      env={**os.environ, **self.paths, "PATH": path},
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, f"{block}\n{done.stdout}{done.stderr}")
        for name in ("A", "B", "SET"):
            run(SAMPLEFS, "umount", self.paths[name])


class SemanticsWithTrash(Semantics):
    trash_days = "1"


if __name__ == "__main__":
    unittest.main()
