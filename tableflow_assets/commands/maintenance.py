"""`tableflow maintenance`: what the tables need, and the commands that do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tableflow_assets.base.faults import Outcomes
from tableflow_assets.commands.apart import Answer, each_table, leave
from tableflow_assets.commands.show import console, counted, json_option, print_json, print_table
from tableflow_assets.settings.settings import load_settings
from tableflow_assets.settings.values import age

if TYPE_CHECKING:
    from tableflow_assets.operate.maintenance.maintain import MaintenanceStep
    from tableflow_assets.table.handle import TableHandle

DEFAULT = "status"
ORPHANS_SHOWN = 20

topics_argument = click.argument("topics", nargs=-1)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
force_option = click.option("--force", is_flag=True, help="Also at an age that is not safe.")


class _Age(click.ParamType[timedelta]):
    name = "age"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        try:
            return value if isinstance(value, timedelta) else age(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _StatusByDefault(click.Group):
    """Topics right after `maintenance` belong to its `status`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_StatusByDefault)
def maintenance() -> None:
    """What the tables need (files merged, old snapshots removed), and doing it.

    `tableflow maintenance TOPIC` is short for `tableflow maintenance status TOPIC`. Without a topic,
    all of them.
    """


@maintenance.command()
@topics_argument
@json_option
def status(topics: tuple[str, ...], as_json: bool) -> None:
    """Each window's files, and what the table needs and why. Reads metadata only."""
    from tableflow_assets.operate.maintenance.health import health
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    outcomes = each_table(
        tableflow.tables(topics),
        lambda topic: topic.name,
        lambda topic: health(tableflow.catalog, topic),
        tableflow.settings.state_dir,
    )
    tables = outcomes.answers.values()
    if as_json:
        print_json([table.to_json() for table in tables])
        leave(len(tables), outcomes.failures)
    columns = ["window", "files", "small", "bytes", "rows", "dead rows", "delete files", "needs"]
    for table in tables:
        rows = [
            [
                *(window.name, window.files, window.small_files, window.bytes, window.rows),
                *(window.dead_rows, window.delete_files),
                window.why or ("being written" if window.is_newest else None),
            ]
            for window in (*table.windows, *([table.letters] if table.letters else ()))
        ]
        title = (
            f"{table.topic}: {counted(table.snapshots, 'snapshot')},"
            f" {counted(table.manifests, 'manifest')}"
        )
        print_table(title, columns, rows)
        if table.needs:
            print_table("Needs", ["what", "why"], [[need.kind, need.why] for need in table.needs])
        else:
            click.echo("It needs nothing.")
    leave(len(tables), outcomes.failures)


@maintenance.command()
@topics_argument
@click.option("--window", "windows", multiple=True, help="This one, as `status` names it.")
@click.option("--include-newest", is_flag=True, help="Also the window that is being written.")
@click.option(
    "--strategy", help="binpack, sort or zorder(a, b). Default: the topic's `compaction`."
)
@dry_run_option
@json_option
def compact(
    topics: tuple[str, ...],
    windows: tuple[str, ...],
    include_newest: bool,
    strategy: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write small files and dead rows anew, in the windows that need it."""
    from tableflow_assets.operate.maintenance.compact import compact as compact_table

    outcomes = _each(
        topics,
        lambda handle: compact_table(
            handle,
            strategy=strategy,
            windows=windows,
            include_newest=include_newest,
            dry_run=dry_run,
        ),
    )
    results = outcomes.answers.values()
    columns = ["topic", "windows", "strategy", "files before", "after", "bytes", "seconds"]
    rows = [
        [
            *(
                result.topic,
                _windows(result.windows, result.why),
                result.strategy,
                result.files_before,
            ),
            *(result.files_after, result.bytes, result.seconds),
        ]
        for result in results
    ]
    _show("Would be compacted" if dry_run else "Compacted", columns, rows, results, as_json)
    leave(len(results), outcomes.failures)


@maintenance.command()
@topics_argument
@click.option("--older-than", type=_Age(), help="Such as `5 days`. Default: `keep_snapshots`.")
@force_option
@dry_run_option
@json_option
def expire(
    topics: tuple[str, ...], older_than: timedelta | None, force: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove old snapshots, and the files that only they refer to."""
    from tableflow_assets.operate.maintenance.expire import expire as expire_snapshots

    outcomes = _each(
        topics,
        lambda handle: expire_snapshots(
            handle, older_than=older_than, dry_run=dry_run, force=force
        ),
    )
    results = outcomes.answers.values()
    columns = ["table", "before (UTC)", "snapshots", "tags", "data files", "metadata files"]
    rows = [
        [
            *(table.table, f"{result.before:%Y-%m-%d %H:%M:%S}", table.snapshots),
            *(" ".join(table.tags), table.data_files + table.delete_files, table.metadata_files),
        ]
        for result in results
        for table in result.tables
    ]
    _show("Would be expired" if dry_run else "Expired", columns, rows, results, as_json)
    leave(len(results), outcomes.failures)


@maintenance.command()
@topics_argument
@click.option("--older-than", type=_Age(), default="1 hour", show_default=True)
@force_option
@dry_run_option
@json_option
def metadata(
    topics: tuple[str, ...], older_than: timedelta, force: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove old versions of the metadata: every commit writes some, with all snapshots in each."""
    from tableflow_assets.operate.maintenance.old_metadata import remove_old_metadata

    outcomes = _each(
        topics,
        lambda handle: remove_old_metadata(
            handle, older_than=older_than, dry_run=dry_run, force=force
        ),
    )
    results = outcomes.answers.values()
    rows = [
        [result.topic, result.files, result.bytes, f"{result.before:%Y-%m-%d %H:%M:%S}"]
        for result in results
    ]
    title = "Would be removed" if dry_run else "Removed"
    _show(title, ["topic", "files", "bytes", "older than (UTC)"], rows, results, as_json)
    leave(len(results), outcomes.failures)


@maintenance.command()
@topics_argument
@click.option("--older-than", type=_Age(), default="3 days", show_default=True)
@force_option
@dry_run_option
@json_option
def orphans(
    topics: tuple[str, ...], older_than: timedelta, force: bool, dry_run: bool, as_json: bool
) -> None:
    """Remove files that belong to nothing: left by what was killed half-way."""
    from tableflow_assets.operate.maintenance.orphans import remove_orphans

    outcomes = _each(
        topics,
        lambda handle: remove_orphans(handle, older_than=older_than, dry_run=dry_run, force=force),
    )
    results = outcomes.answers.values()
    columns = ["topic", "files", "bytes", "older than (UTC)"]
    rows = [
        [result.topic, len(result.files), result.bytes, f"{result.before:%Y-%m-%d %H:%M:%S}"]
        for result in results
    ]
    _show("Would be removed" if dry_run else "Removed", columns, rows, results, as_json)
    for result in results if dry_run and not as_json else ():
        for file in result.files[:ORPHANS_SHOWN]:
            click.echo(f"{file.modified:%Y-%m-%d %H:%M:%S}  {file.file}")
        if len(result.files) > ORPHANS_SHOWN:
            click.echo(f"… and {len(result.files) - ORPHANS_SHOWN} more; --json lists all")
    leave(len(results), outcomes.failures)


@maintenance.command()
@topics_argument
@dry_run_option
@json_option
def manifests(topics: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Merge the manifests that many small commits have left."""
    from tableflow_assets.operate.maintenance.manifests import rewrite_manifests

    outcomes = _each(topics, lambda handle: rewrite_manifests(handle, dry_run=dry_run))
    results = outcomes.answers.values()
    rows = [[result.topic, result.before, result.after] for result in results]
    title = "Manifests" if dry_run else "Rewritten"
    _show(title, ["topic", "manifests before", "after"], rows, results, as_json)
    leave(len(results), outcomes.failures)


@maintenance.command()
@topics_argument
@dry_run_option
@json_option
def run(topics: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Do all that `status` says is needed; a step that fails stops no other."""
    from tableflow_assets.operate.maintenance.maintain import maintain

    def tell(topic: str) -> Callable[[MaintenanceStep], None]:
        def on_step(step: MaintenanceStep) -> None:
            if step.state == "begins" and not as_json:
                console.print(f"{topic}: {step.kind} ({step.why})", markup=False, highlight=False)

        return on_step

    outcomes = _each(
        topics, lambda handle: maintain(handle, dry_run=dry_run, on_step=tell(handle.spec.name))
    )
    results = outcomes.answers.values()
    columns = ["topic", "step", "state", "seconds", "why"]
    rows = [
        [result.topic, step.kind, step.state, step.seconds, step.error or step.why]
        for result in results
        for step in result.steps
    ]
    _show("Would be done" if dry_run else "Done", columns, rows, results, as_json)
    is_wrong = any(result.failed for result in results)
    leave(len(results), outcomes.failures, is_wrong=is_wrong)


def _each(names: tuple[str, ...], work: Callable[[TableHandle], Answer]) -> Outcomes[Answer]:
    """The work on the named tables, which must exist; without names, on all that do."""
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    existing = set(tableflow.catalog.tables())
    tables = [table for table in tableflow.tables(names) if names or table.table in existing]
    return each_table(
        tables,
        lambda table: table.name,
        lambda table: work(tableflow.handle(table)),
        tableflow.settings.state_dir,
    )


def _windows(names: Iterable[str], reasons: Iterable[str]) -> str:
    lines = [
        f"{name}: {reason}" if reason else name for name, reason in zip(names, reasons, strict=True)
    ]
    return "\n".join(lines)


def _show(
    title: str, columns: list[str], rows: list[list[Any]], results: Iterable[Any], as_json: bool
) -> None:
    if as_json:
        print_json([result.to_json() for result in results])
    elif rows:
        print_table(title, columns, rows)
    else:
        click.echo("There is nothing to do.")
