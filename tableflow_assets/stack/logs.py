"""The servers' logs stay bounded: of each, the newest part, and one older part beside it."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path

LARGEST_BYTES = 20_000_000
OLD_FAULTS_SECONDS = 30 * 24 * 3600
logger = logging.getLogger(__name__)


def trim_logs(folder: Path, now: float | None = None) -> None:
    """Never raises: a log that cannot be trimmed is no reason to end a server."""
    for log in sorted(folder.glob("*.log")):
        try:
            _trim(log, time.time() if now is None else now)
        except OSError as error:
            logger.warning("%s could not be trimmed: %s", log, error)


def _trim(log: Path, now: float) -> None:
    state = log.stat()
    if log.name.startswith("fault-"):  # written once, when something unforeseen happened
        if now - state.st_mtime > OLD_FAULTS_SECONDS:
            log.unlink()
    elif state.st_size > LARGEST_BYTES:
        # The server goes on writing to the file that it was given, at its end, wherever that is then.
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        with log.open("r+b") as file:
            file.truncate(0)
