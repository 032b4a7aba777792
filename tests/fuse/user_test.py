#!/usr/bin/env python3
"""Mounting without root, with fusermount3: a user's own volume in a user's own directory."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

USER = 65534
IN_NAMESPACE = "PADDLEOP_TEST_NAMESPACE"


def run(*args, user=None, environment=None):
    words = [str(arg) for arg in args]
    if user is not None:
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)


class AUser(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name)
        # A copy: the user may not get to where the tree is.
        self.program = self.base / "samplefs"
        shutil.copy(pathlib.Path(os.environ["PADDLEOP_BIN_DIR"]) / "samplefs", self.program)
        self.home = self.base / "home"
        self.mount_point = self.home / "mnt"
        self.mount_point.mkdir(parents=True)
        for path in (self.base, self.home, self.mount_point):
            os.chown(path, USER, USER)
            os.chmod(path, 0o755)
        self.url = f"sqlite3://{self.home}/meta.db"
        self.permit(0o666)
        self.samplefs("format", self.url, "mine", "--storage", "file", "--bucket", self.home / "objects")

    def permit(self, mode):
        """/dev/fuse with these permissions, in this process's own view of the machine."""
        device = pathlib.Path(tempfile.mkdtemp(dir=self.base)) / "fuse"
        os.mknod(device, 0o600 | stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
        os.chmod(device, mode)
        subprocess.run(["mount", "--bind", device, "/dev/fuse"], check=True)
        # Processes that end have it open a little longer.
        self.addCleanup(subprocess.run, ["umount", "-l", "/dev/fuse"], check=True)

    def samplefs(self, *args, code=0, user=USER, runtime=None):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home),
                       "XDG_RUNTIME_DIR": str(runtime or self.home)}
        done = run(self.program, *args, user=user, environment=environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def mount(self, *options, runtime=None):
        mounted = self.samplefs("mount", self.url, self.mount_point, "-d", "--cache-dir", self.home / "cache",
                                "--free-space-ratio", "0.01", *options, runtime=runtime)
        self.addCleanup(subprocess.run, ["umount", "-l", self.mount_point], stderr=subprocess.DEVNULL)
        return mounted

    def as_user(self, script):
        done = run("sh", "-c", script, user=USER)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_works_in_both_modes(self):
        self.mount()
        self.as_user(f"echo hello >{self.mount_point}/file && mkdir {self.mount_point}/d")
        self.assertEqual(self.as_user(f"cat {self.mount_point}/file"), "hello\n")
        status = json.loads(self.samplefs("status", self.mount_point, "--json").stdout)
        self.assertEqual(status["mode"], "general")
        self.assertEqual(os.stat(self.home / ".samplefs/samplefs.log").st_uid, USER)
        # Others, even root, may not look into it, nor take it away.
        with self.assertRaises(PermissionError):
            os.listdir(self.mount_point)
        other = self.samplefs("umount", self.mount_point, code=1, user=USER - 1)
        self.assertIn("not permitted", other.stderr)
        self.samplefs("umount", self.mount_point)
        self.assertFalse(os.path.ismount(self.mount_point))

        self.mount("--read-only")
        self.assertEqual(self.as_user(f"cat {self.mount_point}/file"), "hello\n")
        self.samplefs("refresh", self.mount_point)
        refused = run("sh", "-c", f"echo x >{self.mount_point}/new", user=USER)
        self.assertIn("Read-only", refused.stderr)
        self.samplefs("umount", "--force", self.mount_point)
        self.assertFalse(os.path.ismount(self.mount_point))

    def test_options_of_the_kernel(self):
        self.mount("-o", "noatime,noexec,max_read=65536")
        self.as_user(f"head -c 300000 /dev/zero >{self.mount_point}/zeros")
        self.assertEqual(self.as_user(f"wc -c <{self.mount_point}/zeros").strip(), "300000")
        line = [row for row in pathlib.Path("/proc/mounts").read_text().splitlines() if str(self.mount_point) in row]
        for option in ("noatime", "noexec", "nosuid", "nodev", "max_read=65536"):
            self.assertIn(option, line[0])
        self.samplefs("umount", self.mount_point)

    def test_trusts_no_directory_of_others(self):
        runtime = self.base / "runtime"
        runtime.mkdir()
        os.chown(runtime, USER, USER)
        (runtime / "samplefs").mkdir()
        os.chown(runtime / "samplefs", USER - 1, USER - 1)
        warned = self.mount(runtime=runtime)
        self.assertIn(f"{runtime}/samplefs", warned.stderr)
        refused = self.samplefs("status", self.mount_point, code=1, runtime=runtime)
        self.assertIn(f"{runtime}/samplefs", refused.stderr)
        self.as_user(f"echo hello >{self.mount_point}/file")
        unseen = self.samplefs("umount", self.mount_point, runtime=runtime)
        self.assertIn("not waited for", unseen.stderr)

    def test_is_told_in_one_line_what_is_missing(self):
        self.permit(0o600)
        refused = self.samplefs("mount", self.url, self.mount_point, code=1)
        self.assertIn("not permitted to use /dev/fuse", refused.stderr)
        self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
        self.permit(0o666)
        os.chown(self.mount_point, 0, 0)
        os.chmod(self.mount_point, 0o755)
        refused = self.samplefs("mount", self.url, self.mount_point, code=1)
        self.assertIn(str(self.mount_point), refused.stderr)
        self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
        os.chown(self.mount_point, USER, USER)
        refused = self.samplefs("mount", self.url, self.mount_point, "-o", "allow_other", code=1)
        self.assertIn("allow_other", refused.stderr)


if __name__ == "__main__":
    if IN_NAMESPACE not in os.environ:
        os.environ[IN_NAMESPACE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    unittest.main()
