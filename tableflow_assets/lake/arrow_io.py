"""pyiceberg's Arrow files, plus what they lack: a role's expiring keys, and encryption.

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
from pyiceberg.typedef import Properties

from tableflow_assets.lake.file_io import ROLE, S3_SCHEMES, SSE, s3_properties, storage_in
from tableflow_assets.lake.pyiceberg_fixes import mend
from tableflow_assets.lake.storage import S3Connection, encryption_headers, s3_client, with_keys


def arrow_files(properties: Properties) -> PyArrowFileIO:
    mend()  # whoever reads rows comes by here
    needs_ours = ROLE in properties or SSE in properties
    return StorageFileIO(properties) if needs_ours else PyArrowFileIO(properties)


class StorageFileIO(PyArrowFileIO):
    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self._find_stores_by_keys()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._find_stores_by_keys()

    def new_output(self, location: str) -> PyArrowFile:
        plain = super().new_output(location)
        if SSE not in self.properties or urlsplit(location).scheme not in S3_SCHEMES:
            return plain
        return EncryptedFile(plain, storage_in(self.properties))

    def _find_stores_by_keys(self) -> None:
        by_keys = lru_cache(maxsize=4)(self._store)

        def find(scheme: str, bucket: str | None) -> FileSystem:
            if ROLE not in self.properties:
                return by_keys(scheme, bucket, None)
            return by_keys(scheme, bucket, with_keys(storage_in(self.properties)))

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
