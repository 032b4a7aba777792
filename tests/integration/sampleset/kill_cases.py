"""SIGKILL of managers, runtimes, Redis and MinIO while a job of each kind runs: every job ends right or fails with a
reason, and nothing is lost. Each of the seven dies equally often. PADDLEOP_KILL_ROUNDS sets the number of deaths, and
PADDLEOP_SEED what is random: their order and moments. tests/integration/runtime/runtime_kill_test.cc has more of them."""

import os
import random
import signal
import subprocess
import time

from real import BIN, NS, SMALL, RealCase, world  # isort: skip: it sets the path, too
from parallel import alone
from sets import sample_job, sample_set

VICTIMS = ["samplejob", "sampleset", "killed-runtime-0", "killed-runtime-1", "killed-runtime-2", "redis", "minio"]


class Kills(RealCase):
    @alone
    def test_kills(self):
        seed = int(os.environ.get("PADDLEOP_SEED", random.randrange(1 << 30)))
        rounds = int(os.environ.get("PADDLEOP_KILL_ROUNDS", len(VICTIMS)))
        print(f"PADDLEOP_SEED={seed}", flush=True)
        self.rng = random.Random(seed)
        self.create(self.source_keys("killed-keys"), self.volume_secret("killed", 7),
                    sample_set("killed", partitions=3, source=self.source("killed-keys")))
        self.wait_phase("sampleset", "killed", "Ready")
        self.wait_cached("killed", SMALL)
        first = self.sync(0)
        self.create(first)
        self.see_to_the_end(first, "nobody")
        victims = []
        for i in range(1, rounds + 1):
            victims = victims or self.rng.sample(VICTIMS, len(VICTIMS))
            self.round(i, victims.pop())
        # Nothing points nowhere, and no count is wrong.
        meta = f"redis://127.0.0.1:{world.redis.info['port']}/7"
        checked = subprocess.run([BIN / "samplefs", "fsck", meta], capture_output=True, text=True, timeout=240)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        for job in self.cluster.get(f"/apis/batch.paddlepaddle.org/v1alpha1/namespaces/{NS}/samplejobs")["items"]:
            if job["spec"]["sampleSetRef"]["name"] == "killed":
                self.delete("SampleJob", job["metadata"]["name"])
        self.drop("killed")
        self.assertEqual(self.cached_blocks("killed"), [])
        self.delete("Secret", "killed-keys")

    def sync(self, i):
        return sample_job(f"kill-{i}-sync", "sync", "killed", backoffLimit=3, secretRef={"name": "killed-keys"},
                          syncOptions={"source": self.source("")["uri"], "destination": f"again-{i}"})

    def round(self, i, victim):
        """A new import, the one before is removed, and what was there is cleared and warmed up; meanwhile somebody dies."""
        jobs = [self.sync(i),
                sample_job(f"kill-{i}-rmr", "rmr", "killed", backoffLimit=3, rmrOptions={"paths": [f"again-{i - 1}"]}),
                sample_job(f"kill-{i}-clear", "clear", "killed", backoffLimit=3,
                           clearOptions={"paths": ["train/n00000000"]}),
                sample_job(f"kill-{i}-warmup", "warmup", "killed", backoffLimit=3,
                           warmupOptions={"paths": ["train/n00000001"]})]
        self.create(*jobs)
        time.sleep(self.rng.random())
        begun = time.monotonic()
        self.kill(victim)
        for body in jobs:
            self.see_to_the_end(body, victim)
        self.wait_cache("killed", totalFiles=f"{2 * SMALL:,}")
        print(f"{victim} died: {time.monotonic() - begun:.1f} s", flush=True)

    def kill(self, victim):
        if victim in world.managers:
            world.managers[victim].process.kill()
            world.managers[victim].process.wait()
            world.start_manager(victim)
        elif victim in ("redis", "minio"):
            peer = getattr(world, victim)
            peer.command(f"kill {victim}")
            time.sleep(self.rng.random() / 2)
            peer.command(f"start {victim}")
        else:
            os.kill(self.runtime_process("killed", victim), signal.SIGKILL)

    def see_to_the_end(self, body, victim):
        name = body["metadata"]["name"]
        status = self.wait_phase("samplejob", name, "Succeeded", "Failed", seconds=400)
        if status["phase"] == "Succeeded":
            return
        # A reason is given, and the same job succeeds when nobody is killed.
        print(f"{name} failed after the death of {victim}: {status.get('message')}", flush=True)
        self.assertTrue(status.get("message"), status)
        body["metadata"]["name"] = name + "-again"
        self.create(body)
        again = self.wait_phase("samplejob", name + "-again", "Succeeded", "Failed", seconds=400)
        self.assertEqual(again["phase"], "Succeeded", again)
