"""kubectl: the machine's own if it is new enough, or else built from the module of `kube`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from peerlib import cache
from peerlib.base import check, loopback_environment
from peerlib.golang import GoPeer
from peerlib.kube_build import LINKER_FLAGS, VERSION
from peerlib.process import run

_OLDEST = (1, 30)


class Kubectl(GoPeer):
    name = "kubectl"
    version = VERSION
    module = "kube"
    packages = {"kubectl": "k8s.io/kubernetes/cmd/kubectl"}
    linker_flags = LINKER_FLAGS

    def get(self) -> None:
        if self.find() is None:
            super().get()

    def find(self) -> Path | None:
        built = cache.find(self.name, self.version)
        if built is not None:
            return built
        machines = shutil.which("kubectl")
        if machines is None or _version(machines) < _OLDEST:
            return None
        return Path(machines).parent

    def found_version(self) -> str:
        found = self.find()
        if found is None or found == cache.entry(self.name, self.version):
            return self.version
        return "v" + ".".join(map(str, _version(str(found / "kubectl")))) + " (the machine's)"

    def smoke(self) -> None:
        version = _version(self.program("kubectl"))
        check(version >= _OLDEST, f"kubectl: version {version} is older than {_OLDEST}")
        # `--dry-run=client` needs no server: kubectl reads, defaults and prints an object.
        command = "create configmap smoke --from-literal=key=value --dry-run=client -o json"
        environment = {**loopback_environment(), "KUBECONFIG": "/dev/null"}
        printed = json.loads(run([self.program("kubectl"), *command.split()], environment))
        check(printed["data"] == {"key": "value"}, f"kubectl: printed {printed}")


def _version(kubectl: str) -> tuple[int, int]:
    done = subprocess.run(
        [kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True
    )
    try:
        client = json.loads(done.stdout)["clientVersion"]
        return int(client["major"]), int(client["minor"].rstrip("+"))
    except (ValueError, KeyError):
        return 0, 0
