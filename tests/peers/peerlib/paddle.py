"""Paddle itself, as the pods of a training job run it."""

from __future__ import annotations

from peerlib.base import check
from peerlib.process import run
from peerlib.python import PythonPeer, clean_environment
from peerlib.session import Session

_TRAIN_ONE_STEP = """
import paddle
layer = paddle.nn.Linear(4, 1)
optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
before = layer.weight.numpy().copy()
loss = (layer(paddle.ones([2, 4])) ** 2).mean()
loss.backward()
optimizer.step()
assert (layer.weight.numpy() != before).all()
"""

_ETCD_CLIENT = """
import etcd3
etcd3.client(host="127.0.0.1", port=1).close()
"""

_PARAMETER_SERVER = """
import paddle.distributed.fleet as fleet
from paddle.base import core
fleet.PaddleCloudRoleMaker(is_collective=False)
core.DistFleetWrapper()
str(fleet.DistributedStrategy())
"""


class _Paddle(PythonPeer):
    def _run(self, script: str, **variables: str) -> str:
        script = f"import paddle\nprint(paddle.__version__)\n{script}"
        with Session(self.name) as session:
            environment = {**clean_environment(), "OMP_NUM_THREADS": "1", **variables}
            return run([self.python(), "-c", script], environment, session.data, timeout=120)

    def _check(self, script: str, **variables: str) -> None:
        output = self._run(script, **variables)
        check(output.split()[:1] == [self.version], f"{self.name}: says {output}")

    def smoke(self) -> None:
        # The script shows that the environment stands where its programs believe it to stand.
        run([self.program("bin/pip"), "check"], clean_environment())
        self._check(_TRAIN_ONE_STEP)


class Paddle(_Paddle):
    name = "paddle"
    version = "3.3.1"
    module = "paddle"

    def smoke(self) -> None:
        super().smoke()
        self._check(_ETCD_CLIENT, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python")


class PaddlePs(_Paddle):
    name = "paddle-ps"
    version = "2.6.2"
    module = "paddle-ps"

    def smoke(self) -> None:
        super().smoke()
        self._check(_PARAMETER_SERVER)
