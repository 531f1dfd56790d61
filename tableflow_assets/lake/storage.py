"""The object store: how it is reached, and with which keys at this moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from ipaddress import ip_address
from threading import Lock
from typing import Any, Literal
from urllib.parse import urlsplit

from tableflow_assets.base import masking
from tableflow_assets.base.errors import AccessRefused, ServerUnreachable, TableflowError
from tableflow_assets.lake.roles import role_credentials

# A session is not thread-safe, and each thread would create a client of its own, at 0.1 s apiece.
_CREATING = Lock()


@dataclass(frozen=True)
class S3Connection:
    """Without keys: the machine's own. With a role: whatever the keys are, they only assume it."""

    warehouse: str
    region: str
    endpoint: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    path_style: bool = False
    session_token: str | None = field(default=None, repr=False)
    role_arn: str | None = None
    external_id: str | None = field(default=None, repr=False)
    sse: Literal["s3", "kms"] | None = None
    kms_key: str | None = None

    @property
    def address(self) -> str:
        return self.endpoint or f"AWS, region {self.region}"

    @property
    def has_bucket_in_host(self) -> bool:
        """`bucket.host/key`, and not `host/bucket/key`: as AWS wants it, and no bare IP address can."""
        host = urlsplit(self.endpoint or "").hostname or "s3.amazonaws.com"
        return not self.path_style and not _is_ip(host)


def with_keys(storage: S3Connection) -> S3Connection:
    """The same with the keys of this moment, for those who cannot find or renew them by themselves.

    They are good for some ten minutes at least: whoever works longer asks again.
    """
    if storage.role_arn is None and storage.access_key is not None:
        return storage
    found = session_of(storage).get_credentials()
    if found is None:
        return storage
    keys = found.get_frozen_credentials()
    masking.remember(keys.secret_key)
    return replace(
        storage,
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        session_token=masking.remember(keys.token) if keys.token else None,
        role_arn=None,
        external_id=None,
    )


def s3_client(storage: S3Connection) -> Any:
    """For our own requests; renews the keys of a role by itself."""
    return _s3_client(replace(storage, warehouse="", sse=None, kms_key=None))


@lru_cache(maxsize=8)
def _s3_client(storage: S3Connection) -> Any:
    from botocore.config import Config

    config = Config(
        connect_timeout=5,
        read_timeout=20,
        retries={"mode": "standard", "total_max_attempts": 3},
        s3={"addressing_style": "path" if storage.path_style else "auto"},
    )
    with _CREATING:
        return session_of(storage).client("s3", endpoint_url=storage.endpoint, config=config)


def encryption_headers(storage: S3Connection) -> dict[str, str]:
    """What boto3 wants to be told with every object that is written."""
    if storage.sse is None:
        return {}
    if storage.sse == "s3":
        return {"ServerSideEncryption": "AES256"}
    key = {"SSEKMSKeyId": storage.kms_key} if storage.kms_key else {}
    return {"ServerSideEncryption": "aws:kms", **key}


def session_of(storage: S3Connection) -> Any:
    """One for all who are the same to AWS, so that a role is assumed once for them."""
    identity = replace(
        storage, warehouse="", endpoint=None, path_style=False, sse=None, kms_key=None
    )
    return _session(identity)


@lru_cache(maxsize=8)
def _session(storage: S3Connection) -> Any:
    import boto3  # takes a while to load, and most processes never need it
    from botocore.config import Config
    from botocore.session import get_session

    own = boto3.Session(
        aws_access_key_id=storage.access_key,
        aws_secret_access_key=storage.secret_key,
        aws_session_token=storage.session_token,
        region_name=storage.region,
    )
    if storage.role_arn is None:
        return own
    patience = Config(
        connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3}
    )
    core = get_session()
    core._credentials = role_credentials(  # botocore has no public way to say it
        lambda: own,
        storage.role_arn,
        storage.external_id,
        patience,
        partial(_why_not_assumed, storage),
    )
    return boto3.Session(botocore_session=core, region_name=storage.region)


def _why_not_assumed(storage: S3Connection, error: Exception) -> TableflowError:
    from botocore.exceptions import ClientError

    where = f"region {storage.region}"
    if not isinstance(error, ClientError):
        return ServerUnreachable("AWS STS", where, f"{type(error).__name__}: {error}")
    code = error.response.get("Error", {}).get("Code", "")
    return AccessRefused(
        "AWS STS",
        where,
        f"the role {storage.role_arn} cannot be assumed ({code})",
        f"Allow sts:AssumeRole on {storage.role_arn} to the identity that we run as, here and in"
        " the role's trust policy, with the same `external_id` in tableflow.yaml if it asks for"
        " one (condition sts:ExternalId).",
    )


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
