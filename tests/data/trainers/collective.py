"""Trains a few steps with one copy of the model per worker, then checks that all copies agree.

Its last line is `RESULT {...}`; any disagreement ends it with another status than 0.
"""

import argparse
import json
import os

import numpy as np
import paddle
import paddle.distributed as dist
from paddle.io import DataLoader, Dataset, DistributedBatchSampler


class Sums(Dataset):
    """Vectors, and what their elements add up to."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        vector = np.random.RandomState(index).rand(8).astype("float32")
        return vector, vector.sum(keepdims=True)


def check(condition: bool, message: str) -> None:
    if not condition:
        raise SystemExit(f"collective.py: {message}")


def train(model: paddle.nn.Layer, epochs: int) -> list[float]:
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
    sampler = DistributedBatchSampler(Sums(), batch_size=4, shuffle=True)
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for vectors, sums in DataLoader(Sums(), batch_sampler=sampler, num_workers=0):
            loss = ((model(vectors) - sums) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(loss.item())
    return losses


def agree(weights: np.ndarray, world: int) -> bool:
    """Whether every worker has these weights, bit for bit."""
    gathered: list[paddle.Tensor] = []
    dist.all_gather(gathered, paddle.to_tensor(weights))
    return len(gathered) == world and all(
        np.array_equal(each.numpy(), weights) for each in gathered
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", type=int, required=True, help="workers that there must be")
    options = parser.parse_args()

    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    check(world == options.world, f"{world} workers instead of {options.world}")

    # Each worker would begin elsewhere if the first one's weights did not reach it.
    paddle.seed(rank + 1)
    layer = paddle.nn.Linear(8, 1)
    losses = train(paddle.DataParallel(layer), epochs=3)
    check(losses[-1] < losses[0], f"the loss did not fall: {losses}")

    weights = layer.weight.numpy().copy()
    if world > 1:
        total = paddle.to_tensor([float(rank + 1)])
        dist.all_reduce(total)
        check(total.item() == world * (world + 1) / 2, f"the ranks add up to {total.item()}")
        check(agree(weights, world), f"worker {rank} has other weights: {weights.tolist()}")
    print(
        "RESULT",
        json.dumps(
            {
                "rank": rank,
                "world": world,
                "steps": len(losses),
                "endpoint": os.environ.get("PADDLE_CURRENT_ENDPOINT"),
                "weights": weights.flatten().tolist(),
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
