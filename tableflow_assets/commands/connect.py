"""`tableflow connect`: what to paste into another engine, so that it sees the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from tableflow_assets.commands.show import json_option, print_json
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.query.snippets.access import Access, Role
    from tableflow_assets.query.snippets.published import Engine

OVER_THE_CATALOG = ("duckdb", "spark", "trino", "pyiceberg")
WITH_ITS_OWN = ("athena", "snowflake", "databricks")
PLACES = {
    "duckdb": "Paste this into DuckDB's shell.",
    "spark": "Run this in a terminal.",
    "trino": "Put this into etc/catalog/lake.properties of every Trino node, and restart them.",
    "pyiceberg": 'Run this in Python with pip install "pyiceberg[pyarrow]".',
    "athena": "Run this in Athena. What a reader needs in AWS: tableflow aws policy --reader",
    "snowflake": "Run this in Snowflake. The role needs USAGE of database and schema, and SELECT.",
    "databricks": "Run this in a SQL editor of Databricks.",
}


@click.command()
@click.argument("engine", type=click.Choice([*OVER_THE_CATALOG, *WITH_ITS_OWN]))
@click.option(
    "--role",
    type=click.Choice(["reader", "writer"]),
    default="reader",
    show_default=True,
    help="Whose keys: a reader cannot change anything.",
)
@click.option("--show-secrets", is_flag=True, help="Print the secrets, too.")
@json_option
def connect(engine: str, role: str, show_secrets: bool, as_json: bool) -> None:
    """Print what to paste into another engine, so that it sees the tables."""
    from tableflow_assets.query.snippets import published

    settings = load_settings()
    typed_role = cast("Role", role)
    if engine in WITH_ITS_OWN:
        text = published.snippet(cast("Engine", engine), settings, typed_role)
        answer: dict[str, Any] = {"engine": engine, "role": role, "snippet": text}
        notes = [PLACES[engine]]
    else:
        from tableflow_assets.query.snippets import access

        values = access.access_of(settings, typed_role, show_secrets=show_secrets)
        values = access.with_example(values, access.example_table(settings))
        text = _written(engine, values)
        answer = {"engine": engine, "role": role, "snippet": text, "values": _values(values)}
        notes = [PLACES[engine], *_about_secrets(values, engine)]
    if as_json:
        print_json(answer)
        return
    for note in notes:
        click.secho(note, err=True, dim=True)  # stdout can then go straight into a file or a shell
    click.echo(text)


def _written(engine: str, access: Access) -> str:
    from tableflow_assets.query.snippets import duckdb, pyiceberg, spark, trino

    engines = {"duckdb": duckdb, "spark": spark, "trino": trino, "pyiceberg": pyiceberg}
    return str(engines[engine].snippet(access))


def _about_secrets(access: Access, engine: str) -> list[str]:
    from tableflow_assets.query.snippets.access import hidden_names

    names = hidden_names(access)
    if not names:
        return []
    if access.role == "reader" and not access.is_embedded:
        return [
            "The catalog is your own: make a client there that may only read, and put its id and"
            f" secret in. Of secrets there are only names: {', '.join(names)}. With --role writer,"
            " the keys of the settings are used."
        ]
    return [
        f"Of secrets there are only names: {', '.join(names)}."
        f" tableflow connect {engine} --role {access.role} --show-secrets prints them."
    ]


def _values(access: Access) -> dict[str, str | None]:
    """For filling in forms, or statements such as those of the labs."""
    from tableflow_assets.query.snippets.access import shown

    catalog, storage = access.catalog, access.storage
    return {
        "endpoint": catalog.uri,
        "warehouse": access.warehouse,
        "namespace": access.namespace,
        "table": access.table,
        "client_id": catalog.client_id,
        "client_secret": shown(catalog.client_secret),
        "token": shown(catalog.token),
        "scope": catalog.scope,
        "oauth2_server_uri": catalog.oauth2_server_uri,
        "s3_endpoint": storage.endpoint,
        "s3_region": storage.region,
        "s3_path_style": "true" if storage.path_style else "false",
        "s3_access_key": storage.access_key,
        "s3_secret_key": shown(storage.secret_key),
    }
