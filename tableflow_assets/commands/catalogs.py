"""Commands about the catalogs that tables are published to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.commands.show import console, json_option, print_json, print_table
from tableflow_assets.commands.topics import topics_argument
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.publish.publisher import Publisher
    from tableflow_assets.publish.status import CatalogStatus
    from tableflow_assets.settings.settings import Topic
    from tableflow_assets.tableflow import Tableflow

AT_ONCE = 8  # tables asked about in parallel


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def catalogs(context: click.Context, as_json: bool) -> None:
    """Where tables are shown, beside the catalog that owns them. Alone: how far each catalog is."""
    if context.invoked_subcommand is None:
        from tableflow_assets.tableflow import Tableflow

        tableflow = Tableflow(load_settings())
        statuses = _each(tableflow, (), lambda publisher, topic: publisher.look(topic))
        _show(statuses, as_json, owner=_owner(tableflow))


@catalogs.command()
@topics_argument
@json_option
def publish(topics: tuple[str, ...], as_json: bool) -> None:
    """Let the catalogs show the tables as they are now; exit 1 if one does not."""
    statuses = _each(
        _connected(), topics, lambda publisher, topic: publisher.publish(topic, patient=True)
    )
    _show(statuses, as_json)
    sys.exit(any(status.state == "failed" for status in statuses))


@catalogs.command()
@topics_argument
@click.option("--repair", is_flag=True, help="Publish again what is missing, behind or wrong.")
@json_option
def check(topics: tuple[str, ...], repair: bool, as_json: bool) -> None:
    """Compare what the catalogs say with the tables; exit 1 if anything differs."""
    tableflow = _connected()
    statuses = _each(tableflow, topics, lambda publisher, topic: publisher.look(topic))
    if repair and not all(map(_is_well, statuses)):
        _each(tableflow, topics, lambda publisher, topic: publisher.repair(topic))
        statuses = _each(tableflow, topics, lambda publisher, topic: publisher.look(topic))
    unwanted = [] if topics else tableflow.publisher.unwanted(tableflow.tables())
    _show(statuses, as_json, unwanted)
    sys.exit(not all(map(_is_well, statuses)) or bool(unwanted))


@catalogs.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def unpublish(yes: bool, as_json: bool) -> None:
    """Take out of the catalogs what the settings no longer want there. All data stays."""
    tableflow = _connected()
    for catalog in tableflow.publisher.catalogs:
        catalog.probe()  # an unreachable one would look as if it showed nothing
    unwanted = tableflow.publisher.unwanted(tableflow.tables())
    if unwanted and not yes:
        for status in unwanted:
            click.echo(f"{status.catalog}: {status.listed_as} (of {status.topic})", err=True)
        click.confirm("No longer show them there? Their data stays.", abort=True, err=True)
    for status in unwanted:
        tableflow.publisher.unpublish(status)
    if as_json:
        print_json([status.to_json() for status in unwanted])
    else:
        click.echo(f"{len(unwanted)} taken out")


def _connected() -> Tableflow:
    from tableflow_assets.tableflow import Tableflow

    settings = load_settings()
    if not settings.catalogs:
        raise SettingsError(
            "The settings name no catalog to publish to.",
            "Add one under `catalogs:` in tableflow.yaml; docs/catalogs.md shows how. The tables are"
            " in the catalog that owns them in any case: tableflow connect duckdb",
        )
    return Tableflow(settings)


def _owner(tableflow: Tableflow) -> list[object]:
    """The catalog that every commit goes to. It is never behind."""
    tables = tableflow.catalog.tables()
    return ["the owner", "rest", "connected" if tables else "pending", len(tables), 0, 0]


def _each(
    tableflow: Tableflow,
    topics: tuple[str, ...],
    act: Callable[[Publisher, Topic], list[CatalogStatus]],
) -> list[CatalogStatus]:
    publisher, tables = tableflow.publisher, tableflow.tables(topics)
    with ThreadPoolExecutor(AT_ONCE) as pool:  # most of the time goes into waiting for answers
        statuses_by_table = pool.map(lambda topic: act(publisher, topic), tables)
        return [status for statuses in statuses_by_table for status in statuses]


def _is_well(status: CatalogStatus) -> bool:
    """In step, or with nothing to show: no table yet, or none in a format that the catalog shows."""
    return status.is_in_step or (status.state == "pending" and not status.can_be_shown)


def _show(
    statuses: Sequence[CatalogStatus],
    as_json: bool,
    unwanted: Iterable[CatalogStatus] = (),
    owner: list[object] | None = None,
) -> None:
    of_catalogs = [*([owner] if owner else []), *_by_catalog(statuses)]
    if as_json:
        print_json(
            {
                "catalogs": [dict(zip(_COLUMNS, row, strict=True)) for row in of_catalogs],
                "tables": [status.to_json() for status in statuses],
                "unwanted": [status.to_json() for status in unwanted],
            }
        )
        return
    print_table("Catalogs", _COLUMNS, of_catalogs)
    rows = [
        [
            status.topic,
            status.catalog,
            status.state,
            status.listed_as,
            status.snapshot,
            status.behind,
            None if status.lag_seconds is None else f"{status.lag_seconds:.0f} s",
            "; ".join(f"{d.what}: {d.listed} → {d.wanted}" for d in status.differences if d.listed),
        ]
        for status in statuses
    ]
    columns = ["topic", "catalog", "state", "listed as", "snapshot", "behind", "lag", "differs"]
    if rows:
        print_table("Tables", columns, rows)
    for status in statuses:
        if status.state == "failed":
            problem = f"[red]{escape(status.topic)} in {escape(status.catalog)}[/]: {escape(status.reason)}"
            console.print(problem, highlight=False, soft_wrap=True)
            console.print(
                f"  Next step: {escape(status.next_step)}", highlight=False, soft_wrap=True
            )
    for status in unwanted:
        text = f"{status.catalog} still shows {status.listed_as}, which the settings do not want there."
        console.print(escape(text), highlight=False, soft_wrap=True)
        console.print("  Next step: tableflow catalogs unpublish", highlight=False)


_COLUMNS = ["catalog", "type", "state", "tables", "behind", "failed"]


def _by_catalog(statuses: Sequence[CatalogStatus]) -> list[list[object]]:
    from tableflow_assets.publish.status import state_of_all

    rows: list[list[object]] = []
    for name in dict.fromkeys(status.catalog for status in statuses):
        in_catalog = [status for status in statuses if status.catalog == name]
        connected = [status for status in in_catalog if status.state == "connected"]
        failures = [status for status in in_catalog if status.state == "failed"]
        behind = sum(1 for status in connected if status.behind)
        rows.append(
            [
                name,
                in_catalog[0].kind,
                state_of_all(in_catalog),
                len(connected),
                behind,
                len(failures),
            ]
        )
    return rows
