"""Deletion vectors: which rows of a file no longer count, as the Delta protocol writes them.

Iceberg (v2) lists such rows in delete files, one for many data files. Delta wants one bitmap per data
file: we write those of a commit one after the other into one file.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import uuid
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from pyroaring import BitMap64

# Readers and cleaners of both formats ignore folders that begin with an underscore.
FOLDER = "_tableflow_vectors"
FILE_VERSION = b"\x01"
MAGIC = struct.pack("<I", 1681511377)

# Z85 is Python's base 85 with another alphabet.
_PYTHONS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85 = str.maketrans(_PYTHONS, _Z85)
_FROM_Z85 = str.maketrans(_Z85, _PYTHONS)
_UUID_LETTERS = 20

Descriptor = dict[str, Any]


def file_name(descriptor: Descriptor) -> str:
    """The file of a vector, relative to the table's folder."""
    text = descriptor["pathOrInlineDv"]
    folder, encoded = text[:-_UUID_LETTERS], text[-_UUID_LETTERS:]
    name = uuid.UUID(bytes=base64.b85decode(encoded.translate(_FROM_Z85)))
    return f"{folder}/deletion_vector_{name}.bin".lstrip("/")


def write_vectors(
    rows: Mapping[str, BitMap64], version: uuid.UUID
) -> tuple[str, bytes, dict[str, Descriptor]]:
    """The name and content of a file with all these vectors, and how each is referred to.

    ``version``: identifies the version of the log that refers to them. Different vectors for it, from a
    run that saw the table at another moment, get another name; the same ones, from a run that died, the
    same name.
    """
    content, descriptors = bytearray(FILE_VERSION), {}
    for path, deleted in sorted(rows.items()):
        data = MAGIC + deleted.serialize()
        descriptors[path] = {
            "storageType": "u",
            "offset": len(content),
            "sizeInBytes": len(data),
            "cardinality": len(deleted),
        }
        content += _framed(data)
    identity = uuid.uuid5(version, hashlib.sha256(content).hexdigest())
    place = FOLDER + base64.b85encode(identity.bytes).decode().translate(_TO_Z85)
    placed = {path: part | {"pathOrInlineDv": place} for path, part in descriptors.items()}
    return f"{FOLDER}/deletion_vector_{identity}.bin", bytes(content), placed


def read_vector(descriptor: Descriptor, read: Callable[[str], bytes | None]) -> BitMap64:
    """Raises ValueError for a vector that is missing or damaged."""
    if descriptor["storageType"] != "u":
        raise ValueError(f"a deletion vector of the kind {descriptor['storageType']!r} is not ours")
    name = file_name(descriptor)
    content = read(name)
    if content is None:
        raise ValueError(f"the deletion vectors {name} are missing")
    begin, size = descriptor.get("offset") or 0, descriptor["sizeInBytes"]
    framed = content[begin : begin + 4 + size + 4]
    data = framed[4:-4]
    if framed != _framed(data) or len(data) != size or data[:4] != MAGIC:
        raise ValueError(f"the deletion vector at {begin} of {name} is damaged")
    return BitMap64.deserialize(data[4:])


def _framed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
