"""`tableflow repair`: what is wrong with a table or its mirror, fixed where possible."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tableflow_assets.commands.rebuild import windows_from_to
from tableflow_assets.commands.show import console, json_option, print_json
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.operate.repair import Repaired, RepairStep


@click.command()
@click.argument("topic")
@click.option(
    "--window", help="Of lost rows only this window's: 2026-11-16, or 2026-11-16-07:00 for an hour."
)
@click.option("--until", help="With --window: the last window of a range.")
@click.option("--dry-run", is_flag=True, help="Only show what is wrong, and what would be done.")
@json_option
def repair(topic: str, window: str | None, until: str | None, dry_run: bool, as_json: bool) -> None:
    """Mend a table and its Delta log where that loses nothing; exit 1 if something is left to decide.

    Rows whose files are gone are read from the log again. A Delta log that is damaged, or that others
    have written to, is made to say what the Iceberg table says.
    """
    from tableflow_assets.operate.repair import repair as repair_topic
    from tableflow_assets.operate.repair_windows import Span
    from tableflow_assets.tableflow import Tableflow

    if until and not window:
        raise click.UsageError("--until needs --window")
    tableflow = Tableflow(load_settings())
    pipeline = tableflow.pipeline(tableflow.topic(topic))
    only = Span(*windows_from_to(pipeline.topic, window, until or window)) if window else None

    def tell(step: RepairStep) -> None:
        if not as_json:
            _say(f"{step.problem}\n  {'Would do' if dry_run else 'Now'}: {step.remedy}")

    result = repair_topic(pipeline, only=only, run_id="cli", dry_run=dry_run, on_step=tell)
    if as_json:
        print_json(result.to_json())
    else:
        _show(result)
    sys.exit(0 if result.ok else 1)


def _show(result: Repaired) -> None:
    for problem in result.left:
        _say(f"{problem.problem}\n  Next step: {problem.next_step}")
    if not result.steps and not result.left:
        _say(f"{result.topic}: nothing is wrong.")
    elif not result.dry_run and result.steps:
        _say(f"{result.topic}: {len(result.steps)} repaired, {len(result.left)} left.")


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
