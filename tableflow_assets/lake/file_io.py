"""pyiceberg's file access: metadata by our own S3 client, everything else by Arrow.

Most processes read a few manifests and no row. Arrow takes longer to load than they take to read those, and
asks for a file's size before it reads it.
"""

from __future__ import annotations

import io
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table
from pyiceberg.typedef import Properties

from tableflow_assets.lake.storage import S3Connection, s3_client

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyiceberg.io.pyarrow import PyArrowFileIO

IMPLEMENTATION = "py-io-impl"
ROLE, EXTERNAL_ID = "tableflow.role-arn", "tableflow.external-id"
SSE, KMS_KEY = "tableflow.sse", "tableflow.kms-key"
PATH_STYLE = "tableflow.path-style"
S3_SCHEMES = ("s3", "s3a", "s3n")
METADATA = (".avro", ".json")  # small files, always read as a whole


def s3_properties(storage: S3Connection) -> dict[str, str]:
    """The object store as properties of pyiceberg."""
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
        IMPLEMENTATION: f"{__name__}.{LakeFileIO.__name__}",
        ROLE: storage.role_arn,
        EXTERNAL_ID: storage.external_id,
        SSE: storage.sse,
        KMS_KEY: storage.kms_key,
        PATH_STYLE: "true" if storage.path_style else None,
    }
    return {key: value for key, value in properties.items() if value is not None}


class LakeFileIO(FileIO):
    def new_input(self, location: str) -> InputFile:
        if urlsplit(location).scheme in S3_SCHEMES and location.endswith(METADATA):
            return _MetadataFile(location, storage_in(self.properties))
        return self.arrow.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return self.arrow.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.arrow.delete(location)

    @cached_property
    def arrow(self) -> PyArrowFileIO:
        from tableflow_assets.lake.arrow_io import arrow_files

        return arrow_files(self.properties)


class _MetadataFile(InputFile):
    def __init__(self, location: str, storage: S3Connection) -> None:
        super().__init__(location)
        self._storage = storage

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        try:
            self._read()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> io.BytesIO:
        return io.BytesIO(self._read())

    def _read(self) -> bytes:
        from botocore.exceptions import BotoCoreError, ClientError

        place = urlsplit(self.location)
        # Not `place.path`: a key may contain what is a query or a fragment in other URLs.
        key = self.location.partition(f"{place.netloc}/")[2]
        s3 = s3_client(self._storage)
        try:
            answer = s3.get_object(Bucket=place.netloc, Key=key)
            return answer["Body"].read()  # type: ignore[no-any-return]
        except s3.exceptions.NoSuchKey as error:
            raise FileNotFoundError(self.location) from error
        except (ClientError, BotoCoreError) as error:
            raise OSError(f"{self.location}: {error}") from error  # as Arrow would


def arrow_store(table: Table) -> FileSystem:
    """The store that holds the table's files, for listing them."""
    from tableflow_assets.lake.arrow_io import arrow_files

    files = table.io.arrow if isinstance(table.io, LakeFileIO) else arrow_files(table.io.properties)
    scheme, bucket, _ = files.parse_location(table.location())
    return files.fs_by_scheme(scheme, bucket)


def storage_in(properties: Properties) -> S3Connection:
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
