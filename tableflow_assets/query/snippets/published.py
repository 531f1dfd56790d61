"""For engines with their own catalog: they see what is published there, under its names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from tableflow_assets.base.errors import SettingsError, TableflowError
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.publish.factory import catalog_from
from tableflow_assets.query.snippets.access import NO_TABLE, Role
from tableflow_assets.settings.catalogs import (
    GlueSettings,
    PublishingSettings,
    SnowflakeSettings,
    UnitySettings,
)
from tableflow_assets.settings.settings import Settings

if TYPE_CHECKING:
    from tableflow_assets.publish.base import SourceTable

Engine = Literal["athena", "snowflake", "databricks"]
NEEDED: dict[str, tuple[type[PublishingSettings], str]] = {
    "athena": (GlueSettings, "type: glue, region: us-east-1"),
    "snowflake": (SnowflakeSettings, "type: snowflake, account: ..., user: ..., database: ..."),
    "databricks": (UnitySettings, "type: unity, host: https://..., catalog: ..."),
}
YOUR_GROUP = "YOUR_GROUP"


def snippet(engine: Engine, settings: Settings, role: Role) -> str:
    """SQL for each catalog of that engine in the settings."""
    kind, example = NEEDED[engine]
    blocks = {name: block for name, block in settings.catalogs.items() if isinstance(block, kind)}
    if not blocks:
        raise SettingsError(
            f"No table is published to where {engine} would find it.",
            f"Add a catalog under `catalogs:` in tableflow.yaml, such as {engine}: {{{example}}},"
            " and run `tableflow catalogs publish`.",
        )
    source = _example(settings)
    texts = [_sql(name, block, settings, source, role) for name, block in blocks.items()]
    return "\n\n".join(texts)


def _sql(
    name: str,
    block: PublishingSettings,
    settings: Settings,
    source: SourceTable | None,
    role: Role,
) -> str:
    name_parts = _listed_name(name, block, settings, source)
    if isinstance(block, GlueSettings):
        parts = name_parts or [block.database or "YOUR_DATABASE", NO_TABLE]
        return _athena(parts)
    if isinstance(block, SnowflakeSettings):
        schema = block.schema_name or settings.namespace
        return _snowflake(block, name_parts or [block.database.upper(), schema.upper(), NO_TABLE])
    unity = cast("UnitySettings", block)
    schema = unity.schema_name or settings.namespace
    return _databricks(name_parts or [unity.catalog, schema, NO_TABLE], role)


def _athena(parts: Sequence[str]) -> str:
    return f"SELECT * FROM {'.'.join(map(_in_quotes, ('AwsDataCatalog', *parts)))} LIMIT 10;"  # noqa: S608


def _snowflake(block: SnowflakeSettings, parts: Sequence[str]) -> str:
    use = {"ROLE": block.role, "WAREHOUSE": block.warehouse}
    lines = [f"USE {keyword} {_in_quotes(name)};" for keyword, name in use.items() if name]
    return "\n".join([*lines, f"SELECT * FROM {'.'.join(map(_in_quotes, parts))} LIMIT 10;"])  # noqa: S608


def _databricks(parts: Sequence[str], role: Role) -> str:
    catalog, schema = quoted(parts[0]), f"{quoted(parts[0])}.{quoted(parts[1])}"
    grants = [
        f"GRANT USE CATALOG ON CATALOG {catalog} TO {quoted(YOUR_GROUP)};",
        f"GRANT USE SCHEMA ON SCHEMA {schema} TO {quoted(YOUR_GROUP)};",
        f"GRANT SELECT ON SCHEMA {schema} TO {quoted(YOUR_GROUP)};",
    ]
    select = f"SELECT * FROM {'.'.join(map(quoted, parts))} LIMIT 10;"  # noqa: S608  (quoted)
    return "\n".join([*(grants if role == "reader" else ()), select])


def _listed_name(
    name: str, block: PublishingSettings, settings: Settings, source: SourceTable | None
) -> list[str] | None:
    """The name under which the catalog would list the example; None if there is no example yet."""
    if source is None:
        return None
    from tableflow_assets.stack import connections

    try:
        catalog = catalog_from(name, block, connections.s3_connection(settings))
        return catalog.listing_for(source).name.split(".")
    except TableflowError:
        return None


def _example(settings: Settings) -> SourceTable | None:
    from tableflow_assets.publish.publisher import Publisher
    from tableflow_assets.query.snippets.access import example_table
    from tableflow_assets.stack import connections

    name = example_table(settings)
    if name == NO_TABLE:
        return None
    try:
        return Publisher(settings, connections.owning_catalog(settings)).source(name)
    except TableflowError:
        return None


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
