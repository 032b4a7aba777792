"""MinIO, an S3 server that checks signatures."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path
from typing import Any

from peerlib import loopback
from peerlib.base import PeerError, check, loopback_environment
from peerlib.certificates import Authority
from peerlib.golang import GoPeer
from peerlib.s3 import S3
from peerlib.session import Session

_REGION = "us-east-1"


class Minio(GoPeer):
    name = "minio"
    version = "RELEASE.2025-09-07T16-13-09Z"
    module = "minio"
    packages = {"minio": "github.com/minio/minio"}
    linker_flags = (
        "-s -w -X github.com/minio/minio/cmd.Version=2025-09-07T16:13:09Z"
        f" -X github.com/minio/minio/cmd.ReleaseTag={version}"
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--bucket", action="append", default=[], help="create it; repeatable")
        parser.add_argument(
            "--tls", action="store_true", help="https, with an authority of its own"
        )
        parser.add_argument(
            "--any-address",
            action="store_true",
            help="listen on all addresses, for clients in other network namespaces",
        )
        parser.add_argument(
            "--domain", help="also answer to BUCKET.DOMAIN, e.g. localhost (virtual hosts)"
        )

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        port = session.free_port()
        drive, certificates = session.data / "drive", session.data / "certs"
        drive.mkdir()
        certificates.mkdir()
        ca: Path | None = None
        if options.tls:
            authority = Authority(session.data / "pki", "minio-ca")
            pair = authority.server("minio-server")
            (certificates / "public.crt").write_bytes(pair.certificate.read_bytes())
            (certificates / "private.key").write_bytes(pair.key.read_bytes())
            ca = authority.certificate
        client = S3(port, "peer", secrets.token_hex(16), _REGION, ca)
        password = session.data / "root-password"
        password.write_text(client.secret_key)
        environment = {
            **loopback_environment(),
            "HOME": str(session.data),
            "MINIO_ROOT_USER": client.access_key,
            "MINIO_ROOT_PASSWORD_FILE": str(password),
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_PROMETHEUS_AUTH_TYPE": "public",  # anyone may see how many requests there were
        }
        if options.domain:
            environment["MINIO_DOMAIN"] = options.domain
        address = f"127.0.0.1:{port}"
        argv = [
            self.program("minio"),
            "server",
            "--address",
            f"0.0.0.0:{port}" if options.any_address else address,
            "--certs-dir",
            str(certificates),
            str(drive),
        ]
        session.start(session.server("minio", argv, lambda: _answers(client), environment))
        for bucket in options.bucket:
            status, body = client.request("PUT", f"/{bucket}")
            check(status == 200, f"minio: cannot create bucket {bucket}: {status} {body}")
        reached: dict[str, Any] = {
            "endpoint": f"{'https' if options.tls else 'http'}://{address}",
            "access_key": client.access_key,
            "secret_key": client.secret_key,
            "region": _REGION,
            "buckets": options.bucket,
        }
        if ca is not None:
            reached["ca"] = str(ca)
        return reached

    def smoke(self) -> None:
        for arguments in ([], ["--tls"]):
            with Session("minio") as session:
                _try(self.start(session, self.default_options("--bucket", "one", *arguments)))


def _try(reached: dict[str, Any]) -> None:
    """Uses the server through boto3."""
    try:
        import boto3
        import botocore.config
        import botocore.exceptions
    except ImportError as error:
        raise PeerError(f"minio: {error}; run tools/deps.sh, and use /usr/bin/python3") from error

    def client(secret: str) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=reached["endpoint"],
            aws_access_key_id=reached["access_key"],
            aws_secret_access_key=secret,
            region_name=reached["region"],
            verify=reached.get("ca"),
            config=botocore.config.Config(proxies={}, retries={"max_attempts": 1}),
        )

    s3 = client(reached["secret_key"])
    s3.create_bucket(Bucket="two")
    names = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    check(names == ["one", "two"], f"minio: buckets are {names}")
    s3.put_object(Bucket="one", Key="a/b", Body=b"content")
    got = s3.get_object(Bucket="one", Key="a/b")["Body"].read()
    check(got == b"content", f"minio: read {got!r}")
    try:
        client("wrong").list_buckets()
    except botocore.exceptions.ClientError as error:
        code = error.response["Error"]["Code"]
        check(code == "SignatureDoesNotMatch", f"minio: a wrong key gave {code}")
    else:
        raise PeerError("minio: accepted a wrong signature")


def _answers(client: S3) -> bool:
    try:
        # 403: somebody has changed the key before this start.
        return client.request("GET", "/")[0] in (200, 403)
    except loopback.ERRORS:
        return False
