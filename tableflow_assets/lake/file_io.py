"""pyiceberg's file access, plus what it lacks: a role's expiring keys, and encryption.

Arrow's S3 client cannot request encryption at all, and pyiceberg cannot pass a role's external id. pyiceberg
only writes manifests (Spark writes the rows), so those go through our own client.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.typedef import Properties

from tableflow_assets.lake.storage import S3Connection, encryption_headers, s3_client, with_keys

IMPLEMENTATION = "py-io-impl"
ROLE, EXTERNAL_ID = "tableflow.role-arn", "tableflow.external-id"
SSE, KMS_KEY = "tableflow.sse", "tableflow.kms-key"
PATH_STYLE = "tableflow.path-style"


def s3_properties(storage: S3Connection) -> dict[str, str]:
    """The object store as properties of pyiceberg."""
    needs_ours = storage.role_arn is not None or storage.sse is not None
    properties = {
        "s3.endpoint": storage.endpoint,
        "s3.region": storage.region,
        "s3.access-key-id": storage.access_key,
        "s3.secret-access-key": storage.secret_key,
        "s3.session-token": storage.session_token,
        # With an endpoint, Arrow would otherwise put the bucket into the path.
        "s3.force-virtual-addressing": "true"
        if storage.endpoint and storage.has_bucket_in_host
        else None,
        IMPLEMENTATION: f"{__name__}.{StorageFileIO.__name__}" if needs_ours else None,
        ROLE: storage.role_arn,
        EXTERNAL_ID: storage.external_id,
        SSE: storage.sse,
        KMS_KEY: storage.kms_key,
        PATH_STYLE: "true" if storage.path_style else None,
    }
    return {key: value for key, value in properties.items() if value is not None}


def arrow_store(table: Table) -> FileSystem:
    """The store that holds the table's files, for listing them."""
    scheme, bucket, _ = PyArrowFileIO.parse_location(table.location())
    files = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
    return files.fs_by_scheme(scheme, bucket)


class StorageFileIO(PyArrowFileIO):
    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self._find_stores_by_keys()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._find_stores_by_keys()

    def new_output(self, location: str) -> PyArrowFile:
        plain = super().new_output(location)
        if SSE not in self.properties or urlsplit(location).scheme not in ("s3", "s3a", "s3n"):
            return plain
        return EncryptedFile(plain, _storage(self.properties))

    def _find_stores_by_keys(self) -> None:
        by_keys = lru_cache(maxsize=4)(self._store)

        def find(scheme: str, bucket: str | None) -> FileSystem:
            if ROLE not in self.properties:
                return by_keys(scheme, bucket, None)
            return by_keys(scheme, bucket, with_keys(_storage(self.properties)))

        self.fs_by_scheme = find

    def _store(self, scheme: str, bucket: str | None, storage: S3Connection | None) -> FileSystem:
        if storage is None:
            return self._initialize_fs(scheme, bucket)
        renewed = {**self.properties, **s3_properties(storage)}
        return PyArrowFileIO(renewed)._initialize_fs(scheme, bucket)


class EncryptedFile(PyArrowFile):
    def __init__(self, plain: PyArrowFile, storage: S3Connection) -> None:
        super().__init__(plain.location, plain._path, plain._filesystem, plain._buffer_size)
        self._storage = storage

    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        return _Upload(self._storage, self._path)


class _Upload(io.BytesIO):
    """Sent as a whole on close."""

    def __init__(self, storage: S3Connection, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path

    def close(self) -> None:
        if not self.closed:
            bucket, _, key = self._path.partition("/")
            content, headers = self.getvalue(), encryption_headers(self._storage)
            s3_client(self._storage).put_object(Bucket=bucket, Key=key, Body=content, **headers)
        super().close()


def _storage(properties: Properties) -> S3Connection:
    return S3Connection(
        warehouse="",
        region=properties["s3.region"],
        endpoint=properties.get("s3.endpoint"),
        access_key=properties.get("s3.access-key-id"),
        secret_key=properties.get("s3.secret-access-key"),
        session_token=properties.get("s3.session-token"),
        path_style=PATH_STYLE in properties,
        role_arn=properties.get(ROLE),
        external_id=properties.get(EXTERNAL_ID),
        sse=properties.get(SSE),
        kms_key=properties.get(KMS_KEY),
    )
