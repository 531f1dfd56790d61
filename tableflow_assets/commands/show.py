"""What the commands print: tables for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress

WIDTH_OF_A_FILE = 160  # without a terminal there is no need to fold at 80 columns
console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON value, for machines.")


def print_json(value: object) -> None:
    click.echo(json.dumps(value, default=str))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        is_number = bool(rows) and isinstance(rows[0][index], int | float)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _cell(value: object) -> str | Text:
    if isinstance(value, Text):  # with a colour
        return value
    return "" if value is None else escape(str(value))


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def warn_of_products(names: Sequence[str]) -> None:
    if names:
        what = ", ".join(names)
        click.echo(f"These products are made of it and will be computed again: {what}.", err=True)


def progress_bar() -> Progress:
    """With the remaining time; on stderr, because stdout carries the result."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
