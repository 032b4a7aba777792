"""Trains a small network on the images of a directory, as one of the workers of a PaddleJob.

    train.py DATA [--epochs 2] [--batch-size 32]

Prints one JSON line for each epoch: how many images this worker read, in how many seconds, and the loss.
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


class Images(Dataset):
    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        lines = (directory / "list.txt").read_text().splitlines()
        self._samples = [(path, int(label)) for path, label in (line.split() for line in lines)]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        path, label = self._samples[index]
        image = Image.open(self._directory / path).convert("RGB").resize((32, 32))
        return np.asarray(image, dtype="float32").transpose(2, 0, 1) / 255, label


def network(classes: int) -> paddle.nn.Layer:
    nn = paddle.nn
    return nn.Sequential(
        nn.Conv2D(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2D(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * 7 * 7, classes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    options = parser.parse_args()

    dist.init_parallel_env()
    images = Images(options.data)
    model = network(classes=10)
    if dist.get_world_size() > 1:
        model = paddle.DataParallel(model)
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    sampler = DistributedBatchSampler(images, batch_size=options.batch_size, shuffle=True)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        started, count, losses = time.monotonic(), 0, []
        for batch, labels in DataLoader(images, batch_sampler=sampler, num_workers=0):
            loss = paddle.nn.functional.cross_entropy(model(batch), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(loss.item())
            count += len(labels)
        seconds = time.monotonic() - started
        print(json.dumps({"rank": dist.get_rank(), "world": dist.get_world_size(), "epoch": epoch, "images": count,
                          "seconds": round(seconds, 3), "loss": round(float(np.mean(losses)), 4),
                          "pod": os.environ.get("POD_NAME", "")}), flush=True)


if __name__ == "__main__":
    main()
