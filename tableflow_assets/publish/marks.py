"""What each catalog was last told, in the state folder: a hint that saves asking, and nothing more."""

from __future__ import annotations

from pathlib import Path

from tableflow_assets.base.files import replace_file


def mark_of(state_dir: Path, catalog: str, table: str) -> Path:
    return state_dir / "published" / catalog / table


def write_mark(mark: Path, metadata_location: str) -> None:
    replace_file(mark, metadata_location.encode())


def read_mark(mark: Path) -> str:
    try:
        return mark.read_text()
    except OSError:
        return ""


def last_told(state_dir: Path, table: str) -> set[str]:
    """The metadata files that other catalogs may be showing the table by."""
    marks = (state_dir / "published").glob(f"*/{table}")
    return {location for mark in marks if (location := read_mark(mark))}
