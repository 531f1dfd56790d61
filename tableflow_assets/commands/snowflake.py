"""`tableflow snowflake`: the SQL that publishing to Snowflake takes, shown or run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.commands.show import json_option, print_json
from tableflow_assets.commands.topics import topics_argument
from tableflow_assets.settings.settings import Settings, load_settings

if TYPE_CHECKING:
    from tableflow_assets.publish.snowflake.snowflake import SnowflakeCatalog

catalog_option = click.option(
    "--catalog", "name", metavar="NAME", help="Which one, where the settings have several."
)


@click.group()
def snowflake() -> None:
    """What Snowflake needs to show the tables: its SQL, to read or to run."""


@snowflake.command("sql")
@topics_argument
@catalog_option
@json_option
def show_sql(topics: tuple[str, ...], name: str | None, as_json: bool) -> None:
    """The SQL of the set-up, and of the tables of TOPICS. Asks Snowflake nothing, shows no secret."""
    from tableflow_assets.publish.snowflake import sql

    settings = load_settings()
    catalog = _catalog(settings, name)
    place = sql.TableName(*catalog.schema_of(settings.namespace), "")
    parts = {
        "set-up, once": sql.set_up(catalog.settings, place, sql.placeholder),
        "rights of the role that publishes": sql.grants(catalog.settings, place),
        **_of_tables(settings, catalog, topics),
    }
    if as_json:
        print_json({"catalog": catalog.name, "statements": parts})
        return
    for title, statements in parts.items():
        click.echo(f"-- {title}")
        click.echo("".join(f"{statement};\n" for statement in statements))


@snowflake.command()
@catalog_option
@click.option("--role", help="To run it as, where the role that publishes may not: ACCOUNTADMIN.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def apply(name: str | None, role: str | None, yes: bool) -> None:
    """Run the set-up: external volume, catalog integration, database, schema. What is there stays."""
    from tableflow_assets.publish.snowflake import sql

    settings = load_settings()
    catalog = _catalog(settings, name)
    place = sql.TableName(*catalog.schema_of(settings.namespace), "")
    printable = sql.set_up(catalog.settings, place, sql.placeholder)
    statements = sql.set_up(catalog.settings, place, lambda secret: secret.resolve())
    if role is not None and catalog.settings.role is not None:
        grants = sql.grants(catalog.settings, place)
        printable, statements = [*printable, *grants], [*statements, *grants]
    if not yes:
        click.echo("".join(f"{statement};\n" for statement in printable), err=True)
        click.confirm(f"Run this in {catalog.settings.account}?", abort=True, err=True)
    begin = catalog if role is None else _as_role(catalog, role)
    begin.run(
        statements, settings.namespace, lambda number: click.echo(printable[number].splitlines()[0])
    )
    if statement := _to_be_trusted(catalog):
        click.echo(f"Now let AWS trust Snowflake, with the user and external id of: {statement}")


def _of_tables(
    settings: Settings, catalog: SnowflakeCatalog, topics: tuple[str, ...]
) -> dict[str, list[str]]:
    from tableflow_assets.publish.snowflake import sql
    from tableflow_assets.tableflow import Tableflow

    statements: dict[str, list[str]] = {}
    tableflow = Tableflow(settings)
    for topic in tableflow.topics(topics) if topics else ():
        source = tableflow.publisher.source(topic.table, topic.description or "")
        if source is None:
            raise SettingsError(
                f"The topic {topic.name!r} has no table yet.",
                f"tableflow materialize {topic.name}",
            )
        if not catalog.shows(source):
            raise SettingsError(
                f"Snowflake shows Iceberg, and the topic {topic.name!r} is kept as Delta only.",
                "Add `iceberg` to its `formats`.",
            )
        name, origin = catalog.name_of(source), catalog.origin(source)
        comment = catalog.comment(source)
        statements[f"{topic.name}, at first"] = [
            sql.create_table(name, catalog.settings, origin, comment)
        ]
        statements[f"{topic.name}, after each commit"] = [
            sql.refresh_table(name, origin),
            sql.comment_table(name, comment),
        ]
    return statements


def _catalog(settings: Settings, name: str | None) -> SnowflakeCatalog:
    from tableflow_assets.publish.snowflake.snowflake import SnowflakeCatalog
    from tableflow_assets.settings.snowflake import SnowflakeSettings

    catalogs = {
        key: block
        for key, block in settings.catalogs.items()
        if isinstance(block, SnowflakeSettings)
    }
    if name is None and len(catalogs) == 1:
        name = next(iter(catalogs))
    if name is None or name not in catalogs:
        names = ", ".join(sorted(catalogs)) or "none"
        raise SettingsError(
            f"Which catalog of `type: snowflake`? The settings have: {names}.",
            "Name it with --catalog, or add it under `catalogs` (docs/catalog-snowflake.md).",
        )
    return SnowflakeCatalog(name, catalogs[name])


def _as_role(catalog: SnowflakeCatalog, role: str) -> SnowflakeCatalog:
    from tableflow_assets.publish.snowflake.snowflake import SnowflakeCatalog

    return SnowflakeCatalog(catalog.name, catalog.settings.model_copy(update={"role": role}))


def _to_be_trusted(catalog: SnowflakeCatalog) -> str:
    """The objects with AWS roles: only Snowflake knows which user it assumes them as."""
    from tableflow_assets.publish.snowflake import sql

    volume, integration = catalog.settings.external_volume, catalog.settings.integration
    statements = []
    if volume is not None and volume.role_arn is not None:
        statements.append(f"DESCRIBE EXTERNAL VOLUME {sql.identifier(sql.folded(volume.name))}")
    if getattr(integration, "role_arn", None) is not None:
        name = sql.identifier(sql.folded(integration.name))
        statements.append(f"DESCRIBE CATALOG INTEGRATION {name}")
    return "; ".join(statements)
