"""Refusals of object stores as errors that say what to change.

Four clients word the same refusal differently: boto3, Arrow, delta-rs, and Iceberg in Spark.
"""

from __future__ import annotations

import re

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import AccessRefused

SERVER = "The object store"
_REGIONS = (
    r"expecting '([a-z0-9-]+)'",  # AuthorizationHeaderMalformed
    r"bucket is (?:located )?in (?:this region: )?'?([a-z]{2}[a-z-]*-\d)",  # Arrow, AWS's Java client
    r"<Region>([a-z0-9-]+)</Region>",
)
_ELSEWHERE = (
    r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint"
    r"|while the bucket is located in|(?i:redirect without location)|Status Code: 301|status 301\b"
)
# Pattern of the message, what it means, and what to do about it. The first match counts.
_ANSWERS = (
    (
        r"ExpiredToken|RequestExpired|TokenRefreshRequired|InvalidToken",
        "the session's keys have expired",
        "New ones are requested: run again. If it persists, renew them where the settings say.",
    ),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|INVALID_ACCESS_KEY_ID|INVALID_SIGNATURE",
        "it does not know the keys",
        "Correct `access_key` and `secret_key` of `warehouse:` where tableflow.yaml says that they are,"
        " or this machine's own AWS credentials. Keys that were just changed: run again.",
    ),
    (
        r"NoSuchBucket|NO_SUCH_BUCKET|(?i:specified bucket does not exist)",
        "there is no such bucket",
        "Create the bucket, or correct `warehouse.location` or the topic's `location`.",
    ),
    (
        r"KMS\.\w+|kms:(?:GenerateDataKey|Decrypt)|KMSInvalid\w*",
        "the KMS key cannot be used",
        "Allow kms:GenerateDataKey and kms:Decrypt on the key of `warehouse.sse.kms_key`; it has to be"
        " in the bucket's region.",
    ),
    (
        r"AccessDenied|ACCESS_DENIED|Access Denied|Status Code: 403|403 Forbidden",
        "it denies us access",
        "Allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on the objects"
        " under the tables' location, and s3:ListBucket on the bucket.",
    ),
)


def storage_fault(
    text: str, address: str, region: str = "", real_region: str = ""
) -> AccessRefused | None:
    """None: not a refusal that somebody has to grant or change something for.

    ``region``: the one in our settings; ``real_region``: the bucket's, if the response's headers have it.
    """
    regions = [match[1] for pattern in _REGIONS if (match := re.search(pattern, text))]
    real = real_region or (regions[0] if regions else "")
    if re.search(_ELSEWHERE, text) or (real and region and real != region):
        return _elsewhere(address, region, real)
    for answer, meaning, step in _ANSWERS:
        if re.search(answer, text):
            secrets.forget()  # a secret of ours may have changed since it was read
            return AccessRefused(SERVER, address, meaning, step)
    return None


def _elsewhere(address: str, region: str, real: str) -> AccessRefused:
    ours = f", and we asked in {region}" if region else ""
    place = f"the bucket is in {real}{ours}" if real else f"the bucket is in another region{ours}"
    step = (
        f"Set `region: {real or '<the region of the bucket>'}` under `warehouse:` in tableflow.yaml, and"
        " for the Spark server as well: `docs/storage.md` has its properties. One warehouse is of one"
        " region: a topic's own `location` has to be in it, too."
    )
    return AccessRefused(SERVER, address, place, step)
