"""Deletion vectors: written as the protocol says, and read back only if they are whole."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from pyroaring import BitMap64

from tableflow_assets.table.delta.vectors import FOLDER, file_name, read_vector, write_vectors

VERSION = uuid.UUID(int=1)
ROWS = {
    "b.parquet": BitMap64([0]),
    "a.parquet": BitMap64([3, 2**33, 5]),
    "c.parquet": BitMap64(range(0, 200_000, 3)),
}


def test_each_file_gets_its_rows_back() -> None:
    name, content, descriptors = write_vectors(ROWS, VERSION)
    assert descriptors.keys() == ROWS.keys()
    for path, rows in ROWS.items():
        assert file_name(descriptors[path]) == name
        assert descriptors[path]["cardinality"] == len(rows)
        assert read_vector(descriptors[path], {name: content}.get) == rows


def test_the_same_vectors_have_the_same_name_and_others_another() -> None:
    name, content, _ = write_vectors(ROWS, VERSION)
    assert write_vectors(dict(reversed(ROWS.items())), VERSION)[:2] == (name, content)
    other_files = [
        write_vectors(ROWS | {"b.parquet": BitMap64([1])}, VERSION),
        write_vectors(ROWS, uuid.UUID(int=2)),
    ]
    assert len({name, *(other_file[0] for other_file in other_files)}) == 3
    assert name.startswith(f"{FOLDER}/deletion_vector_")


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: b"",
        lambda content: content[:3],
        lambda content: content[:-1],
        lambda content: bytes(len(content)),
        lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:],
        lambda content: content[1:],
        lambda content: None,
    ],
)
def test_a_damaged_file_is_told(damaged: Callable[[bytes], bytes | None]) -> None:
    name, content, descriptors = write_vectors({"a": BitMap64([7])}, VERSION)
    with pytest.raises(ValueError, match=r"(?:damaged|missing)"):
        read_vector(descriptors["a"], {name: damaged(content)}.get)


@pytest.mark.parametrize("change", [{"offset": 2}, {"sizeInBytes": 1}, {"storageType": "i"}])
def test_a_reference_that_does_not_fit_its_file_is_told(change: dict[str, object]) -> None:
    name, content, descriptors = write_vectors({"a": BitMap64([7])}, VERSION)
    with pytest.raises(ValueError, match=r"(?:damaged|not ours)"):
        read_vector(descriptors["a"] | change, {name: content}.get)
