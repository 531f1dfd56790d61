"""`tableflow soak`: many small commits to one table, and what becomes of it."""

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
    from tableflow_assets.bench.soak_run import Report

PANEL_HEIGHT = 300  # of the chart, in pixels


@click.command()
@click.option("--commits", type=click.IntRange(min=1), default=500, show_default=True)
@click.option(
    "--records", type=click.IntRange(min=1), default=200, show_default=True, help="Of a commit."
)
@click.option(
    "--maintain-every",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Commits between two rounds of maintenance.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of its servers, which is kept. Default: a temporary one.",
)
@click.option(
    "--chart",
    "chart_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Draw files and query times over the commits, as SVG.",
)
@json_option
def soak(
    commits: int,
    records: int,
    maintain_every: int,
    state: Path | None,
    chart_file: Path | None,
    as_json: bool,
) -> None:
    """Many small commits on servers of its own; exit 1 if files pile up or queries become slow."""
    with own_folder(state, "tableflow-soak-", "the servers") as folder:
        with interrupted_once(), progress_bar() as progress:
            task = progress.add_task("starting the servers", total=commits)
            report = run_soak(
                folder.path,
                (commits, records, maintain_every),
                lambda number: progress.update(task, description="commits", completed=number),
            )
        folder.is_done_with = report.ok
    if chart_file:
        chart_file.write_text(drawn(report))
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    sys.exit(0 if report.ok else 1)


def run_soak(
    folder: Path, numbers: tuple[int, int, int], on_commit: Callable[[int], None]
) -> Report:
    """On servers of its own, which are stopped afterwards no matter what happens."""
    from tableflow_assets.bench.soak_run import Soak
    from tableflow_assets.stack.stack import Stack
    from tableflow_assets.tableflow import Tableflow

    with Stack(folder):
        tableflow = Tableflow(Settings(state_dir=folder))
        report = Soak(tableflow, *numbers).run(on_commit)
        tableflow.close()
        return report


def drawn(report: Report) -> str:
    from tableflow_assets.query.charts import Line, Panel, draw_lines

    points = report.points
    ends = (points[0].commits, points[-1].commits) if points else ()
    files = [
        Line("of the table", [(point.commits, point.files) for point in points]),
        Line("in the bucket", [(point.commits, point.listed) for point in points]),
        Line("bound", [(x, report.files_bound) for x in ends], dashed=True),
    ]
    times = [
        Line("Iceberg", [(point.commits, point.iceberg_ms) for point in points]),
        Line("Delta", [(point.commits, point.delta_ms) for point in points]),
        *(
            Line(f"{name}, written anew", [(x, milliseconds) for x in ends], dashed=True)
            for name, milliseconds in report.fresh_ms.items()
        ),
    ]
    panels = [Panel("Data files", files), Panel("A query by DuckDB, ms", times)]
    return draw_lines(panels, "commits", PANEL_HEIGHT)


def _print(report: Report) -> None:
    print_table(
        f"{report.commits} commits, {report.records} records",
        ["commits", "files", "in the bucket", "snapshots", "Iceberg, ms", "Delta, ms"],
        [
            [
                point.commits,
                point.files,
                point.listed,
                point.snapshots,
                point.iceberg_ms,
                point.delta_ms,
            ]
            for point in report.points
        ],
    )
    for name, ratio in report.ratios.items():
        end, fresh = report.end_ms[name], report.fresh_ms[name]
        text = f"{name}: {end} ms at the end, {fresh} ms written anew: {ratio} times as long"
        console.print(text, highlight=False)
    for problem in report.problems:
        console.print(f"[red]{escape(problem)}[/]", highlight=False)
    click.echo("All held." if report.ok else "FAILED.")
