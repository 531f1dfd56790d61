"""The SQL for Snowflake: as reviewed, file by file, and nothing in it but what Snowflake would run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.tokens import TokenType

from tableflow_assets.publish.snowflake import sql
from tableflow_assets.publish.snowflake.snowflake import SnowflakeCatalog
from tableflow_assets.settings.catalogs import SnowflakeSettings
from tableflow_assets_tests.publish.sources import a_source
from tableflow_assets_tests.publish.worlds.snowflake_grammar import NoStatement, parsed

GOLDEN = Path(__file__).parent / "snowflake_sql"
ROLE_ARN = "arn:aws:iam::123456789012:role/snowflake"
VOLUME = {"base_url": "s3://lake/tables", "role_arn": ROLE_ARN, "external_id": "tableflow:1"}
OTHER_STORE = {
    "base_url": "s3://lake",
    "endpoint": "https://s3.example.com",
    "access_key": {"env": "STORE_KEY"},
    "secret_key": {"env": "STORE_SECRET"},
}
GLUE = {
    "source": "glue",
    "name": "glue",
    "namespace": "shop",
    "role_arn": ROLE_ARN,
    "catalog_id": "123456789012",
    "region": "eu-west-1",
}
REST = {"source": "rest", "uri": "https://catalog.example.com/api/catalog", "warehouse": "lake"}
CLIENT = {"client_id": {"env": "CATALOG_ID"}, "client_secret": {"aws_secret": "polaris"}}
CASES: dict[str, dict[str, Any]] = {
    "object_store": {"external_volume": VOLUME},
    "other_store": {"external_volume": OTHER_STORE, "schema": "Sales", "role": "data team"},
    "glue": {"external_volume": VOLUME, "integration": GLUE},
    "rest_oauth": {
        "integration": REST | CLIENT | {"oauth2_server_uri": "https://login.example.com/token"}
    },
    "rest_token": {"external_volume": VOLUME, "integration": REST | {"token": {"env": "TOKEN"}}},
    "rest_sigv4": {
        "external_volume": VOLUME,
        "integration": REST
        | {"role_arn": ROLE_ARN, "region": "eu-west-1", "external_id": "a-b", "api": "aws_glue"}
        | {"prefix": "catalogs/1", "namespace": "shop_of_glue"},
    },
    "all_there_already": {
        "external_volume": {"name": "theirs", "base_url": "s3://lake"},
        "integration": {"source": "glue", "name": "theirs", "namespace": "shop"},
    },
}


def settings_of(case: str) -> SnowflakeSettings:
    settings = {
        "account": "myorg-account",
        "user": "tableflow",
        "private_key": {"env": "KEY"},
        "role": "publisher",
        "warehouse": "loading",
        "database": "lake",
    }
    return SnowflakeSettings(type="snowflake", **(settings | CASES[case]))


def statements_of(case: str) -> list[str]:
    catalog = SnowflakeCatalog("flake", settings_of(case))
    source = a_source("o'hara_payments")
    if case != "other_store":
        moved = source.metadata_location.replace("s3://lake/", "s3://lake/tables/")
        source = type(source)(**(vars(source) | {"metadata_location": moved}))
    source = type(source)(**(vars(source) | {"uuid": "u-1", "topic": 'it\'s "a\\b"; --'}))
    name, origin, comment = catalog.name_of(source), catalog.origin(source), catalog.comment(source)
    settings = catalog.settings
    return [
        *sql.set_up(settings, name, sql.placeholder),
        *sql.grants(settings, name),
        sql.grant_ownership(settings, name),
        sql.create_table(name, settings, origin, comment),
        sql.refresh_table(name, origin),
        sql.comment_table(name, comment),
        sql.show_schema(name),
        sql.show_iceberg_table(name),
        sql.show_object(name),
        sql.table_information(name),
        sql.describe_table(name),
        sql.drop_table(name),
    ]


@pytest.mark.parametrize("case", CASES)
def test_the_statements_are_those_that_were_reviewed(case: str) -> None:
    script = "".join(f"{statement};\n" for statement in statements_of(case))
    assert script == (GOLDEN / f"{case}.sql").read_text()


def test_there_is_no_golden_file_without_a_case() -> None:
    assert {file.stem for file in GOLDEN.glob("*.sql")} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_snowflakes_dialect_and_its_clients_models_take_every_statement(case: str) -> None:
    for statement in statements_of(case):
        assert parsed(statement) is not None


@given(text=st.text())
def test_a_literal_says_exactly_what_it_was_made_of(text: str) -> None:
    (token,) = sqlglot.tokenize(sql.literal(text), read="snowflake")
    assert (token.token_type, token.text) == (TokenType.STRING, text)


@given(text=st.text(min_size=1))
def test_an_identifier_is_one_name_whatever_is_in_it(text: str) -> None:
    (token,) = sqlglot.tokenize(sql.identifier(text), read="snowflake")
    assert (token.token_type, token.text) == (TokenType.IDENTIFIER, text)


@pytest.mark.parametrize(
    "wrong",
    [
        'CREATE OR REPLACE ICEBERG TABLE "A"."B"."C" CATALOG = \'I\' METADATA_FILE_PATH = \'p\'',
        'ALTER ICEBERG TABLE "A"."B"."C" REFRESH \'p\'; DROP TABLE "A"."B"."C"',
        "ALTER ICEBERG TABLE a.b.c REFRESH",
        'DROP ICEBERG TABLE "A"."B"."C"; SELECT 1',
        'CREATE CATALOG INTEGRATION IF NOT EXISTS "I" CATALOG_SOURCE = GLUE TABLE_FORMAT = ICEBERG'
        " GLUE_AWS_ROLE_ARN = 'r' GLUE_CATALOG_ID = '1' CATALOG_NAMESPACE = 'n' GLUE_ROLE = 'r'"
        " ENABLED = TRUE",
        'CREATE CATALOG INTEGRATION IF NOT EXISTS "I" CATALOG_SOURCE = GLUE TABLE_FORMAT = ICEBERG'
        " ENABLED = TRUE",
        'CREATE CATALOG INTEGRATION IF NOT EXISTS "I" CATALOG_SOURCE = OBJECT_STORE'
        " TABLE_FORMAT = PARQUET ENABLED = TRUE",
        "CREATE EXTERNAL VOLUME IF NOT EXISTS \"V\" STORAGE_LOCATIONS = ((NAME = 'V'"
        " STORAGE_PROVIDER = 'S3' STORAGE_BASE_URL = 's3://b/')) ALLOW_WRITES = FALSE",
        "MAKE EXTERNAL VOLUME V",
    ],
)
def test_the_stub_does_not_take_what_snowflake_would_not_or_should_not_run(wrong: str) -> None:
    with pytest.raises((NoStatement, ValueError, KeyError)):
        parsed(wrong)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "external_volume"),
        ({"external_volume": VOLUME, "integration": {"source": "glue"}}, "namespace"),
        ({"external_volume": VOLUME | {"endpoint": "https://s3"}}, "not both"),
        ({"external_volume": {"base_url": "s3://b", "external_id": "ab"}}, "role_arn"),
        ({"external_volume": {"base_url": "s3://b", "endpoint": "https://s"}}, "secret_key"),
        ({"integration": REST}, "one of"),
        ({"integration": REST | CLIENT | {"token": {"env": "T"}}}, "one of"),
        ({"external_volume": VOLUME, "integration": GLUE | {"catalog_id": "1"}}, "catalog_id"),
        ({"external_volume": VOLUME, "statement_seconds": 1}, "statement_seconds"),
    ],
)
def test_settings_that_do_not_fit_are_refused(more: dict[str, Any], said: str) -> None:
    block = {"account": "a", "user": "u", "private_key": {"env": "K"}, "database": "d"}
    with pytest.raises(ValueError, match=said):
        SnowflakeSettings(type="snowflake", **(block | more))
