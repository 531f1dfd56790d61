"""Runs Protobuf's own compiler, in a process of its own: no source can take ours along.

A run costs less than a tenth of a second, nearly all of it the start of Python.
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
_MOST_ERRORS = 3  # one mistake in a schema makes the compiler complain of all that follows
_ERROR = re.compile(r".+?\.proto:(\d+:\d+:)? (?!warning: ).+")


def compiled(wanted: Iterable[str], texts: Mapping[str, str]) -> dict[str, FileDescriptorProto]:
    """The wanted files and all that they import, by the path that they are imported by."""
    with TemporaryDirectory(prefix="tableflow-proto-") as folder:
        sources = Path(folder) / "sources"
        sources.mkdir()
        _write(texts, sources)
        _run([f"./{name}" for name in wanted], sources)
        content = (sources.parent / "compiled").read_bytes()
    return {file.name: file for file in FileDescriptorSet.FromString(content).file}


def uncompilable(why: str) -> UnsupportedSchema:
    return UnsupportedSchema(
        f"The Protobuf schema does not compile: {why}.",
        "Register a corrected version, or leave the topic out of tableflow.yaml.",
    )


def _run(names: list[str], sources: Path) -> None:
    # -P: without it, Python would import modules from the folder with the sources. The compiler is
    # given no other path than this folder, so that none can be in what it says.
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "--proto_path=."]
    command += ["--include_imports", "--include_source_info", "--descriptor_set_out=../compiled"]
    try:
        done = subprocess.run(
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
    if done.returncode:
        raise uncompilable(_errors(done.stderr) or f"the compiler ended with {done.returncode}")


def _errors(said: str) -> str:
    found = [match for line in said.splitlines() if (match := _ERROR.fullmatch(line))]
    return "; ".join(each[0].rstrip(".") for each in found[:_MOST_ERRORS])


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
