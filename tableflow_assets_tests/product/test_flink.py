"""Flink's notions, each by itself, as Spark answers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tableflow_assets.base.spark_session import named_view
from tableflow_assets.product import flink
from tableflow_assets.product.narrow import narrowings
from tableflow_assets.tableflow import Tableflow

VERSIONS = flink.Versions(("key",), "since")


@pytest.fixture(scope="module")
def spark(tableflow: Tableflow) -> SparkSession:
    return tableflow.spark


@pytest.fixture(scope="module")
def sources(spark: SparkSession) -> Iterator[dict[str, flink.Source]]:
    topic = spark.sql("""
        SELECT id, at, said, named_struct('timestamp', t, 'partition', p, 'offset', o) AS _kafka
        FROM VALUES (1, 10, 'b', 1, 0, 0), (1, 5, 'a', 2, 0, 1), (1, 5, 'A', 3, 0, 2),
          (2, 7, 'x', 9, 1, 0), (2, 7, 'y', 9, 1, 1), (NULL, 1, 'n', 1, 2, 0)
          AS topic(id, at, said, t, p, o)
    """)
    states = spark.sql("""
        SELECT * FROM VALUES ('h', 10, 'first'), ('h', 20, 'second'), ('i', 15, 'other')
          AS states(key, since, name)
    """)
    times = spark.sql("""
        SELECT TIMESTAMP_SECONDS(s) AS at, s FROM VALUES (-1), (0), (604799), (604800) AS times(s)
    """)
    clocks = spark.sql("""
        SELECT id, at, said, named_struct('timestamp', t, 'partition', p, 'offset', o) AS _kafka
        FROM VALUES (1, 5, 'a', 9, 0, 0), (1, 5, 'b', 8, 0, 1),
          (2, 5, 'a', 9, 0, 2), (2, 5, 'b', 5, 0, 3), (2, 5, 'c', 8, 1, 0),
          (3, 5, 'a', 7, 0, 4), (3, 5, 'c', 7, 1, 1)
          AS clocks(id, at, said, t, p, o)
    """)
    epochs = spark.sql("""
        SELECT id, at, said,
          named_struct('timestamp', t, 'partition', p, 'offset', o, 'epoch', e) AS _kafka
        FROM VALUES (1, 5, 'old', 9, 0, 7, NULL), (1, 5, 'new', 1, 0, 0, 1), (1, 5, 'newer', 1, 0, 1, 1)
          AS epochs(id, at, said, t, p, o, e)
    """)
    with (
        named_view(spark, topic) as a,
        named_view(spark, states) as b,
        named_view(spark, times) as c,
        named_view(spark, clocks) as d,
        named_view(spark, epochs) as e,
    ):
        yield {
            "topic": flink.Source(a, is_topic=True),
            "states": flink.Source(b, is_topic=False, versions=VERSIONS),
            "times": flink.Source(c, is_topic=False),
            "clocks": flink.Source(d, is_topic=True),
            "epochs": flink.Source(e, is_topic=True, has_epochs=True),
        }


def answer(
    spark: SparkSession, sources: dict[str, flink.Source], sql: str
) -> list[tuple[Any, ...]]:
    rows = spark.sql(flink.in_spark(flink.parse(sql), sources)).collect()
    return sorted((tuple(row) for row in rows), key=str)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        # By time; of the same time, the first that Kafka had.
        ("SELECT id, said FROM FIRST_ROW(topic, id, at)", [(1, "a"), (2, "x"), (None, "n")]),
        ("SELECT id, said FROM FIRST_ROW(topic, COALESCE(id, 2), at)", [(1, "a"), (None, "n")]),
        ("SELECT id, said FROM LAST_ROW(topic, id)", [(1, "A"), (2, "y"), (None, "n")]),
        ("SELECT id, said FROM LAST_ROW(topic, id, at)", [(1, "b"), (2, "y"), (None, "n")]),
        (
            "SELECT id, at, said FROM LAST_ROW(topic, (id, at)) WHERE id = 1",
            [(1, 10, "b"), (1, 5, "A")],
        ),
        # By offset within a partition, whatever the clocks say; partitions by their clocks.
        ("SELECT id, said FROM LAST_ROW(clocks, id)", [(1, "b"), (2, "b"), (3, "c")]),
        ("SELECT id, said FROM LAST_ROW(clocks, (id, at))", [(1, "b"), (2, "b"), (3, "c")]),
        ("SELECT id, said FROM LAST_ROW(clocks, id, at)", [(1, "b"), (2, "b"), (3, "c")]),
        ("SELECT id, said FROM FIRST_ROW(clocks, id, at)", [(1, "a"), (2, "a"), (3, "a")]),
        # All of a log after those before it, whatever clocks and offsets say.
        ("SELECT id, said FROM LAST_ROW(epochs, id)", [(1, "newer")]),
        ("SELECT id, said FROM FIRST_ROW(epochs, id, at)", [(1, "old")]),
        # A state holds from its own moment on, until the next one begins.
        (
            "SELECT t.x, s.name FROM (SELECT EXPLODE(ARRAY(9, 10, 19, 20, 99)) AS x, 'h' AS k) t"
            " JOIN states FOR SYSTEM_TIME AS OF t.x AS s ON s.key = t.k",
            [(10, "first"), (19, "first"), (20, "second"), (99, "second")],
        ),
        (
            "SELECT t.x, s.name FROM (SELECT EXPLODE(ARRAY(9, 10)) AS x, 'h' AS k) t"
            " LEFT JOIN states FOR SYSTEM_TIME AS OF t.x AS s ON s.key = t.k",
            [(10, "first"), (9, None)],
        ),
        (
            "SELECT s, UNIX_SECONDS(window_start) AS a, UNIX_SECONDS(window_end) AS b"
            " FROM TABLE(TUMBLE(TABLE `times`, DESCRIPTOR(at), INTERVAL '7' DAY))",
            [(-1, -604800, 0), (0, 0, 604800), (604799, 0, 604800), (604800, 604800, 1209600)],
        ),
        (
            "SELECT UNIX_MILLIS(TO_TIMESTAMP(x, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''')) AS ms"
            " FROM (SELECT EXPLODE(ARRAY('1970-01-01T00:00:01.500Z', 'soon', '')) AS x)",
            [(1500,), (None,), (None,)],
        ),
        (
            "SELECT UNIX_MILLIS(TO_TIMESTAMP_LTZ(x, 3)) AS ms"
            " FROM (SELECT EXPLODE(ARRAY(1500L, 9223372036854775807L)) AS x)",
            [(1500,), (None,)],
        ),
        (
            "WITH topic AS (SELECT key AS id FROM states) SELECT id FROM topic",
            [("h",), ("h",), ("i",)],
        ),
        ("SELECT 'it''s `topic`' AS x FROM states WHERE key = 'i'", [("it's `topic`",)]),
    ],
)
def test_what_a_statement_gives(
    spark: SparkSession, sources: dict[str, flink.Source], sql: str, rows: list[tuple[Any, ...]]
) -> None:
    assert answer(spark, sources, sql) == sorted(rows, key=str)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT id FROM NEXT_ROW(topic, id)", "there is no NEXT_ROW"),
        ("SELECT id FROM FIRST_ROW(1, id)", "needs a table first"),
        ("SELECT id FROM topic FOR SYSTEM_TIME AS OF at", "FOR SYSTEM_TIME AS OF"),
        ("SELECT id FROM TUMBLE(topic, at, 7)", "not a window length"),
        ("SELECT id FROM a.b", "in backticks"),
    ],
)
def test_what_is_refused(sql: str, problem: str) -> None:
    sources = {"topic": flink.Source("v", is_topic=True)}
    with pytest.raises(ValueError, match=problem):
        flink.in_spark(flink.parse(sql), sources)


@pytest.mark.parametrize(
    ("joins", "narrowed"),
    [
        ("JOIN LAST_ROW(b, id) b ON b.id = a.b", ["b by a"]),
        ("LEFT JOIN LAST_ROW(b, id) b ON b.id = a.b AND b.x > 1", ["b by a"]),
        ("JOIN b ON b.id = a.b JOIN c ON c.id = b.c", ["b by a", "c by b"]),
        ("JOIN v FOR SYSTEM_TIME AS OF a.t AS v ON v.key = a.v", ["v by a"]),
        # Rows that decide about each other would be torn apart.
        ("JOIN LAST_ROW(b, other) b ON b.id = a.b", []),
        ("JOIN v FOR SYSTEM_TIME AS OF a.t AS v ON v.name = a.v", []),
        # All rows of b count, or some other condition lets them in.
        ("RIGHT JOIN b ON b.id = a.b", []),
        ("FULL JOIN b ON b.id = a.b", []),
        ("JOIN b ON b.id = a.b OR b.x = 1", []),
        ("JOIN b ON b.id > a.b", []),
        ("JOIN b ON b.id = a.b JOIN b AS again ON again.x = a.x", []),
        ("JOIN b ON b.id = a.b WHERE EXISTS (SELECT 1 FROM b)", []),
    ],
)
def test_inputs_that_are_needed_in_part_only(joins: str, narrowed: list[str]) -> None:
    statement = flink.parse("SELECT a.id FROM a " + joins)  # noqa: S608  (a test's own)
    result = narrowings(statement, {"a"}, {"v": ("key",)})
    assert [f"{narrowing.name} by {narrowing.by}" for narrowing in result] == narrowed
