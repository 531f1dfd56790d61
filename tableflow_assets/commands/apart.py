"""Commands over many tables: one that fails stops no other, and the last line says so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

import click

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import Outcomes, each_apart

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def each_table(
    items: Sequence[Item],
    name_of: Callable[[Item], str],
    work: Callable[[Item], Answer],
    state_dir: Path,
) -> Outcomes[Answer]:
    """The failure of the only one is the command's."""
    outcomes = each_apart(items, name_of, work, state_dir)
    if len(items) == 1:
        for failure in outcomes.failures.values():
            raise failure
    return outcomes


def leave(done: int, failures: Mapping[str, TableflowError], *, is_wrong: bool = False) -> NoReturn:
    """End the command, with exit code 1 if anything failed or ``is_wrong``."""
    for name, failure in failures.items():
        click.secho(f"{name}: {failure}", fg="red", err=True)
    if failures:
        reasons = "; ".join(
            f"{name} failed: {failure.problem}" for name, failure in failures.items()
        )
        total = done + len(failures)
        click.secho(f"{done} of {total} done; {reasons}", fg="red", err=True)
    sys.exit(1 if failures or is_wrong else 0)
