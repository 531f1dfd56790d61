"""`tableflow connect`: what it prints is run here, as far as there is an engine to run it in."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from tableflow_assets.lake.connection import CatalogConnection, Signing
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.query.duckdb import EXTENSIONS
from tableflow_assets.query.snippets import published
from tableflow_assets.query.snippets.access import Access, example_table
from tableflow_assets.query.snippets.spark import properties as spark_properties
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack.seaweed import SeaweedServer
from tableflow_assets.stack.state import StackState
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.publish.sources import a_source
from tableflow_assets_tests.support.seaweed import owner_of

NAMESPACE = "tableflow"
ENGINES = ("duckdb", "spark", "trino", "pyiceberg")
ROWS = pa.table({"id": [1, 2, 3]})

# As the lab has them; what is in capitals is to be filled in, and the name of the warehouse.
LAB = """
CREATE SECRET iceberg_secret (
    TYPE ICEBERG,
    CLIENT_ID     'YOUR_CLIENT_ID',
    CLIENT_SECRET 'YOUR_CLIENT_SECRET',
    ENDPOINT      'YOUR_ENDPOINT_URL',
    OAUTH2_SCOPE  'catalog'
);
ATTACH 'warehouse' AS ice_cat (
    TYPE iceberg,
    SECRET iceberg_secret,
    ENDPOINT 'YOUR_ENDPOINT_URL'
    );
"""


@pytest.fixture
def here(seaweed: SeaweedServer) -> StackState:
    """The test's state folder is that of a stack with this catalog."""
    folder = Path(os.environ["TABLEFLOW_STATE"])
    folder.mkdir(parents=True)
    state = replace(seaweed.state, folder=folder)
    state.save()
    return state


@pytest.fixture
def table(here: StackState, seaweed: SeaweedServer) -> str:
    owner = replace(owner_of(seaweed), namespace=NAMESPACE)
    owner.catalog.ensure_namespace()
    for _, name in owner.catalog.iceberg.list_tables(NAMESPACE):
        owner.catalog.iceberg.drop_table((NAMESPACE, name))
    name = f"payments_{uuid4().hex[:6]}"
    owner.catalog.iceberg.create_table((NAMESPACE, name), ROWS.schema).append(ROWS)
    return name


def in_duckdb(statements: str) -> list[Any]:
    """As in its shell, with extensions from wheels in place of those that it would fetch."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    with closing(connection):
        for extension in EXTENSIONS:
            package = importlib.import_module(f"duckdb_extension_{extension}")
            folder = Path(str(package.__file__)).parent / "extensions" / f"v{duckdb.__version__}"
            connection.execute(f"LOAD '{folder / extension}.duckdb_extension'")
        for statement in duckdb.extract_statements(statements):
            if not statement.query.strip().startswith(("INSTALL", "LOAD")):
                connection.execute(statement)
        return connection.fetchall()


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_what_is_printed_for_duckdb_reads_the_table(
    command: Command, table: str, here: StackState, role: str
) -> None:
    answer = command("connect", "duckdb", "--role", role, "--show-secrets")
    assert answer.code == 0, answer.err
    assert f'"{table}"' in answer.out
    assert sorted(in_duckdb(answer.out)) == [(1,), (2,), (3,)]


def test_the_labs_statements_work_with_the_printed_values(command: Command, table: str) -> None:
    values = command("connect", "duckdb", "--show-secrets", "--json").json["values"]
    statements = LAB.replace("YOUR_CLIENT_ID", values["client_id"])
    statements = statements.replace("YOUR_CLIENT_SECRET", values["client_secret"])
    statements = statements.replace("YOUR_ENDPOINT_URL", values["endpoint"])
    statements = statements.replace("'warehouse'", f"'{values['warehouse']}'")
    storage = next(
        line
        for line in command("connect", "duckdb", "--show-secrets").out.splitlines()
        if line.startswith("CREATE SECRET s3_secret")
    )
    query = f'SELECT sum(id) FROM ice_cat."{values["namespace"]}"."{values["table"]}";'  # noqa: S608
    assert in_duckdb(storage + statements + query) == [(6,)]


@pytest.mark.parametrize("show", [True, False])
def test_what_is_printed_for_pyiceberg_runs(
    command: Command, table: str, here: StackState, show: bool
) -> None:
    code = command("connect", "pyiceberg", *(["--show-secrets"] if show else [])).out
    names = ("TABLEFLOW_CATALOG_SECRET", "TABLEFLOW_S3_SECRET")
    secrets = dict.fromkeys(names, here.reader_secret_key)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | ({} if show else secrets),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\[\[1,2,3\]\]", done.stdout)


def in_bash(script: str, **variables: str) -> dict[str, str]:
    """The configuration that a terminal would start Spark with."""
    shown = "spark-sql() { printf '%s\\0' \"$@\"; }\n" + script
    environment = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(
        ["bash", "-c", shown],  # noqa: S607  (whatever bash there is)
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    given = done.stdout.split("\0")
    pairs = [word for flag, word in pairwise(given) if flag == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_what_is_printed_for_spark_means_the_same_with_and_without_secrets(
    command: Command, table: str, here: StackState
) -> None:
    secrets = {"TABLEFLOW_CATALOG_SECRET": here.reader_secret_key}
    secrets["TABLEFLOW_S3_SECRET"] = here.reader_secret_key
    plain = in_bash(command("connect", "spark", "--show-secrets").out)
    assert in_bash(command("connect", "spark").out, **secrets) == plain
    prefix = "spark.sql.catalog.lake"
    keys = f"{here.reader_access_key}:{here.reader_secret_key}"
    assert plain[f"{prefix}.credential"] == keys
    assert plain[f"{prefix}.s3.secret-access-key"] == here.reader_secret_key


def test_a_hostile_secret_stays_one_word_of_the_shell() -> None:
    secret = 'it\'s $(touch here) `x` "y" \\ !'
    catalog = CatalogConnection("http://there", "n", client_id="me", client_secret=secret)
    storage = S3Connection("s3://lake/", "r", access_key="k", secret_key=secret)
    access = Access(catalog, storage, "writer", is_embedded=False, spark_catalog="lake")
    from tableflow_assets.query.snippets import pyiceberg, spark

    found = in_bash(spark.snippet(access))
    assert found["spark.sql.catalog.lake.credential"] == f"me:{secret}"
    seen: dict[str, Any] = {}
    code = pyiceberg.snippet(access).replace(pyiceberg.HEAD, "")
    fake: dict[str, Any] = {
        "load_catalog": lambda _, **properties: seen.update(properties) or NoTables(),
    }
    exec(code, fake)  # noqa: S102  (our own)
    assert seen["credential"] == f"me:{secret}"


class NoTables:
    def __getattr__(self, _: str) -> Callable[..., Any]:
        return lambda *_, **__: self


def test_what_is_printed_for_spark_reads_the_table_and_cannot_write(
    command: Command, table: str, tableflow: Tableflow
) -> None:
    """In the session of the tests, which gets this catalog beside its own."""
    script = command("connect", "spark", "--show-secrets").out
    session, name = tableflow.spark, f"pasted.{NAMESPACE}.{table}"
    for key, value in in_bash(script).items():
        if key.startswith("spark.sql.catalog.lake"):
            session.conf.set(key.replace(".lake", ".pasted"), value)
    found = session.sql(f"SELECT sum(id) FROM {name}").collect()  # noqa: S608  (our own)
    assert [tuple(row) for row in found] == [(6,)]
    for change in (f"INSERT INTO {name} VALUES (4)", f"DELETE FROM {name}"):  # noqa: S608
        with pytest.raises(Exception, match=r"(?i)denied|forbidden|403"):
            session.sql(change).collect()
    assert session.sql(f"SELECT * FROM {name}").count() == 3  # noqa: S608  (our own)


def test_what_is_printed_for_trino_is_a_file_of_properties(
    command: Command, table: str, here: StackState
) -> None:
    lines = command("connect", "trino").out.splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert found["connector.name"] == "iceberg"
    assert found["iceberg.rest-catalog.oauth2.credential"] == (
        f"{here.reader_access_key}:${{ENV:TABLEFLOW_CATALOG_SECRET}}"
    )
    assert found["s3.aws-secret-key"] == "${ENV:TABLEFLOW_S3_SECRET}"
    assert found["iceberg.rest-catalog.warehouse"] == "s3://lake/"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("role", ["reader", "writer"])
def test_secrets_are_printed_only_when_asked_for(
    command: Command, table: str, here: StackState, engine: str, role: str
) -> None:
    for more in ((), ("--json",)):
        answer = command("connect", engine, "--role", role, *more)
        assert answer.code == 0
        for secret in (here.secret_key, here.reader_secret_key):
            assert secret not in answer.out + answer.err
    assert "--show-secrets" in command("connect", engine, "--role", role).err
    shown = command("connect", engine, "--role", role, "--show-secrets").out
    mine, other = here.reader_secret_key, here.secret_key
    if role == "writer":
        mine, other = other, mine
    assert mine in shown
    assert other not in shown


def test_without_a_stack_the_error_says_how_to_start_one(command: Command) -> None:
    answer = command("connect", "duckdb")
    assert answer.code == 1
    assert "tableflow stack up" in answer.err


def test_a_stack_without_keys_for_readers_is_to_be_restarted(
    command: Command, here: StackState
) -> None:
    replace(here, reader_access_key="", reader_secret_key="").save()
    answer = command("connect", "duckdb")
    assert answer.code == 1
    assert "tableflow stack down" in answer.err
    assert command("connect", "duckdb", "--role", "writer").code == 0


def test_a_catalog_that_is_away_leaves_a_word_to_replace(
    command: Command, here: StackState, closed_port: int
) -> None:
    replace(here, ports=here.ports | {"iceberg": closed_port}).save()
    answer = command("connect", "duckdb")
    assert answer.code == 0
    assert '"YOUR_TABLE"' in answer.out


OWN = """
catalog:
  uri: https://catalog.example/api
  warehouse: the lake
  {access}
warehouse: {{location: s3://bucket/, access_key: {{env: KEY}}, secret_key: {{env: S3}}}}
"""
CLIENT = "client_id: {env: ID}\n  client_secret: {env: SECRET}"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, config_file: Callable[[str], str]) -> Callable[[str], str]:
    for name, value in {"ID": "the-writer", "SECRET": "quiet", "KEY": "key", "S3": "still"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tableflow_assets.query.snippets.access.example_table", lambda _: "orders")
    return lambda access: config_file(OWN.format(access=access))


@pytest.mark.parametrize("engine", ENGINES)
def test_of_other_servers_a_reader_has_to_bring_his_own_client(
    command: Command, own: Callable[[str], str], engine: str
) -> None:
    answer = command("--config", own(CLIENT), "connect", engine, "--show-secrets")
    assert answer.code == 0, answer.err
    for known in ("the-writer", "quiet", "still"):
        assert known not in answer.out
    assert "YOUR_CLIENT_ID" in answer.out
    assert "may only read" in answer.err
    writer = command(
        "--config", own(CLIENT), "connect", engine, "--role", "writer", "--show-secrets"
    )
    for known in ("the-writer", "quiet", "still", "the lake", "https://catalog.example/api"):
        assert known in writer.out


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (
            "token: {env: SECRET}",
            {
                "duckdb": "TOKEN '<TABLEFLOW_CATALOG_TOKEN>'",
                "spark": '.token="$TABLEFLOW_CATALOG_TOKEN"',
                "trino": "oauth2.token=${ENV:TABLEFLOW_CATALOG_TOKEN}",
                "pyiceberg": "'token': os.environ[\"TABLEFLOW_CATALOG_TOKEN\"]",
            },
        ),
        (
            "sigv4: {name: s3tables, region: eu-west-1}",
            {
                "duckdb": "AUTHORIZATION_TYPE 'sigv4'",
                "spark": "rest.signing-name=s3tables",
                "trino": "security=SIGV4",
                "pyiceberg": "'rest.signing-region': 'eu-west-1'",
            },
        ),
    ],
)
def test_every_way_in_is_written_for_every_engine(
    command: Command, own: Callable[[str], str], access: str, expected: dict[str, str]
) -> None:
    for engine in ENGINES:
        answer = command("--config", own(access), "connect", engine)
        assert expected[engine] in answer.out, engine
        assert "credential" not in answer.out


def test_keys_of_signatures_reach_spark() -> None:
    signing = Signing("glue", "r", "key", "secret")
    catalog = CatalogConnection("https://there", "n", sigv4=signing)
    storage = S3Connection("s3://lake/", "r")
    found = spark_properties(Access(catalog, storage, "writer", False, "lake"))
    assert found["spark.sql.catalog.lake.rest.secret-access-key"] == ("secret",)


CATALOGS = """
namespace: shop
catalogs:
  eu: {type: glue, region: eu-west-1, database: analytics}
  bricks: {type: unity, host: "https://there", catalog: main, token: {env: TOKEN}}
  flakes:
    type: snowflake
    account: a
    user: me
    private_key: {env: TOKEN}
    role: LOADER
    warehouse: SMALL
    database: tables
    external_volume: {base_url: "s3://lake/"}
    integration: {source: object_store}
"""


@pytest.mark.parametrize(
    ("engine", "dialect", "name"),
    [
        ("athena", "athena", ["AwsDataCatalog", "analytics", "YOUR_TABLE"]),
        ("snowflake", "snowflake", ["TABLES", "SHOP", "YOUR_TABLE"]),
        ("databricks", "databricks", ["main", "shop", "YOUR_TABLE"]),
    ],
)
def test_engines_with_a_catalog_of_their_own_get_sql(
    command: Command,
    config_file: Callable[[str], str],
    engine: str,
    dialect: str,
    name: list[str],
) -> None:
    missing = command("connect", engine)
    assert missing.code == 1
    assert "`catalogs:`" in missing.err
    given = config_file(CATALOGS)
    answer = command("--config", given, "connect", engine)
    assert answer.code == 0, answer.err
    *before, last = parsed(knows_catalogs(answer.out), dialect)
    (found,) = last.find_all(exp.Table)
    assert [found.catalog, found.db, found.name] == name
    kinds = {"athena": [], "snowflake": [exp.Use] * 2, "databricks": [exp.Grant] * 3}
    assert [type(one) for one in before] == kinds[engine]
    assert command("--config", given, "connect", engine, "--json").json["snippet"] in answer.out


@pytest.mark.parametrize(
    ("engine", "dialect", "name"),
    [
        ("athena", "athena", ["AwsDataCatalog", "analytics", "payments"]),
        ("snowflake", "snowflake", ["TABLES", "SHOP", "PAYMENTS"]),
        ("databricks", "databricks", ["main", "shop", "payments"]),
    ],
)
def test_the_example_has_the_name_that_the_catalog_gives_it(
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    config_file: Callable[[str], str],
    engine: str,
    dialect: str,
    name: list[str],
) -> None:
    monkeypatch.setattr(published, "_example", lambda _: a_source("payments"))
    monkeypatch.setenv("TOKEN", "unused")
    given = config_file(CATALOGS + "warehouse: {location: s3://lake/}\n")
    answer = command("--config", given, "connect", engine, "--role", "writer")
    assert answer.code == 0, answer.err
    (found,) = parsed(answer.out, dialect)[-1].find_all(exp.Table)
    assert [found.catalog, found.db, found.name] == name


def parsed(sql: str, dialect: str) -> list[exp.Expression]:
    found = [one for one in sqlglot.parse(sql, dialect=dialect) if one is not None]
    assert not any(isinstance(one, exp.Command) for one in found)  # text that it did not know
    return found


def knows_catalogs(sql: str) -> str:
    """sqlglot knows no rights on catalogs, which are given as those on schemas are."""
    known = r"GRANT USE CATALOG ON CATALOG (`main`) TO (`YOUR_GROUP`);"
    return re.sub(known, r"GRANT USE SCHEMA ON SCHEMA \1 TO \2;", sql)


def test_the_example_is_no_table_of_dead_letters(
    here: StackState, table: str, seaweed: SeaweedServer
) -> None:
    owner = replace(owner_of(seaweed), namespace=NAMESPACE)
    owner.catalog.iceberg.create_table((NAMESPACE, "a__dead_letters"), ROWS.schema)
    assert example_table(Settings(state_dir=here.folder)) == table
