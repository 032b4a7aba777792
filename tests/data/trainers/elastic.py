"""Trains from the last saved step on, with as many workers as there are at the moment.

The workers share the directory `--state`, as they would share a volume. The first worker saves the
weights there after every step and adds a line to `history`: step, workers. The job ends with a step
of `--last-world` workers, when at least `--steps` have been made.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np
import paddle
import paddle.distributed as dist


class State:
    def __init__(self, directory: pathlib.Path) -> None:
        self._weights = directory / "weights.json"
        self._history = directory / "history"

    def load(self, layer: paddle.nn.Layer) -> int:
        """The step that was saved last; 0 if none was."""
        if not self._weights.exists():
            return 0
        saved = json.loads(self._weights.read_text())
        layer.weight.set_value(np.array(saved["weight"], dtype="float32"))
        layer.bias.set_value(np.array(saved["bias"], dtype="float32"))
        return int(saved["step"])

    def save(self, layer: paddle.nn.Layer, step: int, world: int) -> None:
        unfinished = self._weights.with_suffix(".unfinished")
        saved = {
            "step": step,
            "weight": layer.weight.numpy().tolist(),
            "bias": layer.bias.numpy().tolist(),
        }
        unfinished.write_text(json.dumps(saved))
        os.replace(unfinished, self._weights)
        with self._history.open("a") as history:
            history.write(f"{step} {world}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--last-world", type=int, required=True)
    options = parser.parse_args()

    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    state = State(options.state)
    layer = paddle.nn.Linear(8, 1)
    step = state.load(layer)
    model = paddle.DataParallel(layer) if world > 1 else layer
    optimizer = paddle.optimizer.SGD(0.02, parameters=model.parameters())
    print(f"BEGIN rank {rank} world {world} step {step}", flush=True)

    source = np.random.RandomState(rank)
    done = False
    while not done:
        vectors = paddle.to_tensor(source.rand(4, 8).astype("float32"))
        loss = ((model(vectors) - vectors.sum(axis=1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        step += 1
        if rank == 0:
            state.save(layer, step, world)
        print(f"STEP {step} world {world} loss {loss.item():.4f}", flush=True)
        done = step >= options.steps and world == options.last_world
        time.sleep(0.1)  # a step of this model takes no time; a real one does
    print("RESULT", json.dumps({"rank": rank, "world": world, "steps": step}), flush=True)


if __name__ == "__main__":
    main()
