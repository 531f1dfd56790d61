"""All SQL that we send to Snowflake. Every name and value from outside is quoted here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tableflow_assets.settings.secret_ref import SecretRef
from tableflow_assets.settings.snowflake import (
    ExternalVolume,
    GlueIntegration,
    RestIntegration,
    SnowflakeSettings,
)

# How a secret appears in a statement: as itself when run, as a placeholder when shown.
Reveal = Callable[[SecretRef], str]


def placeholder(secret: SecretRef) -> str:
    return f"<{secret}>"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    # Snowflake also reads backslashes in literals.
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def folded(name: str) -> str:
    """An unquoted name as Snowflake stores it."""
    return name.upper()


@dataclass(frozen=True)
class TableName:
    database: str
    schema: str
    table: str

    @property
    def in_sql(self) -> str:
        return f"{self.schema_in_sql}.{identifier(self.table)}"

    @property
    def schema_in_sql(self) -> str:
        return f"{identifier(self.database)}.{identifier(self.schema)}"

    def __str__(self) -> str:
        return f"{self.database}.{self.schema}.{self.table}"


@dataclass(frozen=True)
class Origin:
    """What a table is created from: a metadata file in the volume, or a table of another catalog."""

    metadata_path: str = ""
    namespace: str = ""
    table: str = ""


def create_table(name: TableName, settings: SnowflakeSettings, origin: Origin, comment: str) -> str:
    """Never OR REPLACE: an existing table may be somebody else's."""
    options = {}
    if settings.external_volume is not None:
        options["EXTERNAL_VOLUME"] = literal(folded(settings.external_volume.name))
    options["CATALOG"] = literal(folded(settings.integration.name))
    if origin.metadata_path:
        options["METADATA_FILE_PATH"] = literal(origin.metadata_path)
    else:
        options["CATALOG_TABLE_NAME"] = literal(origin.table)
        options["CATALOG_NAMESPACE"] = literal(origin.namespace)
    options["COMMENT"] = literal(comment)
    return _with_options(f"CREATE ICEBERG TABLE {name.in_sql}", options)


def refresh_table(name: TableName, origin: Origin) -> str:
    path = f" {literal(origin.metadata_path)}" if origin.metadata_path else ""
    return f"ALTER ICEBERG TABLE {name.in_sql} REFRESH{path}"


def comment_table(name: TableName, comment: str) -> str:
    """`COMMENT ON TABLE` is refused for Iceberg tables."""
    return f"ALTER ICEBERG TABLE {name.in_sql} SET COMMENT = {literal(comment)}"


def drop_table(name: TableName) -> str:
    return f"DROP ICEBERG TABLE IF EXISTS {name.in_sql}"


def show_iceberg_table(name: TableName) -> str:
    """The result is sorted, so an exact match comes first. LIKE would take `_` for any letter."""
    return f"SHOW ICEBERG TABLES {_only(name)}"


def show_object(name: TableName) -> str:
    return f"SHOW OBJECTS {_only(name)}"


def show_schema(name: TableName) -> str:
    of_database = f"IN DATABASE {identifier(name.database)}"
    return f"SHOW SCHEMAS {of_database} STARTS WITH {literal(name.schema)} LIMIT 1"


def table_information(name: TableName) -> str:
    return f"SELECT SYSTEM$GET_ICEBERG_TABLE_INFORMATION({literal(name.in_sql)}) AS INFORMATION"


def describe_table(name: TableName) -> str:
    return f"DESCRIBE ICEBERG TABLE {name.in_sql}"


def create_database(name: TableName) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {identifier(name.database)}"


def create_schema(name: TableName) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {name.schema_in_sql}"


def set_up(settings: SnowflakeSettings, name: TableName, reveal: Reveal) -> list[str]:
    """What an account needs once, before any table. Existing objects stay as they are."""
    statements = []
    if settings.external_volume is not None and settings.external_volume.is_ours_to_make:
        statements.append(_external_volume(settings.external_volume, reveal))
    if settings.integration.is_ours_to_make:
        statements.append(_integration(settings, reveal))
    return [*statements, create_database(name), create_schema(name)]


def grants(settings: SnowflakeSettings, name: TableName) -> list[str]:
    """What the role needs in order to publish. The database and the schema stay with their owners."""
    on = [
        f"USAGE ON DATABASE {identifier(name.database)}",
        f"USAGE ON SCHEMA {name.schema_in_sql}",
        f"CREATE ICEBERG TABLE ON SCHEMA {name.schema_in_sql}",
        f"USAGE ON INTEGRATION {identifier(folded(settings.integration.name))}",
    ]
    if settings.external_volume is not None:
        on.append(f"USAGE ON EXTERNAL VOLUME {identifier(folded(settings.external_volume.name))}")
    if settings.warehouse is not None:
        on.append(f"USAGE ON WAREHOUSE {_as_written(settings.warehouse)}")
    return [f"GRANT {right} TO ROLE {role_of(settings)}" for right in on]


def grant_ownership(settings: SnowflakeSettings, name: TableName) -> str:
    """Only a table's owner may refresh, comment or drop it."""
    return f"GRANT OWNERSHIP ON ICEBERG TABLE {name.in_sql} TO ROLE {role_of(settings)}"


def role_of(settings: SnowflakeSettings) -> str:
    return _as_written(settings.role) if settings.role else "<the role of the user>"


def _as_written(name: str) -> str:
    """A role or warehouse may have any name; an ordinary one is folded as Snowflake does."""
    is_ordinary = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name)
    return identifier(folded(name) if is_ordinary else name)


def _only(name: TableName) -> str:
    return f"IN SCHEMA {name.schema_in_sql} STARTS WITH {literal(name.table)} LIMIT 1"


def _external_volume(volume: ExternalVolume, reveal: Reveal) -> str:
    name = folded(volume.name)
    place = {"NAME": literal(name)}
    if volume.endpoint is None:
        place["STORAGE_PROVIDER"] = literal("S3")
        place["STORAGE_BASE_URL"] = literal(volume.base_url.rstrip("/") + "/")
        place["STORAGE_AWS_ROLE_ARN"] = literal(volume.role_arn or "")
        if volume.external_id is not None:
            place["STORAGE_AWS_EXTERNAL_ID"] = literal(volume.external_id)
    else:
        bucket = volume.base_url.removeprefix("s3://").rstrip("/")
        place["STORAGE_PROVIDER"] = literal("S3COMPAT")
        place["STORAGE_BASE_URL"] = literal(f"s3compat://{bucket}/")
        place["STORAGE_ENDPOINT"] = literal(volume.endpoint.split("://")[-1].rstrip("/"))
        if volume.access_key is not None and volume.secret_key is not None:
            keys = {
                "AWS_KEY_ID": literal(reveal(volume.access_key)),
                "AWS_SECRET_KEY": literal(reveal(volume.secret_key)),
            }
            place["CREDENTIALS"] = _nested(keys, depth=3)
    # Read only: the tables are written by us, not by Snowflake.
    options = {"STORAGE_LOCATIONS": f"({_nested(place, depth=2)})", "ALLOW_WRITES": "FALSE"}
    return _with_options(f"CREATE EXTERNAL VOLUME IF NOT EXISTS {identifier(name)}", options)


def _integration(settings: SnowflakeSettings, reveal: Reveal) -> str:
    integration = settings.integration
    sources = {"glue": "GLUE", "rest": "ICEBERG_REST", "object_store": "OBJECT_STORE"}
    options = {"CATALOG_SOURCE": sources[integration.source], "TABLE_FORMAT": "ICEBERG"}
    if isinstance(integration, GlueIntegration):
        options |= _glue(integration)
    elif isinstance(integration, RestIntegration):
        options |= _rest(integration, reveal, vends=settings.external_volume is None)
    options["ENABLED"] = "TRUE"
    name = identifier(folded(integration.name))
    return _with_options(f"CREATE CATALOG INTEGRATION IF NOT EXISTS {name}", options)


def _glue(integration: GlueIntegration) -> dict[str, str]:
    return _literals(
        CATALOG_NAMESPACE=integration.namespace,
        GLUE_AWS_ROLE_ARN=integration.role_arn,
        GLUE_CATALOG_ID=integration.catalog_id,
        GLUE_REGION=integration.region,
    )


def _rest(integration: RestIntegration, reveal: Reveal, *, vends: bool) -> dict[str, str]:
    config = _literals(
        CATALOG_URI=integration.uri, PREFIX=integration.prefix, CATALOG_NAME=integration.warehouse
    )
    config["CATALOG_API_TYPE"] = integration.api.upper()
    mode = "VENDED_CREDENTIALS" if vends else "EXTERNAL_VOLUME_CREDENTIALS"
    config["ACCESS_DELEGATION_MODE"] = mode
    return {
        **_literals(CATALOG_NAMESPACE=integration.namespace),
        "REST_CONFIG": _nested(config, depth=2),
        "REST_AUTHENTICATION": _nested(_rest_authentication(integration, reveal), depth=2),
    }


def _rest_authentication(integration: RestIntegration, reveal: Reveal) -> dict[str, str]:
    if integration.client_id is not None and integration.client_secret is not None:
        return {
            "TYPE": "OAUTH",
            **_literals(OAUTH_TOKEN_URI=integration.oauth2_server_uri),
            "OAUTH_CLIENT_ID": literal(reveal(integration.client_id)),
            "OAUTH_CLIENT_SECRET": literal(reveal(integration.client_secret)),
            "OAUTH_ALLOWED_SCOPES": f"({literal(integration.scope)})",
        }
    if integration.token is not None:
        return {"TYPE": "BEARER", "BEARER_TOKEN": literal(reveal(integration.token))}
    return {
        "TYPE": "SIGV4",
        **_literals(
            SIGV4_IAM_ROLE=integration.role_arn,
            SIGV4_SIGNING_REGION=integration.region,
            SIGV4_EXTERNAL_ID=integration.external_id,
        ),
    }


def _literals(**values: str | None) -> dict[str, str]:
    return {key: literal(value) for key, value in values.items() if value is not None}


def _with_options(begin: str, options: dict[str, str]) -> str:
    return "\n".join([begin, *(f"  {key} = {value}" for key, value in options.items())])


def _nested(options: dict[str, str], depth: int) -> str:
    lines = [f"{'  ' * depth}{key} = {value}" for key, value in options.items()]
    return "\n".join(["(", *lines, f"{'  ' * (depth - 1)})"])
