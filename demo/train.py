"""Trains a small network on the images of one or more directories, as one of the workers of a PaddleJob.

    train.py [--batch-size 32] DATA...

One epoch for each directory. Prints one JSON line for each: how many images this worker read, in how many seconds, and
the loss.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np
import paddle
import paddle.distributed as dist
from paddle.io import DataLoader, Dataset, DistributedBatchSampler
from PIL import Image

SIDE = 32


class Images(Dataset):
    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        lines = (directory / "list.txt").read_text().splitlines()
        self._samples = [(path, int(label)) for path, label in (line.split() for line in lines)]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        path, label = self._samples[index]
        image = Image.open(self._directory / path)
        image.draft("RGB", (SIDE, SIDE))  # the decoder makes it smaller: reading is what is measured here
        pixels = np.asarray(image.convert("RGB").resize((SIDE, SIDE)), dtype="float32")
        return pixels.transpose(2, 0, 1) / 255, label


def network(classes: int) -> paddle.nn.Layer:
    nn = paddle.nn
    return nn.Sequential(
        nn.Conv2D(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2D(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * 7 * 7, classes))


def epoch(data: pathlib.Path, batch_size: int) -> dict:
    """A new network, one epoch, and what it was like."""
    images = Images(data)
    paddle.seed(1)
    model = network(classes=10)
    if dist.get_world_size() > 1:
        model = paddle.DataParallel(model)
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())

    def step(batch: paddle.Tensor, labels: paddle.Tensor) -> float:
        loss = paddle.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss.item()

    # The first step makes Paddle load its kernels, which belongs to no data set.
    step(paddle.zeros([batch_size, 3, SIDE, SIDE]), paddle.zeros([batch_size], dtype="int64"))
    sampler = DistributedBatchSampler(images, batch_size=batch_size, shuffle=True)
    sampler.set_epoch(0)
    started, count, losses = time.monotonic(), 0, []
    for batch, labels in DataLoader(images, batch_sampler=sampler, num_workers=0):
        losses.append(step(batch, labels))
        count += len(labels)
    return {"data": str(data), "images": count, "seconds": round(time.monotonic() - started, 3),
            "loss": round(float(np.mean(losses)), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, nargs="+")
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()

    dist.init_parallel_env()
    for data in options.data:
        result = epoch(data, options.batch_size)
        print(json.dumps({"rank": dist.get_rank(), "world": dist.get_world_size(), **result,
                          "node": os.environ.get("NODE_NAME", "")}), flush=True)


if __name__ == "__main__":
    main()
