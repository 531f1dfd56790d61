"""`tableflow mirror`: the Delta log, brought up to the Iceberg table or compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tableflow_assets.base.errors import SettingsError, TableflowError
from tableflow_assets.commands.apart import each_table, leave
from tableflow_assets.commands.show import (
    console,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tableflow_assets.table.delta.compare import Compared
    from tableflow_assets.tableflow import Tableflow


@click.command()
@click.argument("topics", nargs=-1, metavar="TOPIC...", required=True)
@click.option("--check", is_flag=True, help="Only compare both formats, file by file.")
@click.option("--rows", is_flag=True, help="Compare value by value, too: reads both tables.")
@json_option
def mirror(topics: tuple[str, ...], check: bool, rows: bool, as_json: bool) -> None:
    """Write what the Delta logs of tables do not show yet, or check them; exit 1 on any difference.

    Runs do the former by themselves, after every commit. `tableflow repair` mends what a check finds.
    """
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    tables, state_dir = tableflow.tables(topics), tableflow.settings.state_dir
    if check or rows:
        compared = each_table(
            tables, _name, lambda topic: _compare(tableflow, topic, rows), state_dir
        )
        comparisons = list(compared.answers.values())
        _show_compared(comparisons, as_json)
        is_wrong = not all(comparison.ok for comparison in comparisons)
        leave(len(comparisons), compared.failures, is_wrong=is_wrong)
    mirrored = each_table(tables, _name, lambda topic: _catch_up(tableflow, topic), state_dir)
    results = list(mirrored.answers.values())
    _show_mirrored(results, as_json)
    is_wrong = any(result["problem"] for result in results)
    leave(len(results), mirrored.failures, is_wrong=is_wrong)


def _name(topic: ManagedTable) -> str:
    return topic.name


def _mirrored_table(tableflow: Tableflow, topic: ManagedTable) -> Table:
    from tableflow_assets.table.formats import is_delta

    table = tableflow.existing_table(topic)
    if not is_delta(table):
        raise SettingsError(
            f"The table of {topic.name!r} is not kept as Delta.",
            "Add `delta` to its `formats` in tableflow.yaml; the next run writes the Delta log.",
        )
    return table


def _catch_up(tableflow: Tableflow, topic: ManagedTable) -> dict[str, Any]:
    from tableflow_assets.table.delta.lifecycle import mirror_status
    from tableflow_assets.table.delta.mirror import catch_up

    table = _mirrored_table(tableflow, topic)
    before, versions_written, problem = mirror_status(tableflow.catalog, table), 0, ""
    try:
        versions_written = catch_up(tableflow.catalog, table)
    except TableflowError as error:
        problem = str(error)
    after = mirror_status(tableflow.catalog, table)
    return {
        "topic": topic.name,
        "behind_before": before.behind,
        "versions_written": versions_written,
        "version": after.version,
        # As text: Iceberg's ids do not fit into JavaScript's numbers.
        "snapshot": None if after.snapshot is None else str(after.snapshot),
        "problem": problem,
    }


def _compare(tableflow: Tableflow, topic: ManagedTable, rows: bool) -> Compared:
    from tableflow_assets.table.delta.compare import compare
    from tableflow_assets.table.windows import rows_in

    table = _mirrored_table(tableflow, topic)
    with progress_bar() as progress:
        task = progress.add_task(topic.name, total=2 * rows_in(table), visible=rows)
        return compare(
            tableflow.catalog,
            table,
            rows=rows,
            on_read=lambda count: progress.advance(task, count),
        )


def _show_mirrored(results: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(results)
        return
    columns = ["topic", "behind_before", "versions_written", "version", "snapshot"]
    rows = [[result[name] for name in columns] for result in results]
    print_table("Delta logs", [name.replace("_", " ") for name in columns], rows)
    for result in results:
        if result["problem"]:
            _say(f"{result['topic']}: {result['problem']}")


def _show_compared(comparisons: list[Compared], as_json: bool) -> None:
    if as_json:
        print_json([comparison.to_json() for comparison in comparisons])
        return
    columns = ["topic", "snapshot", "version", "files", "rows", "deleted_rows", "rows_compared"]
    rows = [comparison.to_json() for comparison in comparisons]
    names = [name.replace("_", " ") for name in columns]
    print_table(
        "Iceberg against Delta",
        [*names, "findings"],
        [[*(row[name] for name in columns), len(row["findings"])] for row in rows],
    )
    for comparison in comparisons:
        for finding in comparison.findings:
            _say(f"{comparison.topic}, {finding.kind.replace('_', ' ')}: {finding.problem}")


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
