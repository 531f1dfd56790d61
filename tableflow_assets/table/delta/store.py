"""The folder of a table as the Delta log needs it: objects that can be written only if absent."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from tableflow_assets.base.errors import ServerUnreachable, StoreIgnoresConditions, TableflowError
from tableflow_assets.lake.storage import encryption_headers, s3_client
from tableflow_assets.lake.storage_faults import SERVER, storage_fault

if TYPE_CHECKING:
    from tableflow_assets.lake.storage import S3Connection

DELETED_AT_ONCE = 1000  # S3's limit for one request
_KEEPING_CONDITIONS: set[tuple[str, str]] = set()  # stores that were seen to: address and bucket


class Store(Protocol):
    """Names are relative to the table's folder, with slashes."""

    def read(self, name: str) -> bytes | None: ...

    def put(self, name: str, content: bytes) -> None: ...

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """False, and nothing is written, if it exists already."""

    def names(self, folder: str, after: str = "") -> list[str]:
        """In order: all names in the folder, or those after ``after``."""

    def sizes(self) -> dict[str, int]:
        """The size of everything in the table's folder, at any depth, by name."""

    def delete(self, names: Iterable[str]) -> None: ...


def store_at(location: str, connection: S3Connection) -> Store:
    address = urlsplit(location)
    if address.scheme in ("s3", "s3a", "s3n"):
        return S3Store(connection, address.netloc, address.path.strip("/") + "/")
    if address.scheme in ("", "file"):
        return FolderStore(Path(unquote(address.path)))
    raise TableflowError(
        f"The table is at {address.scheme}://…, where no Delta log can be kept.",
        "Set `formats: [iceberg]` for this topic.",
    )


class S3Store:
    def __init__(self, connection: S3Connection, bucket: str, prefix: str) -> None:
        self._connection, self._bucket, self._prefix = connection, bucket, prefix
        self._encryption = encryption_headers(connection)

    def read(self, name: str) -> bytes | None:
        with self._named_errors() as s3:
            try:
                return s3.get_object(**self._place(name))["Body"].read()  # type: ignore[no-any-return]
            except s3.exceptions.NoSuchKey:
                return None

    def put(self, name: str, content: bytes) -> None:
        with self._named_errors() as s3:
            s3.put_object(**self._place(name), Body=content, **self._encryption)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        self._refuse_to_be_ignored()
        return self._put_if_absent(name, content)

    def _refuse_to_be_ignored(self) -> None:
        """Some stores take the condition and ignore it: two writers would then both win."""
        place = (self._connection.address, self._bucket)
        if place in _KEEPING_CONDITIONS:
            return
        probe = f"_delta_log/.probe-{uuid.uuid4().hex}"
        try:
            self._put_if_absent(probe, b"first")
            is_ignored = self._put_if_absent(probe, b"second")
        finally:
            self.delete([probe])
        if is_ignored:
            raise StoreIgnoresConditions(
                f"The object store at {self._connection.address} ignores `If-None-Match` in the bucket"
                f" {self._bucket!r}: two writers of a Delta log could overwrite each other.",
                "Upgrade the store to a version that keeps it, or set `formats: [iceberg]`.",
            )
        _KEEPING_CONDITIONS.add(place)

    def _put_if_absent(self, name: str, content: bytes) -> bool:
        from botocore.exceptions import ClientError

        with self._named_errors() as s3:
            try:
                s3.put_object(
                    **self._place(name), Body=content, IfNoneMatch="*", **self._encryption
                )
            except ClientError as error:
                # 409: another writer is writing it at this moment.
                if error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412):
                    # It may be our own write, whose response was lost before the client retried.
                    return self.read(name) == content
                raise
        return True

    def names(self, folder: str, after: str = "") -> list[str]:
        start = {"StartAfter": f"{self._prefix}{folder}/{after}"} if after else {}
        return sorted(self._sizes_under(f"{folder}/", **start))

    def sizes(self) -> dict[str, int]:
        return self._sizes_under("")

    def _sizes_under(self, prefix: str, **options: str) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with self._named_errors() as s3:
            pages = s3.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix, **options
            )
            for page in pages:
                for item in page.get("Contents", ()):
                    sizes[item["Key"].removeprefix(self._prefix)] = item["Size"]
        return sizes

    def delete(self, names: Iterable[str]) -> None:
        doomed = [{"Key": self._prefix + name} for name in names]
        with self._named_errors() as s3:
            for begin in range(0, len(doomed), DELETED_AT_ONCE):
                batch = doomed[begin : begin + DELETED_AT_ONCE]
                s3.delete_objects(Bucket=self._bucket, Delete={"Objects": batch, "Quiet": True})

    def _place(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + name}

    @contextmanager
    def _named_errors(self) -> Iterator[Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield s3_client(self._connection)
        except ClientError as error:
            raise self._translated(error) from error
        except BotoCoreError as error:
            raise ServerUnreachable(SERVER, self._connection.address, str(error)) from error

    def _translated(self, error: Any) -> TableflowError:
        answer = error.response
        headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        text = f"{answer.get('Error', {}).get('Code', '')}: {error}"
        where, region = self._connection.address, self._connection.region
        fault = storage_fault(text, where, region, headers.get("x-amz-bucket-region", ""))
        return fault or ServerUnreachable(SERVER, where, str(error))


class FolderStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, name: str, content: bytes) -> None:
        with self._written_aside(name, content) as (temporary, final):
            temporary.replace(final)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        with self._written_aside(name, content) as (temporary, final):
            try:
                os.link(temporary, final)  # fails if it exists; a reader never sees half of it
            except FileExistsError:
                return False
        return True

    def names(self, folder: str, after: str = "") -> list[str]:
        paths = (self._folder / folder).glob("*")
        return sorted(
            f"{folder}/{path.name}"
            for path in paths
            if path.name > after and not path.name.startswith(".")
        )

    def sizes(self) -> dict[str, int]:
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return {file.relative_to(self._folder).as_posix(): file.stat().st_size for file in files}

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)

    @contextmanager
    def _written_aside(self, name: str, content: bytes) -> Iterator[tuple[Path, Path]]:
        final = self._folder / name
        final.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=final.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield Path(temporary), final
        finally:
            with suppress(FileNotFoundError):
                Path(temporary).unlink()
