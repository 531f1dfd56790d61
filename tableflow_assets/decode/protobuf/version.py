"""A version of a Protobuf subject, ready for decoding: plain data for Spark's workers."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tableflow_assets.decode.protobuf.shape import Struct

Indexes = tuple[int, ...]  # of a message in its file: its index at each level of nesting


@dataclass(frozen=True)
class Version:
    """One registered schema. Records of a version without the chosen message cannot be decoded."""

    schema_id: int
    descriptor_set: bytes
    indexes: Indexes | None
    shape: Struct | None


def pool_of(descriptor_set: bytes) -> DescriptorPool:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptor_set).file:
        pool.Add(file)
    return pool
