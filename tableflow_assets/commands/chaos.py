"""`tableflow chaos`: kill everything, again and again, and count what was lost or duplicated."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from tableflow_assets.commands.own_folder import own_folder
from tableflow_assets.commands.show import (
    console,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.commands.stack import interrupted_once
from tableflow_assets.settings.settings import Settings

if TYPE_CHECKING:
    from tableflow_assets.chaos.report import Fault, Report


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=24, show_default=True)
@click.option(
    "--faults",
    type=click.Choice(["all", "path", "maintenance"]),
    default="all",
    show_default=True,
    help="Of a record's way into its table; or of compaction, expiry and the Delta mirror.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same faults.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of its servers and logs, which is kept. Default: a temporary one.",
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder; a failure keeps it anyway.")
@json_option
def chaos(
    kills: int, faults: str, seed: int, state: Path | None, keep: bool, as_json: bool
) -> None:
    """Break runs and servers of a stack of its own; exit 1 if a record got lost or came twice."""
    with own_folder(state, "tableflow-chaos-", "servers and drivers", keep=keep) as folder:
        with interrupted_once(), progress_bar() as progress:
            task = progress.add_task("starting the servers", total=kills)
            report = run_chaos(
                folder.path,
                kills,
                seed,
                faults,
                lambda f: progress.update(task, description=f.kind, advance=1),
            )
        folder.is_done_with = report.ok
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    sys.exit(0 if report.ok else 1)


def run_chaos(
    folder: Path,
    kills: int,
    seed: int,
    faults: str,
    on_fault: Callable[[Fault], None] = lambda _: None,
) -> Report:
    """On servers of its own, which are stopped afterwards no matter what happens."""
    from tableflow_assets.chaos.harness import Harness
    from tableflow_assets.chaos.kinds import GROUPS, schedule
    from tableflow_assets.stack.stack import Stack

    with Stack(folder) as stack:
        settings = Settings(state_dir=folder)
        kinds = schedule(seed, kills, GROUPS[faults])
        return Harness(settings, folder, kinds, seed, stack=stack, on_fault=on_fault).run()


def _print(report: Report) -> None:
    columns = ["kind", "kills", "missing", "duplicated", "unexpected", "mirror", "hung"]
    rows = [[kind, *of.values()] for kind, of in report.by_kind().items()]
    findings = report.findings
    total = [
        findings.missing,
        findings.duplicated,
        findings.unexpected,
        findings.mirror,
        report.hung,
    ]
    print_table(f"Faults of seed {report.seed}", columns, [*rows, ["all", report.kills, *total]])
    for problem in report.problems:
        console.print(f"[red]{escape(problem)}[/]", highlight=False)
    for error, times in report.crashes.items():
        console.print(f"{times} x an error without a name: {escape(error)}", highlight=False)
    verdict = "All held" if report.ok else "FAILED"
    click.echo(f"{verdict}: {report.records} records, {report.seconds:.0f} s.")
