"""A runtime pod of driver juicefs: our runtime server on a mount of the official client. What the official CSI driver does for
a pod, making the volume and mounting it, is done here with the same program."""

import functools
import os
import pathlib
import ssl
import subprocess
import urllib.request

from cluster import BIN, ROOT, wait_for


@functools.cache
def juicefs():
    found = subprocess.run([ROOT / "tests/peers/peer", "path", "juicefs"], check=True, capture_output=True, text=True)
    return found.stdout.strip() + "/juicefs"


class OfficialRuntime:
    """The command of the pod, with folders of this machine in place of the pod's."""

    def __init__(self, pod, ip, auth, volume, root, command):
        self.ip, self.root = ip, pathlib.Path(root) / pod
        self.mount, cache = self.root / "mnt", self.root / "cache"
        for folder in (self.root, self.mount, cache):
            folder.mkdir(exist_ok=True)
        key = {file.name: file.read_text().strip() for file in pathlib.Path(volume).iterdir()}
        self.call("format", f"--storage={key['storage']}", f"--bucket={key['bucket']}", key["metaurl"], key["name"])
        self.call("mount", "-d", "--no-usage-report", f"--cache-dir={cache}", "--free-space-ratio=0.01",
                  f"--log={self.root}/mount.log", key["metaurl"], str(self.mount))
        folders = {"--auth-dir": auth, "--volume-dir": volume, "--cache-dir": cache, "--data-dir": self.mount}
        words = [word.replace("$(POD_NAME)", pod).replace("$(POD_IP)", ip) for word in command]
        words = [f"{name}={folders[name]}" if (name := word.split("=")[0]) in folders else word for word in words]
        self.log = open(self.root / "runtime.log", "w")
        self.process = subprocess.Popen([BIN / "samplefs", *words[1:], f"--juicefs={juicefs()}"], env=self.environment(),
                                        stderr=self.log)

    def environment(self):
        return {**os.environ, "HOME": str(self.root), "NO_PROXY": "*"}

    def call(self, *argv):
        done = subprocess.run([juicefs(), *argv], env=self.environment(), capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr

    def ready(self):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with urllib.request.urlopen(f"https://{self.ip}:7716/readyz", timeout=10, context=context) as reply:
                return reply.status == 200
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        wait_for(lambda: subprocess.run([juicefs(), "umount", self.mount], capture_output=True).returncode == 0,
                 f"{self.mount} is unmounted")
