"""The state folder of a command that starts its own servers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass
class OwnFolder:
    path: Path
    is_done_with: bool = False  # the run succeeded, so nobody needs its logs


@contextmanager
def own_folder(
    given: Path | None, prefix: str, logs_of: str, *, keep: bool = False
) -> Iterator[OwnFolder]:
    """The given folder, which stays; otherwise a temporary one, removed once it is done with."""
    folder = OwnFolder(given.absolute() if given else Path(tempfile.mkdtemp(prefix=prefix)))
    try:
        yield folder
    except KeyboardInterrupt:
        folder.is_done_with = True
        raise
    finally:
        if folder.is_done_with and not keep and given is None:
            shutil.rmtree(folder.path, ignore_errors=True)
        else:
            click.echo(f"The logs of {logs_of} are in {folder.path}", err=True)
