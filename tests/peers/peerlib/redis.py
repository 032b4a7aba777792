"""Redis: Debian's redis-server."""

from __future__ import annotations

import argparse
import socket
import ssl
import urllib.parse
from pathlib import Path
from typing import Any

from peerlib.base import check
from peerlib.certificates import Authority
from peerlib.process import run
from peerlib.session import Session
from peerlib.system import SystemPeer


class Redis(SystemPeer):
    name = "redis"
    version = "7.0 or newer"
    programs = ("redis-server", "redis-cli")
    oldest = (7, 0)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--password", help="clients must AUTH with it")
        parser.add_argument(
            "--tls", action="store_true", help="TLS only; a client certificate is optional"
        )
        parser.add_argument(
            "--appendonly", action="store_true", help="data also survives `kill redis`"
        )
        parser.add_argument(
            "--config",
            action="append",
            default=[],
            metavar="LINE",
            help="a line of redis.conf; repeatable",
        )

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        port = session.free_port()
        unix = session.data / "redis.sock"
        lines = [
            "bind 127.0.0.1",
            f"unixsocket {unix}",
            "unixsocketperm 700",
            f"dir {session.data}",
            f"port {0 if options.tls else port}",
            "save 3600 1",  # so that Redis saves when it is asked to stop
            f"appendonly {'yes' if options.appendonly else 'no'}",
        ]
        if any(line.split()[:1] == ["cluster-enabled"] for line in options.config):
            # Otherwise the port of its bus is 10,000 higher, where the machine's own connections are.
            lines.append(f"cluster-port {session.free_port()}")
        if options.password:
            lines.append(f'requirepass "{options.password}"')
        reached: dict[str, Any] = {"host": "127.0.0.1", "port": port, "unix": str(unix)}
        ca: Path | None = None
        if options.tls:
            authority = Authority(session.data / "pki", "redis-ca")
            server = authority.server("redis-server")
            client = authority.client("redis-client", "/CN=redis-client")
            ca = authority.certificate
            lines += [
                f"tls-port {port}",
                f"tls-ca-cert-file {ca}",
                f"tls-cert-file {server.certificate}",
                f"tls-key-file {server.key}",
                "tls-auth-clients optional",
            ]
            reached |= {
                "ca": str(ca),
                "client_cert": str(client.certificate),
                "client_key": str(client.key),
            }
        configuration = session.data / "redis.conf"
        configuration.write_text("\n".join(lines + options.config) + "\n")

        session.start(
            session.server(
                "redis",
                [self.program("redis-server"), str(configuration)],
                ready=lambda: _answers(port, options.password, ca),
            )
        )
        credentials = (
            f":{urllib.parse.quote(options.password, safe='')}@" if options.password else ""
        )
        reached["url"] = f"{'rediss' if options.tls else 'redis'}://{credentials}127.0.0.1:{port}/0"
        if options.password:
            reached["password"] = options.password
        return reached

    def smoke(self) -> None:
        variants: tuple[list[str], ...] = (
            [],
            ["--password", "open sesame"],
            ["--tls", "--password", "secret"],
            ["--appendonly"],
        )
        for arguments in variants:
            with Session("redis") as session:
                reached = self.start(session, self.default_options(*arguments))
                cli = [self.program("redis-cli"), "-h", reached["host"], "-p", str(reached["port"])]
                if "ca" in reached:
                    cli += ["--tls", "--cacert", reached["ca"]]
                if "password" in reached:
                    refused = run([*cli, "GET", "key"])
                    check(
                        "NOAUTH" in refused, f"redis {arguments}: no password, and yet: {refused}"
                    )
                    cli += ["--no-auth-warning", "-a", reached["password"]]
                run([*cli, "SET", "key", "value"])
                got = run([*cli, "GET", "key"])
                check(got == "value\n", f"redis {arguments}: GET gave {got!r}")


def _answers(port: int, password: str | None, ca: Path | None) -> bool:
    """Whether it answers PING with PONG: not while it loads its data."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            connection = plain
            if ca is not None:
                connection = ssl.create_default_context(cafile=str(ca)).wrap_socket(
                    plain, server_hostname="localhost"
                )
            if password:
                word = password.encode()
                connection.sendall(b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n" % (len(word), word))
                if not connection.recv(100).startswith(b"+OK"):
                    return False
            connection.sendall(b"PING\r\n")
            return connection.recv(100).startswith(b"+PONG")
    except OSError:
        return False
