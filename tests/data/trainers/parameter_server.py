"""Trains an embedding that parameter servers hold: an asynchronous job of Paddle 2.6.

The same script is the server and the worker, as its environment says. A worker's last line is
`RESULT {...}`. Servers never end by themselves, which is how Paddle's are.
"""

import argparse
import json

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

_WORDS = 100


def build() -> tuple[list[paddle.static.Variable], paddle.static.Variable]:
    """Tells odd numbers from even ones. Returns the inputs and the loss."""
    number = paddle.static.data("number", [None, 1], "int64")
    odd = paddle.static.data("odd", [None, 1], "int64")
    embedding = paddle.static.nn.embedding(
        number, size=[_WORDS, 8], is_sparse=True, param_attr=paddle.ParamAttr(name="embedding")
    )
    answer = paddle.static.nn.fc(paddle.reshape(embedding, [-1, 8]), 2)
    return [number, odd], paddle.mean(paddle.nn.functional.cross_entropy(answer, odd))


def work(inputs: list[paddle.static.Variable], loss: paddle.static.Variable, steps: int) -> None:
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    source = np.random.RandomState(fleet.worker_index())
    losses = []
    for _ in range(steps):
        number = source.randint(0, _WORDS, (64, 1)).astype("int64")
        feed = {inputs[0].name: number, inputs[1].name: number % 2}
        (value,) = executor.run(paddle.static.default_main_program(), feed=feed, fetch_list=[loss])
        losses.append(float(np.asarray(value).reshape(-1)[0]))
    fleet.stop_worker()
    if not np.isfinite(losses).all():
        raise SystemExit(f"parameter_server.py: the loss is {losses}")
    print(
        "RESULT",
        json.dumps(
            {
                "rank": fleet.worker_index(),
                "world": fleet.worker_num(),
                "servers": fleet.server_num(),
                "steps": len(losses),
                "first": float(np.mean(losses[:5])),
                "last": float(np.mean(losses[-5:])),
            }
        ),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()

    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
    inputs, loss = build()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.Adam(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        print("SERVER", fleet.server_index(), flush=True)
        fleet.run_server()
    else:
        work(inputs, loss, options.steps)


if __name__ == "__main__":
    main()
