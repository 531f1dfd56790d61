"""Checkpoints of a Delta log, so that a reader need not read it from the beginning."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from tableflow_assets.lake.storage import S3Connection, with_keys
from tableflow_assets.table.delta.shortcuts import write_shortcuts
from tableflow_assets.table.delta.store import store_at

# In versions. A checkpoint costs in proportion to the number of files: so it is written less often where
# there are many, but often enough that a reader has few versions to read after it.
EVERY, SELDOM = 20, 100
FILES_A_VERSION = 100
logger = logging.getLogger(__name__)


def is_due(version: int, files: int) -> bool:
    every = min(max(EVERY, files // FILES_A_VERSION), SELDOM)
    return version > 0 and version % every == 0


def write_checkpoint(location: str, storage: S3Connection) -> bool:
    """False, with a warning, if it fails: the log is complete without it."""
    from deltalake import DeltaTable  # slow to import, and seldom needed
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(location, storage_options=storage_options(storage, location))
        table.create_checkpoint()
    except (DeltaError, OSError) as error:
        logger.warning("no checkpoint of the Delta log at %s: %s", location, error)
        return False
    try:
        write_shortcuts(store_at(location, storage), table.version())
    except Exception as error:
        logger.warning("no shortcuts to the checkpoint of the Delta log at %s: %s", location, error)
    return True


def storage_options(storage: S3Connection, location: str | None = None) -> dict[str, str]:
    """The object store in delta-rs' terms; the keys may expire, so ask again for each piece of work.

    ``location``: of the table. delta-rs has to be told where the bucket is part of the host's name.
    """
    storage = with_keys(storage)
    endpoint = _endpoint(storage, location)
    encryption = {"s3": "AES256", "kms": "aws:kms", None: None}
    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": storage.region,
        "AWS_ACCESS_KEY_ID": storage.access_key,
        "AWS_SECRET_ACCESS_KEY": storage.secret_key,
        "AWS_SESSION_TOKEN": storage.session_token,
        "AWS_ALLOW_HTTP": "true" if (storage.endpoint or "").startswith("http://") else None,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true" if endpoint != storage.endpoint else "false",
        "AWS_CONDITIONAL_PUT": "etag",
        "AWS_SERVER_SIDE_ENCRYPTION": encryption[storage.sse],
        "AWS_SSE_KMS_KEY_ID": storage.kms_key,
    }
    return {key: value for key, value in options.items() if value is not None}


def _endpoint(storage: S3Connection, location: str | None) -> str | None:
    if storage.endpoint is None or location is None or not storage.has_bucket_in_host:
        return storage.endpoint
    scheme, _, host = storage.endpoint.partition("://")
    return f"{scheme}://{urlsplit(location).netloc}.{host}"
