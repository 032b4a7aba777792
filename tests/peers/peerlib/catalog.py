"""All peers, in the order in which `get all` gets them."""

from __future__ import annotations

from collections.abc import Sequence

from peerlib.base import Peer, PeerError
from peerlib.bce import BceSdk
from peerlib.etcd import Etcd
from peerlib.hdfs import Hdfs
from peerlib.juicefs import JuiceFs
from peerlib.kube import Kube
from peerlib.kubectl import Kubectl
from peerlib.kwok import Kwok
from peerlib.minio import Minio
from peerlib.paddle import Paddle, PaddlePs
from peerlib.redis import Redis
from peerlib.training_operator import TrainingOperator
from peerlib.volcano import Volcano

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Redis(),
        Etcd(),
        Minio(),
        JuiceFs(),
        Kube(),
        Kubectl(),
        Kwok(),
        Paddle(),
        PaddlePs(),
        BceSdk(),
        Volcano(),
        TrainingOperator(),
        Hdfs(),
    )
}


def select(names: Sequence[str]) -> list[Peer]:
    """The peers of these names; a group's name (`all` is the tests') stands for its members."""
    chosen: dict[str, Peer] = {}
    for name in names:
        group = "test" if name == "all" else name
        members = [peer for peer in PEERS.values() if name == peer.name or group == peer.group]
        if not members:
            raise PeerError(f"no peer {name}; there are: {', '.join(PEERS)}")
        chosen |= {peer.name: peer for peer in members}
    return list(chosen.values())


def with_required(peers: Sequence[Peer]) -> list[Peer]:
    """The same, each after those that it requires."""
    ordered: dict[str, Peer] = {}
    for peer in peers:
        for required in with_required([PEERS[name] for name in peer.requires]):
            ordered[required.name] = required
        ordered[peer.name] = peer
    return list(ordered.values())
