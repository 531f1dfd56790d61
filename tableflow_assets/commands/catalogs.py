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

AT_ONCE = 8  # tables that are asked about


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def catalogs(context: click.Context, as_json: bool) -> None:
    """Where tables are shown, beside the catalog that owns them. Alone: how far each catalog is."""
    if context.invoked_subcommand is None:
        from tableflow_assets.tableflow import Tableflow

        tableflow = Tableflow(load_settings())
        found = _each(tableflow, (), lambda publisher, topic: publisher.look(topic))
        _show(found, as_json, owner=_owner(tableflow))


@catalogs.command()
@topics_argument
@json_option
def publish(topics: tuple[str, ...], as_json: bool) -> None:
    """Let the catalogs show the tables as they are now; exit 1 if one does not."""
    found = _each(
        _connected(), topics, lambda publisher, topic: publisher.publish(topic, patient=True)
    )
    _show(found, as_json)
    sys.exit(any(one.state == "failed" for one in found))


@catalogs.command()
@topics_argument
@click.option("--repair", is_flag=True, help="Publish again what is missing, behind or wrong.")
@json_option
def check(topics: tuple[str, ...], repair: bool, as_json: bool) -> None:
    """Compare what the catalogs say with the tables; exit 1 if anything differs."""
    tableflow = _connected()
    found = _each(tableflow, topics, lambda publisher, topic: publisher.look(topic))
    if repair and not all(map(_is_well, found)):
        _each(tableflow, topics, lambda publisher, topic: publisher.repair(topic))
        found = _each(tableflow, topics, lambda publisher, topic: publisher.look(topic))
    unwanted = [] if topics else tableflow.publisher.unwanted(tableflow.tables())
    _show(found, as_json, unwanted)
    sys.exit(not all(map(_is_well, found)) or bool(unwanted))


@catalogs.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def unpublish(yes: bool, as_json: bool) -> None:
    """Take out of the catalogs what the settings no longer want there. All data stays."""
    tableflow = _connected()
    for catalog in tableflow.publisher.catalogs:
        catalog.probe()  # else one that is away would look as if it showed nothing
    unwanted = tableflow.publisher.unwanted(tableflow.tables())
    if unwanted and not yes:
        for one in unwanted:
            click.echo(f"{one.catalog}: {one.listed_as} (of {one.topic})", err=True)
        click.confirm("No longer show them there? Their data stays.", abort=True, err=True)
    for one in unwanted:
        tableflow.publisher.unpublish(one)
    if as_json:
        print_json([one.to_json() for one in unwanted])
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
    publisher, chosen = tableflow.publisher, tableflow.tables(topics)
    with ThreadPoolExecutor(AT_ONCE) as pool:  # most of it is waiting for answers
        found = pool.map(lambda topic: act(publisher, topic), chosen)
        return [standing for standings in found for standing in standings]


def _is_well(standing: CatalogStatus) -> bool:
    """In step, or nothing to be in step with: no table yet, or none of its formats."""
    return standing.is_in_step or (standing.state == "pending" and not standing.can_be_shown)


def _show(
    found: Sequence[CatalogStatus],
    as_json: bool,
    unwanted: Iterable[CatalogStatus] = (),
    owner: list[object] | None = None,
) -> None:
    of_catalogs = [*([owner] if owner else []), *_by_catalog(found)]
    if as_json:
        print_json(
            {
                "catalogs": [dict(zip(_COLUMNS, row, strict=True)) for row in of_catalogs],
                "tables": [one.to_json() for one in found],
                "unwanted": [one.to_json() for one in unwanted],
            }
        )
        return
    print_table("Catalogs", _COLUMNS, of_catalogs)
    rows = [
        [
            one.topic,
            one.catalog,
            one.state,
            one.listed_as,
            one.snapshot,
            one.behind,
            None if one.lag_seconds is None else f"{one.lag_seconds:.0f} s",
            "; ".join(f"{d.what}: {d.listed} → {d.wanted}" for d in one.differences if d.listed),
        ]
        for one in found
    ]
    columns = ["topic", "catalog", "state", "listed as", "snapshot", "behind", "lag", "differs"]
    if rows:
        print_table("Tables", columns, rows)
    for one in found:
        if one.state == "failed":
            problem = f"[red]{escape(one.topic)} in {escape(one.catalog)}[/]: {escape(one.reason)}"
            console.print(problem, highlight=False, soft_wrap=True)
            console.print(f"  Next step: {escape(one.next_step)}", highlight=False, soft_wrap=True)
    for one in unwanted:
        text = f"{one.catalog} still shows {one.listed_as}, which the settings do not want there."
        console.print(escape(text), highlight=False, soft_wrap=True)
        console.print("  Next step: tableflow catalogs unpublish", highlight=False)


_COLUMNS = ["catalog", "type", "state", "tables", "behind", "failed"]


def _by_catalog(found: Sequence[CatalogStatus]) -> list[list[object]]:
    from tableflow_assets.publish.status import state_of_all

    rows: list[list[object]] = []
    for name in dict.fromkeys(one.catalog for one in found):
        its = [one for one in found if one.catalog == name]
        shown = [one for one in its if one.state == "connected"]
        failed = [one for one in its if one.state == "failed"]
        behind = sum(1 for one in shown if one.behind)
        rows.append([name, its[0].kind, state_of_all(its), len(shown), behind, len(failed)])
    return rows
