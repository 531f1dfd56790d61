"""One topic's fault is never another's: work on many tables, each apart from the others."""

from __future__ import annotations

import hashlib
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from tableflow_assets.base.errors import (
    ServerUnreachable,
    StackError,
    TableflowError,
    Unforeseen,
)
from tableflow_assets.base.masking import masked

Item = TypeVar("Item")
Answer = TypeVar("Answer")
# Without these servers, nothing can be said about any table.
OF_ALL = (ServerUnreachable, StackError)
logger = logging.getLogger(__name__)


@contextmanager
def named_faults(
    name: str, state_dir: Path | None, foreseen: type[Exception] = TableflowError
) -> Iterator[None]:
    """Makes an exception that nobody foresaw an error that names its table, and logs the traceback.

    ``foreseen``: passes as it is, beside errors of our own.
    """
    try:
        yield
    except (TableflowError, foreseen):
        raise
    except Exception as error:
        raise Unforeseen(name, error, _logged(name, error, state_dir)) from error


@dataclass(frozen=True)
class Outcomes(Generic[Answer]):
    """By the table's name, in the order of the work: what came of it, or why nothing did."""

    answers: dict[str, Answer] = field(default_factory=dict)
    failures: dict[str, TableflowError] = field(default_factory=dict)


def each_apart(
    items: Iterable[Item],
    name_of: Callable[[Item], str],
    work: Callable[[Item], Answer],
    state_dir: Path,
) -> Outcomes[Answer]:
    """The work on every item, whatever becomes of the others."""
    outcomes: Outcomes[Answer] = Outcomes()
    for item in items:
        name = name_of(item)
        try:
            with named_faults(name, state_dir):
                outcomes.answers[name] = work(item)
        except OF_ALL:
            raise
        except TableflowError as error:
            outcomes.failures[name] = error
    return outcomes


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100]


def _logged(name: str, error: Exception, state_dir: Path | None) -> Path | None:
    """The file with the traceback; None where it could not be written."""
    text = masked("".join(traceback.format_exception(error)))
    logger.error("%s: %s", name, text)
    if state_dir is None:
        return None
    # Called after the fault: a sensor meets the same one every few seconds.
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    file = state_dir / "logs" / f"fault-{_file_name(name)}-{digest}.log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{datetime.now(UTC).isoformat(timespec='seconds')} {name}\n{text}")
    except OSError as failure:
        logger.warning("%s could not be written: %s", file, failure)
        return None
    return file
