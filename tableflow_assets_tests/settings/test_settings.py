from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import ValidationError

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.settings.blocks import SecretRef
from tableflow_assets.settings.settings import Settings, load_settings

DEMO = Path(__file__).parents[2] / "tableflow.yaml"
PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test starts in an empty folder, with none of our variables set."""
    monkeypatch.chdir(tmp_path)
    for name in ("TABLEFLOW_CONFIG", "TABLEFLOW_STATE", "KEY", "SECRET"):
        monkeypatch.delenv(name, raising=False)


def load(text: str | bytes) -> Settings:
    path = Path("tableflow.yaml")
    path.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
    return load_settings()


def refusal(text: str | bytes) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(text)
    assert caught.value.next_step
    return caught.value


# --- which file -------------------------------------------------------------------------------


def test_without_a_file_everything_is_embedded() -> None:
    settings = load_settings()
    assert settings.file is None
    assert settings.state_dir == Path.cwd() / ".tableflow"
    assert (settings.kafka, settings.registry, settings.warehouse) == (None, None, None)
    assert (settings.catalog, settings.spark) == (None, None)
    assert settings.dagster.webserver_url is None
    assert (settings.dagster.keep_runs, settings.dagster.max_runs) == (timedelta(days=7), 2000)
    assert settings.spark_catalog == "lake"
    assert settings.namespace == "tableflow"
    assert (settings.exact_topics, settings.patterns) == ((), ("*",))


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}", "topics:\nkafka:\nstate:\n"])
def test_an_empty_file_or_key_is_as_absent(text: str) -> None:
    settings = load(text)
    assert settings.patterns == ("*",)
    assert settings.kafka is None
    assert settings.state_dir == Path.cwd() / ".tableflow"


def test_argument_beats_variable_beats_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tableflow", "variable", "argument"):
        Path(f"{name}.yaml").write_text(f"namespace: {name}\n")
    assert load_settings().namespace == "tableflow"
    monkeypatch.setenv("TABLEFLOW_CONFIG", "variable.yaml")
    assert load_settings().namespace == "variable"
    settings = load_settings(Path("argument.yaml"))
    assert settings.namespace == "argument"
    assert settings.file == Path.cwd() / "argument.yaml"


@pytest.mark.parametrize(
    ("file", "variable", "expected"),
    [
        ("state: here", None, "conf/here"),
        ("state: /var/x", None, "/var/x"),
        ("state: here", "there", "conf/there"),
        ("", "/var/y", "/var/y"),
        ("", "", "conf/.tableflow"),
        ("state: ~/s", None, "/home/someone/s"),
    ],
)
def test_state_folder(
    monkeypatch: pytest.MonkeyPatch, file: str, variable: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    if variable is not None:
        monkeypatch.setenv("TABLEFLOW_STATE", variable)
    Path("conf").mkdir()
    Path("conf/tf.yaml").write_text(file)
    assert load_settings(Path("conf/tf.yaml")).state_dir == Path.cwd() / expected


def test_state_from_the_variable_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLEFLOW_STATE", "elsewhere")
    assert load_settings().state_dir == Path.cwd() / "elsewhere"


@pytest.mark.parametrize(
    ("name", "why"),
    [("gone.yaml", "No such file"), ("folder.yaml", "Is a directory"), ("a\0b", "null byte")],
)
def test_a_file_that_cannot_be_read(name: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("folder.yaml").mkdir()
    with pytest.raises(SettingsError, match=why) as caught:
        load_settings(Path(name))
    assert name in caught.value.problem
    assert caught.value.next_step
    if "\0" not in name:
        monkeypatch.setenv("TABLEFLOW_CONFIG", name)
        with pytest.raises(SettingsError, match=why):
            load_settings()


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: b\nc: [", 2, "flow node"),
        ("a:\n\tb: c", 2, "cannot start any token"),
        ("a: b\n\nc: 'x", 3, "end of stream"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        (b"a: b\nc: \xe9", 2, "not UTF-8"),
        (b"a: b\nc: \x00", 2, "special characters"),
        ('\na: "\\U00110000"', 2, "not in range"),
        ("# c\n- a", 2, "not a list"),
        ("\n\nword", 3, "not a single value"),
        ("a: &x [1]\nb: *x", 2, "aliases"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", 2, "tags"),
        ("[" * 5000, 1, "levels deep"),
    ],
)
def test_unusable_yaml_names_file_and_line(text: str | bytes, line: int, why: str) -> None:
    error = refusal(text)
    assert error.problem.startswith(f"tableflow.yaml:{line}: ")
    assert why in error.problem


def test_large_files_are_refused_and_those_at_the_limit_are_not() -> None:
    assert load("#" * 1_000_000).file is not None
    assert "1,000,000 bytes" in refusal("#" * 1_000_001).problem


# --- what is wrong, and where -----------------------------------------------------------------

LINES = [
    # text, the line it is reported at, key, what the message must contain
    ("namespce: x", 1, "namespce", ["unknown key", "allowed keys: state, kafka", "'namespace'?"]),
    ("kafak:", 1, "kafak", ["unknown key", "'kafka'?"]),
    ("\nstate: 3", 2, "state", ["must be text", "3 (integer)"]),
    ('state: "a\\0b"', 1, "state", ["one line of text"]),
    ("kafka:\n  bootstrap_servers: 5", 2, "kafka.bootstrap_servers", ["text", "5 (integer)"]),
    ("kafka:\n  bootstrap_servers: h", 2, "kafka.bootstrap_servers", ["host:port", "'h' (text)"]),
    ("\nkafka: {}", 2, "kafka.bootstrap_servers", ["missing"]),
    ("kafka: []", 1, "kafka", ["must be a mapping", "a list"]),
    ("registry: {url: ftp://h}", 1, "registry.url", ["http(s)://", "'ftp://h' (text)"]),
    ("warehouse:\n  location: lake", 2, "warehouse.location", ["s3://", "'lake' (text)"]),
    ("spark: {remote: 'local[1]'}", 1, "spark.remote", ["sc://", "'local[1]' (text)"]),
    ("spark: {remote: sc://h, catalog: a.b}", 1, "spark.catalog", ["letters", "'a.b' (text)"]),
    ("min_free_disk: 5", 1, "min_free_disk", ["must be text", "5 (integer)"]),
    ("min_free_disk: 2%", 1, "min_free_disk", ["must be a size, such as 500MB"]),
    ("namespace: A-b", 1, "namespace", ["lower-case", "'A-b' (text)"]),
    ("dagster: {max_runs: 9}", 1, "dagster.max_runs", ["greater than or equal to 10"]),
    ("dagster: {keep_runs: 7d}", 1, "dagster.keep_runs", ["such as 90 days"]),
    ("dagster: {url: x}", 1, "dagster.url", ["allowed keys: webserver_url, keep_runs"]),
    ("topics: [payments]", 1, "topics", ["must be a mapping", "a list"]),
    ("topics:\n  payments: day", 2, "topics.payments", ["must be a mapping", "'day' (text)"]),
    ("topics:\n  a.b:\n    windw: day", 3, 'topics."a.b".windw', ["'window'?"]),
    (
        "topics:\n  window: {x: 1}",
        2,
        "topics.window.x",
        ["unknown key", "allowed keys: ", "mode, value"],
    ),
    ("topics:\n  x: {}\n  a b: {}", 3, 'topics."a b"', ["Kafka allows", "249"]),
    (f"topics:\n  ? {'a' * 250}\n  : {{}}", 2, f"topics.{'a' * 250}", ["Kafka allows"]),
    ("topics:\n  ..: {}", 2, 'topics.".."', ["Kafka allows"]),
    ("topics:\n  _x:", 2, "topics._x", ["letter or digit"]),
    ("topics:\n  x__dead_letters:", 2, "topics.x__dead_letters", ["reserved"]),
    ("topics:\n  a[: {}", 2, 'topics."a["', ["not a usable pattern"]),
    ("topics:\n  _*: {}", 2, 'topics."_*"', ["internal"]),
    ("topics:\n  a.b:\n  a_b:", 3, "topics.a_b", ["share the table a_b", "'a.b'"]),
    ("topics:\n  a.b:\nproducts:\n  a_b:", 4, "products.a_b", ["share the table a_b", "'a.b'"]),
    ("products:\n  Sales:", 2, "products.Sales", ["not a usable name"]),
    ("products:\n  a__dead_letters:", 2, "products.a__dead_letters", ["not a usable name"]),
    ("products:\n  a: {color: red}", 2, "products.a.color", ["unknown key", "sql"]),
    ("topics:\n  x:\n  y:\n  x:", 4, "topics.x", ["duplicate key", "line 2"]),
    ("defaults:\n  mode: append\n  mode: append", 3, "defaults.mode", ["duplicate key", "line 2"]),
    ("kafka:\n  ? [a]\n  : b", 2, "kafka", ["a key must be text"]),
    ('"\\e[31m": 1', 1, '"\\u001b[31m"', ["unknown key"]),
]

OPTIONS = [
    # option, value, where below the option, what the message must contain
    ("mode", "appendd", "", ["'appendd' (text)", "allowed: append", "Did you mean 'append'?"]),
    ("formats", "[iceberg, csv]", "[1]", ["'csv' (text)", "allowed: iceberg, delta"]),
    ("formats", "[delta, delta]", "", ["'delta' twice"]),
    ("formats", "iceberg", "", ["must be a list", "'iceberg' (text)"]),
    ("formats", "[]", "", ["at least one"]),
    ("window", "Day", "", ["'Day' (text)", "allowed: hour, day", "Did you mean 'day'?"]),
    ("window", "", "", ["got null", "allowed: hour, day"]),
    ("bad_records", "drop", "", ["'drop' (text)", "dead_letter, skip, suspend"]),
    ("first_window", "2026-02-30", "", ["YYYY-MM-DD", "'2026-02-30' (text)"]),
    ("first_window", "'2026-01-01'", "", ["YYYY-MM-DD", "(text)"]),
    ("first_window", "2026-01-01 10:00:00", "", ["YYYY-MM-DD", "(date and time)"]),
    ("first_window", "1969-12-31", "", ["1970-01-01", "1969-12-31 (date)"]),
    ("owners", "[bob]", "[0]", ["team:name or an email", "'bob' (text)"]),
    ("owners", "['team:']", "[0]", ["team:name or an email"]),
    ("owners", "[3]", "[0]", ["must be text", "3 (integer)"]),
    ("group", "a-b", "", ["letters, digits and underscores", "'a-b' (text)"]),
    ("description", "yes", "", ["must be text", "quote", "true (boolean)"]),
    ("max_records", "0", "", ["greater than 0", "0 (integer)"]),
    ("max_records", "'5'", "", ["must be an integer", "'5' (text)"]),
    ("max_records", "5.0", "", ["must be an integer", "5.0 (number)"]),
    ("max_records", "true", "", ["must be an integer", "true (boolean)"]),
    ("max_records", "9" * 4000, "", ["more than 64 bits"]),
    ("max_records", "9" * 5000, "", ["must be an integer", "..."]),
    ("max_records", "0x" + "f" * 9000, "", ["more than 64 bits"]),
    ("partition_by", "'day(ts)'", "[0]", ["'day(ts)' is none of window, x, days(x)"]),
    ("partition_by", "a b", "[0]", ["'a b' is none of", "bucket(N, x)"]),
    ("partition_by", "[window, 3]", "[1]", ["must be text", "3 (integer)"]),
    ("partition_by", "bucket(0, x)", "[0]", ["1 to 4096"]),
    ("partition_by", f"bucket({'9' * 5000}, x)", "[0]", ["'bucket(999"]),
    ("partition_by", "truncate(1000001, x)", "[0]", ["1 to 1000000"]),
    ("partition_by", "[]", "", ["at least one"]),
    ("partition_by", "[window, window]", "", ["'window' twice"]),
    ("partition_by", "days(`a.b)", "[0]", ["none of"]),
    ("partition_by", "3", "", ["must be a list", "3 (integer)"]),
    ("sort_by", "a down", "[0]", ["'a down' is neither `column` nor `column desc`"]),
    ("sort_by", "[bucket(2, x)]", "[0]", ["'bucket(2, x)' is neither"]),
    ("target_file_size", "128", "", ["must be text"]),
    ("target_file_size", "128 tons", "", ["such as 128MB"]),
    ("target_file_size", "1KB", "", ["between 1MB and 2GB"]),
    ("target_file_size", "3GB", "", ["between 1MB and 2GB"]),
    ("retention", "3d", "", ["such as 90 days"]),
    ("retention", "90", "", ["text such as 90 days", "90 (integer)"]),
    ("retention", "59 minutes", "", ["between 1 hour and"]),
    ("retention", "9999999 weeks", "", ["between 1 hour and"]),
    ("keep_snapshots", "0 days", "", ["between 1 hour and"]),
    ("keep_snapshots", "", "", ["such as 90 days", "null"]),
    ("max_snapshots", "1", "", ["greater than or equal to 2"]),
    ("compaction", "vacuum", "", ["'vacuum' is none of binpack, sort, zorder(a, b)"]),
    ("compaction", "zorder(a)", "", ["two different columns"]),
    ("compaction", "zorder(a, a)", "", ["two different columns"]),
    ("compaction", "sort", "", ["`sort` needs `sort_by`"]),
    ("maintenance", "hourly", "", ["cron", "'0 * * * *'"]),
    ("maintenance", "'61 * * * *'", "", ["cron"]),
    ("maintenance", "'* * * *'", "", ["cron"]),
    ("maintenance", "'0 24 * * *'", "", ["cron"]),
    ("maintenance", "'0 * * * */0'", "", ["cron"]),
    ("maintenance", "'0 0 31 2 *'", "", ["never comes"]),
    ("freshness", "90", "", ["text such as 15m", "90 (integer)"]),
    ("freshness", "soon", "", ["with s, m or h, such as 15m"]),
    ("freshness", "25h", "", ["24h at most"]),
    ("freshness", "0s", "", ["must be 1s or more"]),
    ("freshness_policy", "true", "", ["needs `freshness`"]),
    ("commit", "15m", "", ["must be a mapping", "'15m' (text)"]),
    ("commit", "{evry: 15m}", ".evry", ["unknown key", "'every'?"]),
    ("commit", "{every: 15}", ".every", ["text such as 15m", "15 (integer)"]),
    ("commit", "{every: 5m, or_bytes: 0MB}", ".or_bytes", ["above 0, such as 250MB"]),
    ("commit", "{or_bytes: 1GB}", ".or_bytes", ["does nothing without `every` or `freshness`"]),
]


@pytest.mark.parametrize(("text", "line", "key", "parts"), LINES)
def test_problems_name_line_and_key(text: str, line: int, key: str, parts: list[str]) -> None:
    problems = refusal(text).problem.splitlines()
    (mine,) = [p for p in problems if p.startswith(f"tableflow.yaml:{line}: {key}: ")]
    assert [part for part in parts if part not in mine] == []


@pytest.mark.parametrize("block", ["defaults", "topics.payments"])
@pytest.mark.parametrize(("option", "value", "below", "parts"), OPTIONS)
def test_problems_of_options(
    block: str, option: str, value: str, below: str, parts: list[str]
) -> None:
    head = "\ndefaults:\n" if block == "defaults" else "topics:\n  payments:\n"
    (problem,) = refusal(f"{head}      {option}: {value}\n").problem.splitlines()
    assert problem.startswith(f"tableflow.yaml:3: {block}.{option}{below}: ")
    assert [part for part in parts if part not in problem] == []
    assert len(problem) < 300


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    error = refusal("""\
        namespace: tableflow
        kafka: {bootstrap_server: "a:1"}
        topics:
          payments: {window: week}
          a b: {mode: upserts}
          payments: {}
        namespce: x
        """)
    starts = [line.split(": ", 2)[:2] for line in error.problem.splitlines()]
    assert starts == [
        ["tableflow.yaml:2", "kafka.bootstrap_server"],
        ["tableflow.yaml:2", "kafka.bootstrap_servers"],
        ["tableflow.yaml:4", "topics.payments.window"],
        ["tableflow.yaml:5", 'topics."a b"'],
        ["tableflow.yaml:5", 'topics."a b".mode'],
        ["tableflow.yaml:6", "topics.payments"],
        ["tableflow.yaml:7", "namespce"],
    ]
    assert "7 places" in error.next_step


# --- secrets ----------------------------------------------------------------------------------

FULL = """
kafka: {bootstrap_servers: "broker-1:9092,[::1]:9093"}
registry: {url: https://registry.example}
warehouse:
  location: s3://lake/
  endpoint: http://store:8333
  path_style: true
  access_key: {env: KEY}
  secret_key: {env: SECRET}
catalog:
  uri: http://catalog/
  client_id: {env: KEY}
  client_secret: {env: SECRET}
spark: {remote: "sc://host:15002/;use_ssl=true", catalog: ice}
dagster: {webserver_url: "http://dagster:3000"}
"""


def test_a_full_file() -> None:
    settings = load(FULL)
    assert settings.kafka and settings.kafka.bootstrap_servers == "broker-1:9092,[::1]:9093"
    assert settings.registry and settings.registry.url == "https://registry.example"
    assert settings.warehouse and settings.warehouse.path_style is True
    assert settings.warehouse.region == "us-east-1"
    assert settings.catalog and settings.catalog.scope == "catalog"
    assert settings.catalog.client_secret == SecretRef(env="SECRET")
    assert settings.spark_catalog == "ice"
    assert settings.dagster.webserver_url == "http://dagster:3000"


def test_secrets_resolve_when_used_and_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(FULL)
    assert settings.warehouse and settings.warehouse.secret_key
    secret = settings.warehouse.secret_key
    monkeypatch.setenv("SECRET", PASSWORD)
    assert secret.resolve() == PASSWORD
    shown = json.loads(json.dumps(settings.show()))
    assert shown["warehouse"]["secret_key"] == "env:SECRET (set)"
    assert shown["catalog"]["client_id"] == "env:KEY (not set)"
    for text in (repr(settings), str(settings), str(secret), repr(secret), secret.show()):
        assert PASSWORD not in text
        assert "SECRET" in text
    assert PASSWORD not in json.dumps(shown) + settings.model_dump_json()


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is not None:
        monkeypatch.setenv("SECRET", value)
    with pytest.raises(SettingsError, match="SECRET") as caught:
        SecretRef(env="SECRET").resolve()
    assert "export SECRET=" in caught.value.next_step
    assert SecretRef(env="SECRET").show() == "env:SECRET (not set)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("warehouse: {access_key: hunter2}", "environment variable"),
        ("warehouse: {access_key: [hunter2]}", "environment variable"),
        ("warehouse: {access_key: {env: hunter2/+}}", "environment variable"),
        ("warehouse: {access_key: {env: [hunter2]}}", "environment variable"),
        ("warehouse: {access_key: {value: hunter2}}", "unknown key; allowed keys: env"),
        ("access_key: hunter2", "unknown key"),
        ("registry: {url: 'https://me:hunter2@host'}", "no password"),
        ("registry: {url: 'https://host?token=hunter2'}", "no query"),
        ("spark: {remote: 'sc://host/;token=hunter2'}", "SPARK_CONNECT_AUTHENTICATE_TOKEN"),
        ("kafka: {bootstrap_servers: 'me:hunter2@host:1'}", "host:port"),
        ("kafka: {bootstrap_servers: {password: hunter2}}", "must be text"),
        ("a: hunter2\nb: 'hunter2", "end of stream"),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(text: str, why: str) -> None:
    error: BaseException | None = refusal(text)
    assert why in str(error)
    while error is not None:  # a traceback prints the causes too
        assert PASSWORD not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("warehouse: {location: s3://b, access_key: {env: A}}", "access_key and secret_key"),
        ("catalog: {uri: http://c, client_secret: {env: A}}", "client_id and client_secret"),
    ],
)
def test_half_a_pair_of_credentials_is_refused(text: str, why: str) -> None:
    assert f"needs both {why}" in refusal(text).problem


# --- topics -----------------------------------------------------------------------------------


def test_built_in_options() -> None:
    topic = load_settings().topic_named("Any.topic")
    assert topic is not None
    assert (topic.name, topic.table) == ("Any.topic", "any_topic")
    assert (topic.mode, topic.window, topic.formats) == ("append", "day", ("iceberg", "delta"))
    assert (topic.bad_records, topic.first_window) == ("dead_letter", None)
    assert (topic.owners, topic.group, topic.description) == ((), "topics", None)
    assert (topic.max_records, topic.max_bytes, topic.key_buckets) == (1_000_000, 2**30, 8)


def test_built_in_layout_and_maintenance() -> None:
    topic = load_settings().topic_named("t")
    assert topic is not None
    assert (topic.partition_by, topic.sort_by, topic.compaction) == (("window",), (), "binpack")
    assert topic.target_file_bytes == 128 * 2**20
    assert (topic.retention, topic.keep_snapshots) == (None, timedelta(days=5))
    assert (topic.maintenance, topic.max_snapshots) == ("0 * * * *", 500)


INHERITANCE = """
defaults: {window: hour, group: all, owners: ["team:x"], max_records: 5}
topics:
  a.*: {group: first, max_records: 7}
  a.b*: {group: second}
  a.bc: {window: day, owners: [me@x.org]}
  plain:
  Case?: {group: case}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # exact beats pattern, inherits from the defaults and nothing from the patterns
        ("a.bc", ("all", "day", ("me@x.org",), 5)),
        ("a.bd", ("first", "hour", ("team:x",), 7)),  # the first pattern wins
        ("plain", ("all", "hour", ("team:x",), 5)),  # `plain:` is `plain: {}`
        ("Case1", ("case", "hour", ("team:x",), 5)),
    ],
)
def test_topic_beats_defaults_beat_built_in(name: str, expected: tuple[object, ...]) -> None:
    topic = load(INHERITANCE).topic_named(name)
    assert topic is not None
    options = (topic.group, topic.window, topic.owners, topic.max_records)
    assert options == expected


@pytest.mark.parametrize("name", ["other", "case1", "a", "a.*", "a.b c", "", "a./../x", "a.b\n"])
def test_names_that_nothing_chooses(name: str) -> None:
    assert load(INHERITANCE).topic_named(name) is None


@pytest.mark.parametrize("name", ["_schemas", "__consumer_offsets", "a b", "", ".."])
def test_internal_and_impossible_names_match_no_pattern(name: str) -> None:
    settings = load('topics: {"*": {}, "[_]*": {}, "?schemas": {}}')
    assert settings.topic_named(name) is None
    assert settings.topics_among([name]) == ()


def test_topics_among() -> None:
    settings = load(INHERITANCE)
    assert settings.exact_topics == ("a.bc", "plain")
    assert settings.patterns == ("a.*", "a.b*", "Case?")
    topics = settings.topics_among(iter(["z", "a.z", "plain", "a.a", "a.z", "_a"]))
    assert [topic.name for topic in topics] == ["a.a", "a.bc", "a.z", "plain"]
    assert [topic.max_records for topic in topics] == [7, 5, 7, 5]


def test_no_topics_at_all() -> None:
    assert load("topics: {}").topics_among(["a", "b"]) == ()


def test_keys_are_names_as_written() -> None:
    names = ("123", "on", "2026-01-01", "null", "1e3", "0x1f")
    assert load("topics: {" + ", ".join(f"{n}: " for n in names) + "}").exact_topics == names


@pytest.mark.parametrize(("stray", "owner"), [("a-bc", "a.bc"), ("X_y", "x.y")])
def test_a_topic_that_would_share_a_table_is_left_out(stray: str, owner: str) -> None:
    settings = load("topics: {a.bc: , x.y: , '*': }")
    names = [topic.name for topic in settings.topics_among([stray, "fine"])]
    assert names == ["a.bc", "fine", "x.y"]
    left_out = settings.left_out([stray, "fine"])
    assert list(left_out) == [stray]
    assert repr(owner) in left_out[stray]


@pytest.mark.parametrize("name", ["x__dead_letters", "X.-dead-letters", "-x", ".x"])
def test_names_that_no_table_can_have(name: str) -> None:
    settings = load_settings()
    with pytest.raises(SettingsError, match="cannot have a table"):
        settings.topic_named(name)
    assert [topic.name for topic in settings.topics_among(["fine", name])] == ["fine"]
    assert "cannot have a table" in settings.left_out(["fine", name])[name]


# --- the object -------------------------------------------------------------------------------


def test_settings_are_frozen() -> None:
    settings = load(FULL)
    topic = settings.topic_named("x")
    for thing, name in ((settings, "namespace"), (settings.kafka, "bootstrap_servers")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(thing, name, "x")
    with pytest.raises(ValidationError, match="frozen"):
        topic.window = "hour"  # type: ignore[union-attr]


def test_show_is_json_with_inheritance_resolved() -> None:
    shown = json.loads(json.dumps(load(INHERITANCE).show()))
    assert shown["file"] == str(Path.cwd() / "tableflow.yaml")
    assert shown["state"] == str(Path.cwd() / ".tableflow")
    assert (shown["kafka"], shown["spark"]) == ("embedded", "embedded")
    assert shown["spark_catalog"] == "lake"
    assert list(shown["topics"]) == ["a.*", "a.b*", "a.bc", "plain", "Case?"]
    assert shown["topics"]["plain"]["window"] == "hour"
    assert shown["topics"]["a.bc"]["first_window"] is None


LAYOUT = """
defaults: {retention: 12 hours, keep_snapshots: 2 weeks, target_file_size: 64 mb}
topics:
  one:
    partition_by: bucket(16, `a.b, c`), days(address.since), window
    sort_by: [city, total DESC]
    maintenance: "*/15 0-6,22 * jan-mar mon"
    compaction: zorder(a, b.c)
  keyed: {mode: upsert, retention: null, maintenance: null, formats: [delta]}
  cut_by_yaml: {partition_by: [window, bucket(4, x), "truncate(2, `(`)"]}
"""


def test_layout_and_ages_are_inherited_and_shown_as_they_are_written() -> None:
    settings = load(LAYOUT)
    one, keyed = settings.topic_named("one"), settings.topic_named("keyed")
    assert one and keyed
    assert one.partition_by == ("bucket(16, `a.b, c`)", "days(address.since)", "window")
    assert one.sort_by == ("city", "total DESC")
    cut = settings.topic_named("cut_by_yaml")
    assert cut and cut.partition_by == ("window", "bucket(4, x)", "truncate(2, `(`)")
    assert (one.retention, one.keep_snapshots) == (timedelta(hours=12), timedelta(days=14))
    assert one.target_file_bytes == 64 * 2**20
    assert (keyed.retention, keyed.maintenance, keyed.formats) == (None, None, ("delta",))
    shown = json.loads(json.dumps(settings.show()))["topics"]
    assert shown["one"]["retention"] == "12 hours"
    assert shown["one"]["keep_snapshots"] == "14 days"
    assert shown["one"]["partition_by"] == list(one.partition_by)
    assert shown["keyed"]["retention"] is None


@pytest.mark.parametrize(
    ("text", "line", "key", "parts"),
    [
        ("topics:\n  x: {mode: cdc, retention: 2 days}", 2, "topics.x.retention", ["do not age"]),
        (
            "topics:\n  x: {mode: upsert, partition_by: days(t)}",
            *(2, "topics.x.partition_by", ["laid out by key", "key_buckets"]),
        ),
        (
            "defaults: {partition_by: days(t)}\ntopics:\n  x: {mode: cdc}",
            *(3, "topics.x", ["defaults", "laid out by key", "`partition_by: window` here"]),
        ),
        (
            "defaults: {retention: 2 days}\ntopics:\n  y: {}\n  x: {mode: upsert}",
            *(4, "topics.x", ["the defaults set `retention`", "`retention: null` here"]),
        ),
        ("\ndefaults: {mode: cdc, retention: 2 days}", 2, "defaults.retention", ["do not age"]),
        (
            "topics:\n  x:\n    freshness: 1m\n    commit:\n      every: 90s",
            *(5, "topics.x.commit.every", ["90s is longer than `freshness: 1m` allows"]),
        ),
        (
            "defaults: {commit: {every: 15m}}\ntopics:\n  x: {freshness: 1m}",
            *(3, "topics.x", ["the defaults set `commit.every`", "`commit: {}` here"]),
        ),
    ],
)
def test_options_that_contradict_each_other(
    text: str, line: int, key: str, parts: list[str]
) -> None:
    (problem,) = refusal(text).problem.splitlines()
    assert problem.startswith(f"tableflow.yaml:{line}: {key}: ")
    assert [part for part in parts if part not in problem] == []


PROMISES = """
defaults: {freshness: 15m}
topics:
  half: {}
  at_once: {freshness: 5s}
  as_said: {commit: {every: 15m, or_bytes: 1 GB}}
  not_promised: {freshness: null}
  gathers: {freshness: null, commit: {every: 1h}}
"""


@pytest.mark.parametrize(
    ("name", "freshness", "seconds", "megabytes"),
    [
        ("half", "15m", 450, 250),
        ("at_once", "5s", 0, 250),
        ("as_said", "15m", 900, 1024),
        ("not_promised", None, 0, 250),
        ("gathers", None, 3600, 250),
    ],
)
def test_when_records_are_committed_follows_from_what_is_promised_unless_said(
    name: str, freshness: str | None, seconds: int, megabytes: int
) -> None:
    settings = load(PROMISES)
    topic = settings.topic_named(name)
    assert topic is not None
    assert topic.commit_every == timedelta(seconds=seconds)
    assert topic.commit_bytes == megabytes * 2**20
    shown = json.loads(json.dumps(settings.show()))["topics"][name]
    assert shown["freshness"] == freshness


def test_the_demo_file() -> None:
    settings = load_settings(DEMO)
    groups = {
        "payments": "shift_left",
        "shiftleft.public.orders": "shift_left",
        "shiftleft.public.order_items": "shift_left",
        "riverhotel.cdc.customer": "river_hotels",
        "riverhotel.cdc.hotel": "river_hotels",
        "bookings": "river_hotels",
        "hotel_reviews": "river_hotels",
        "clickstream": "river_hotels",
        "something.else": "topics",
    }
    topics = settings.topics_among(groups)
    assert {topic.name: topic.group for topic in topics} == groups
    assert {topic.owners for topic in topics} == {("team:data-platform",)}
    assert {topic.window for topic in topics} == {"day"}
    assert [t.name for t in topics if t.description is None] == ["something.else"]
    assert (settings.kafka, settings.registry, settings.spark) == (None, None, None)


def test_settings_import_neither_dagster_nor_spark() -> None:
    code = "import sys, tableflow_assets.settings.settings; print(*{m.split('.')[0] for m in sys.modules})"
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, capture_output=True, text=True, check=True, cwd=DEMO.parent)
    assert "pydantic" in modules.stdout.split()
    assert {"dagster", "pyspark"}.isdisjoint(modules.stdout.split())


def test_a_topic_that_a_pattern_finds_does_not_take_a_products_table() -> None:
    settings = load("topics: {'*': {}}\nproducts: {sales: {sql: sales.sql}}")
    assert [topic.name for topic in settings.topics_among(["orders", "sales"])] == ["orders"]
    assert "that of the product" in settings.left_out(["orders", "sales"])["sales"]
