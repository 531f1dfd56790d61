"""Runs Protobuf's own compiler, in a process of its own so that no source can crash ours.

A run takes less than a tenth of a second, nearly all of it Python's start.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from tableflow_assets.base.errors import UnsupportedSchema

_LONGEST_SECONDS = 60
_MOST_ERRORS = 3  # after one mistake the compiler complains about everything that follows
_ERROR = re.compile(r".+?\.proto:(\d+:\d+:)? (?!warning: ).+")


def compiled(names: Iterable[str], texts: Mapping[str, str]) -> dict[str, FileDescriptorProto]:
    """The named files and all that they import, by import path."""
    with TemporaryDirectory(prefix="tableflow-proto-") as folder:
        sources = Path(folder) / "sources"
        sources.mkdir()
        _write(texts, sources)
        _run([f"./{name}" for name in names], sources)
        content = (sources.parent / "compiled").read_bytes()
    return {file.name: file for file in FileDescriptorSet.FromString(content).file}


def uncompilable(reason: str) -> UnsupportedSchema:
    return UnsupportedSchema(
        f"The Protobuf schema does not compile: {reason}.",
        "Register a corrected version, or leave the topic out of tableflow.yaml.",
    )


def _run(names: list[str], sources: Path) -> None:
    # Without -P, Python would import modules from the folder with the sources. All paths are relative,
    # so that no error message contains a path of this machine.
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "--proto_path=."]
    command += ["--include_imports", "--include_source_info", "--descriptor_set_out=../compiled"]
    try:
        result = subprocess.run(
            [*command, *names],
            cwd=sources,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise uncompilable(f"the compiler needs more than {_LONGEST_SECONDS} seconds") from None
    if result.returncode:
        reason = _errors(result.stderr) or f"the compiler ended with {result.returncode}"
        raise uncompilable(reason)


def _errors(output: str) -> str:
    errors = [line for line in output.splitlines() if _ERROR.fullmatch(line)]
    return "; ".join(error.rstrip(".") for error in errors[:_MOST_ERRORS])


def _write(texts: Mapping[str, str], folder: Path) -> None:
    for name, text in texts.items():
        if not _stays_inside(name):
            raise uncompilable(f"{name!r} is not a path that a .proto file can be imported by")
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except (OSError, UnicodeEncodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not valid text"
            raise uncompilable(f"{name!r} cannot be written: {reason}") from None


def _stays_inside(name: str) -> bool:
    parts = name.split("/")
    return name.isprintable() and "\\" not in name and not {"", ".", ".."} & set(parts)
