"""The command line of `peer`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time

from peerlib import cache
from peerlib.base import Interrupted, PeerError, say
from peerlib.catalog import PEERS, select, with_required
from peerlib.session import Session, serve

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except PeerError as error:
        print(f"peer: {error}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        # Serving ends like this in the normal course of things; anything else was cut short.
        return 0 if options.command == "serve" else 128 + interrupted.args[0]


def _interrupt(number: int, _: object) -> None:
    # A second signal must not cut the clean-up short that the first one began.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="peer", description=sys.modules["__main__"].__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    get = commands.add_parser(
        "get", help="get peers and what they require (all: those that the tests need)"
    )
    get.add_argument("names", nargs="+", metavar="NAME")
    get.set_defaults(run=_get)

    path = commands.add_parser("path", help="print the directory that holds a peer's programs")
    path.add_argument("name", choices=PEERS, metavar="NAME")
    path.set_defaults(run=_path)

    serving = commands.add_parser("serve", help="run a peer until standard input ends")
    kinds = serving.add_subparsers(dest="name", required=True, metavar="NAME")
    for peer in PEERS.values():
        kind = kinds.add_parser(peer.name, help=peer.version)
        peer.add_options(kind)
        kind.set_defaults(run=_serve)

    smoke = commands.add_parser("smoke", help="start peers and talk to each with its own client")
    smoke.add_argument("names", nargs="+", metavar="NAME")
    smoke.set_defaults(run=_smoke)

    commands.add_parser("list", help="show all peers").set_defaults(run=_list)
    commands.add_parser(
        "doctor", help="... and what they need; fails if something is missing"
    ).set_defaults(run=_doctor)
    return parser


def _get(options: argparse.Namespace) -> None:
    for peer in with_required(select(options.names)):
        peer.get()


def _path(options: argparse.Namespace) -> None:
    print(PEERS[options.name].directory())


def _serve(options: argparse.Namespace) -> None:
    peer = PEERS[options.name]
    with Session(peer.name) as session:
        serve(session, lambda: peer.start(session, options))


def _smoke(options: argparse.Namespace) -> None:
    for peer in select(options.names):
        started = time.monotonic()
        peer.smoke()
        say(f"{peer.name}: works ({time.monotonic() - started:.1f} s)")


def _list(_: argparse.Namespace) -> None:
    print(f"{'NAME':<18} {'GROUP':<6} {'VERSION':<30} WHERE")
    for peer in PEERS.values():
        found = peer.find()
        print(
            f"{peer.name:<18} {peer.group:<6} {peer.found_version():<30} {found or '(not there)'}"
        )


def _doctor(options: argparse.Namespace) -> int:
    _list(options)
    problems = [
        f"{peer.name} is missing: peer get {peer.name}"
        for peer in select(["all"])
        if peer.find() is None
    ]
    problems += [
        f"{program} is missing: tools/deps.sh"
        for program in ("openssl", "gcc")
        if not shutil.which(program)
    ]
    print(f"\ncache: {cache.root()}")
    if subprocess.run([sys.executable, "-c", "import boto3"], capture_output=True).returncode != 0:
        problems.append(f"{sys.executable} has no boto3: tools/deps.sh, and use /usr/bin/python3")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("/dev/fuse cannot be used: `peer smoke juicefs` does not mount")
    for problem in problems:
        print(problem)
    return 1 if problems else 0
