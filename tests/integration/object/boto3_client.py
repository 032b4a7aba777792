"""Uses a bucket through boto3, a client that is not ours.

    boto3_client.py ACTION BUCKET [ARGUMENT...]

What an action has to tell is printed as one JSON value. The server and its keys come from the
environment: S3_ENDPOINT, S3_ACCESS_KEY, S3_SECRET_KEY.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from typing import Any

import boto3
import botocore.config

_COMMON: dict[str, Any] = {
    "endpoint_url": os.environ["S3_ENDPOINT"],
    "aws_access_key_id": os.environ["S3_ACCESS_KEY"],
    "aws_secret_access_key": os.environ["S3_SECRET_KEY"],
    "region_name": "us-east-1",
    "config": botocore.config.Config(proxies={}),
}


def read(bucket: str, *names: str) -> Any:
    """Size, digest and metadata of objects."""
    client = boto3.client("s3", **_COMMON)
    seen = []
    for key in names:
        got = client.get_object(Bucket=bucket, Key=key)
        body = got["Body"].read()
        seen.append(
            {
                "size": len(body),
                "sha256": hashlib.sha256(body).hexdigest(),
                "metadata": got["Metadata"],
                "etag": got["ETag"].strip('"'),
            }
        )
    return seen


def write(bucket: str, key: str, content: str, crc32c: str = "") -> Any:
    """An object with the given (base64) content and, perhaps, the official client's checksum."""
    metadata = {"Crc32c": crc32c} if crc32c else {}
    boto3.client("s3", **_COMMON).put_object(
        Bucket=bucket, Key=key, Body=base64.b64decode(content), Metadata=metadata
    )
    return None


def keys(bucket: str) -> Any:
    """All keys, in the server's order."""
    pages = boto3.client("s3", **_COMMON).get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def uploads(bucket: str) -> Any:
    """Keys of uploads that were neither completed nor aborted."""
    listing = boto3.client("s3", **_COMMON).list_multipart_uploads(Bucket=bucket)
    return [upload["Key"] for upload in listing.get("Uploads", [])]


def publish(bucket: str) -> Any:
    """Lets everybody read and list the bucket."""
    statement = [
        {
            "Effect": "Allow",
            "Principal": {"AWS": ["*"]},
            "Action": ["s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{bucket}/*"],
        },
        {
            "Effect": "Allow",
            "Principal": {"AWS": ["*"]},
            "Action": ["s3:ListBucket"],
            "Resource": [f"arn:aws:s3:::{bucket}"],
        },
    ]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statement})
    boto3.client("s3", **_COMMON).put_bucket_policy(Bucket=bucket, Policy=policy)
    return None


def session(_bucket: str) -> Any:
    """Keys for an hour, with a session token."""
    reply = boto3.client("sts", **_COMMON).assume_role(
        RoleArn="arn:x:ignored:by:minio:", RoleSessionName="ignored", DurationSeconds=3600
    )["Credentials"]
    return [reply["AccessKeyId"], reply["SecretAccessKey"], reply["SessionToken"]]


_ACTIONS = {f.__name__: f for f in (read, write, keys, uploads, publish, session)}

if __name__ == "__main__":
    json.dump(_ACTIONS[sys.argv[1]](*sys.argv[2:]), sys.stdout)
