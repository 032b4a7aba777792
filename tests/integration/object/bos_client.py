"""Uses a bucket of the BOS stand-in through the official SDK, a client that is not ours.

    bos_client.py ENDPOINT ACCESS_KEY SECRET_KEY BUCKET

Reads "ours", writes "theirs/图 1", lists, deletes "old" and uploads "parts" in two parts; prints what
it saw as JSON. Runs in the environment of the peer `bce-sdk`.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from baidubce.auth.bce_credentials import BceCredentials
from baidubce.bce_client_configuration import BceClientConfiguration
from baidubce.retry.retry_policy import NoRetryPolicy
from baidubce.services.bos.bos_client import BosClient


def main(endpoint: str, access_key: str, secret_key: str, bucket: str) -> dict[str, Any]:
    configuration = BceClientConfiguration(
        credentials=BceCredentials(access_key, secret_key),
        endpoint=endpoint,
        retry_policy=NoRetryPolicy(),
    )
    client = BosClient(configuration)
    ours = client.get_object(bucket, "ours")
    seen = {
        "ours": ours.data.read().decode(),
        "range": client.get_object(bucket, "ours", range=[2, 4]).data.read().decode(),
        "size": int(client.get_object_meta_data(bucket, "ours").metadata.content_length),
    }
    client.put_object_from_string(bucket, "theirs/图 1", "from the SDK")
    client.delete_object(bucket, "old")
    upload = client.initiate_multipart_upload(bucket, "parts").upload_id
    parts = []
    for number, text in enumerate((b"one, ", b"two"), 1):
        reply = client.upload_part(bucket, "parts", upload, number, len(text), io.BytesIO(text))
        parts.append({"partNumber": number, "eTag": reply.metadata.etag})
    client.complete_multipart_upload(bucket, "parts", upload, parts)
    seen["keys"] = [entry.key for entry in client.list_all_objects(bucket)]
    return seen


if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)
