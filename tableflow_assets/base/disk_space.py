"""How much room the disk under the embedded store has left: a full one damages what lies on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tableflow_assets.base.errors import DiskAlmostFull

GB = 2**30


@dataclass(frozen=True)
class DiskSpace:
    """Of the file system that a folder is in. ``least``: bytes that must stay free."""

    folder: Path
    least: int

    def refuse_when_short(self) -> None:
        """Before something is begun that would write a lot."""
        if self._free < self.least:
            raise DiskAlmostFull(
                f"{self._left} Nothing is ingested while less than {_size(self.least)} are free.",
                "Make room there, or lower `min_free_disk` in tableflow.yaml. Ingestion then goes on by"
                " itself.",
            )

    @property
    def level(self) -> str:
        """What to say about ingestion, if anything: in time, that is from twice the least on."""
        free = self._free
        if free >= 2 * self.least:
            return ""
        return "stops" if free >= self.least else "has stopped"

    @property
    def warning(self) -> str:
        level = self.level
        if not level:
            return ""
        return f"{self._left} Ingestion {level} below {_size(self.least)} (`min_free_disk`)."

    @property
    def _free(self) -> int:
        # The folder may not be there yet; its file system is that of the one above.
        existing = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        return shutil.disk_usage(existing).free

    @property
    def _left(self) -> str:
        return f"The disk of {self.folder} has {_size(self._free)} left."


@dataclass
class DiskWatch:
    """Looked at again and again, it reports each change once."""

    disk: DiskSpace
    report: Callable[[str], None]
    _level: str = ""

    def look(self) -> None:
        level, before = self.disk.level, self._level
        self._level = level
        if level != before:
            self.report(self.disk.warning or "The disk has room again.")


def _size(number: int) -> str:
    return f"{number / GB:.1f} GB" if number >= GB else f"{number / 2**20:.0f} MB"
