"""A registered Protobuf schema and its references, compiled.

A registry returns either .proto source or the base64 of a compiled file (confluent-kafka's Python
serializer registers the latter), and each may import the other.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.protobuf import protoc as protobuf_protoc
from tableflow_assets.decode.protobuf.print import source_of
from tableflow_assets.decode.protobuf.protoc import uncompilable

_MOST_CACHED = 1000  # schemas: a registered one never changes
_OWN = "google/protobuf/"
_GOOGLE = re.compile(r"google/(protobuf|type)/([a-z0-9_]+)\.proto")
_CONFLUENT = {
    f"confluent/{name}.proto": f"confluent_kafka.schema_registry.confluent.{module}_pb2"
    for name, module in (("meta", "meta"), ("type/decimal", "type.decimal"))
}
_Files = dict[str, FileDescriptorProto]


def descriptors(text: str, references: Mapping[str, str]) -> bytes:
    """A serialized FileDescriptorSet: every file after those it imports, the schema's own last."""
    return _descriptors(text, tuple(references.items()))


@lru_cache(maxsize=_MOST_CACHED)
def _descriptors(text: str, reference_items: tuple[tuple[str, str], ...]) -> bytes:
    references = dict(reference_items)
    main = _unused_name(references)
    texts = {**references, main: text}
    files: _Files = {}
    sources: dict[str, str] = {}
    for name, content in texts.items():
        # Protobuf's own files come from the library: readers treat their types specially.
        if name.startswith(_OWN):
            continue
        if (file := _compiled_already(content)) is None:
            sources[name] = content
        else:
            files[name] = file
            file.name = name
    names = [main] if main in sources else list(sources)
    if names:
        files = _compile(names, sources, files) | files
    ordered = _with_imports(main, files)
    _refuse_broken(ordered)
    return bytes(FileDescriptorSet(file=ordered).SerializeToString())


def _unused_name(references: Mapping[str, str]) -> str:
    name = "schema.proto"
    while name in references:
        name = f"_{name}"
    return name


def _compiled_already(text: str) -> FileDescriptorProto | None:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compile(names: list[str], sources: Mapping[str, str], compiled: _Files) -> _Files:
    standard = _standard_imports(sources, compiled)
    texts = {name: source_of(file) for name, file in (standard | compiled).items()}
    files = protobuf_protoc.compiled(names, texts | dict(sources))
    return files | {name: file for name, file in standard.items() if name in files}


def _standard_imports(sources: Mapping[str, str], compiled: _Files) -> _Files:
    """Files of Google and Confluent that are imported without being among the references."""
    imported = {name for text in sources.values() for name in re.findall(r'"([^"\s]+)"', text)}
    imported |= {name for file in compiled.values() for name in file.dependency}
    standard: _Files = {}
    while imported:
        name = imported.pop()
        # The compiler has Protobuf's own.
        if name in sources or name in compiled or name in standard or name.startswith(_OWN):
            continue
        if file := _standard_file(name):
            standard[name] = file
            imported |= set(file.dependency)
    return standard


def _standard_file(name: str) -> FileDescriptorProto | None:
    match = _GOOGLE.fullmatch(name)
    module = f"google.{match[1]}.{match[2]}_pb2" if match else _CONFLUENT.get(name)
    if module is None:
        return None
    try:
        content = import_module(module).DESCRIPTOR.serialized_pb
    except ImportError:
        return None
    return FileDescriptorProto.FromString(content)


def _with_imports(main: str, files: _Files) -> list[FileDescriptorProto]:
    ordered: _Files = {}
    pending = [main]
    entered: set[str] = set()
    while pending:
        name = pending[-1]
        file = files.get(name) or _standard_file(name)
        if file is None:
            raise UnsupportedSchema(
                f"The Protobuf schema imports {name!r}, which is not among its references.",
                "Register the imported file, and name it in the schema's references.",
            )
        imports = [path for path in file.dependency if path not in ordered]
        if not imports:
            ordered[name] = file
            pending.pop()
        elif name in entered:
            raise uncompilable(f"{name!r} imports itself, or a file that imports it")
        else:
            entered.add(name)
            pending.extend(reversed(imports))
        while pending and pending[-1] in ordered:
            pending.pop()
    return list(ordered.values())


def _refuse_broken(files: list[FileDescriptorProto]) -> None:
    pool = DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
            pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        raise uncompilable(str(error)) from None
