"""Protobuf messages as a producer has them: classes made by protoc, without any code of ours."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory
from typing import Any

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

INCLUDES = (
    str(Path(grpc_tools.__file__).parent / "_proto"),
    sysconfig.get_paths()["purelib"],  # googleapis-common-protos brings google/type
)


def message_class(source: str, name: str) -> type[Any]:
    with TemporaryDirectory() as folder:
        file, compiled = Path(folder) / "everything.proto", Path(folder) / "compiled"
        file.write_text(source)
        includes = [f"-I{path}" for path in (folder, *INCLUDES)]
        out = ["--include_imports", f"--descriptor_set_out={compiled}", str(file)]
        run([sys.executable, "-m", "grpc_tools.protoc", *includes, *out], check=True)
        files = FileDescriptorSet.FromString(compiled.read_bytes()).file
    pool = DescriptorPool()
    for descriptor in files:
        pool.Add(descriptor)
    return GetMessageClass(pool.FindMessageTypeByName(name))
