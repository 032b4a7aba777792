#!/usr/bin/python3
"""Our sampler and Paddle's own give every rank the same samples in the same order."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PEER = HERE.parents[1] / "peers" / "peer"
OURS = pathlib.Path(os.environ["PADDLEOP_BIN_DIR"]) / "print_sample_orders"

CONFIGURATIONS = 120
# Sizes where something could go wrong by one: no sample too few, none too many, padding, a tail.
CORNERS = [
    (1, 1, 1, 1, 0, 0),
    (1, 9, 4, 1, 1, 3),
    (2, 5, 4, 0, 0, 0),
    (7, 7, 1, 1, 0, 1),
    (8, 7, 1, 1, 0, 1),
    (24, 3, 4, 1, 1, 2),
    (23, 3, 4, 1, 1, 2),
    (25, 3, 4, 1, 1, 2),
    (10, 2, 3, 0, 1, 7),
    (300, 1, 32, 1, 0, 2**32 - 1),
]


def draw(seed: int) -> list[tuple[int, ...]]:
    """samples, ranks, batch_size, shuffle, drop_last, epoch"""
    source = random.Random(seed)
    drawn = []
    for _ in range(CONFIGURATIONS):
        samples = source.randint(1, source.choice([12, 300, 5000]))
        epoch = source.choice([0, 1, source.randint(2, 1000), source.randint(2**31, 2**32 - 1)])
        drawn.append(
            (
                samples,
                source.randint(1, 9),
                source.randint(1, 40),
                int(source.random() < 0.7),
                int(source.random() < 0.5),
                epoch,
            )
        )
    return drawn


class SamplerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        seed = int(os.environ.get("PADDLEOP_TEST_SEED") or random.SystemRandom().getrandbits(32))
        print(f"seed {seed}; to repeat: PADDLEOP_TEST_SEED={seed}", file=sys.stderr)
        cls.configurations = CORNERS + draw(seed)
        cls.ours = cls.orders([str(OURS)])

    @classmethod
    def orders(cls, argv: list[str]) -> list[list[str]]:
        """Per configuration, each rank's samples."""
        lines = "".join(" ".join(map(str, drawn)) + "\n" for drawn in cls.configurations)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            argv, input=lines, stdout=subprocess.PIPE, text=True, env=environment, timeout=120
        )
        if done.returncode != 0:
            raise AssertionError(f"{argv[0]} ended with {done.returncode}")
        printed = iter(done.stdout.splitlines())
        orders = [[next(printed) for _ in range(drawn[1])] for drawn in cls.configurations]
        assert next(printed, None) is None, f"{argv[0]} printed more than was asked for"
        return orders

    def compare(self, peer: str) -> None:
        subprocess.run([PEER, "get", peer], check=True)
        path = subprocess.run([PEER, "path", peer], check=True, capture_output=True, text=True)
        python = pathlib.Path(path.stdout.strip()) / "bin" / "python"
        real = self.orders([str(python), str(HERE / "real_orders.py")])
        for drawn, expected, got in zip(self.configurations, real, self.ours, strict=True):
            with self.subTest(str(drawn)):
                self.assertEqual(got, expected)

    def test_paddle_3_3(self) -> None:
        self.compare("paddle")

    def test_paddle_2_6(self) -> None:
        self.compare("paddle-ps")


if __name__ == "__main__":
    unittest.main()
