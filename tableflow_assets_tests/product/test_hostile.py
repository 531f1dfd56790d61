"""The hostile records have every case, fit the topics' schemas, and are the same for a seed."""

from __future__ import annotations

import ast
import io
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pytest

from tableflow_assets.labs.avro_schemas import parsed_schema
from tableflow_assets_tests.product.cases import ONCE, SEVERAL
from tableflow_assets_tests.product.exact import comparable
from tableflow_assets_tests.product.hostile import (
    NOON_MS,
    Sent,
    as_logged,
    hostile_records,
    shuffled,
    split,
)
from tableflow_assets_tests.product.oracle import KEYS, expected

SEEDS = (1, 2, 3)
FOLDER = Path(__file__).parent
TWO_HOURS_MS = 2 * 3_600_000


@pytest.mark.parametrize("case", SEVERAL)
def test_a_case_is_there_several_times(case: str) -> None:
    assert all(SEVERAL[case](hostile_records(seed)) >= 2 for seed in SEEDS)


@pytest.mark.parametrize("case", ONCE)
def test_a_case_is_there(case: str) -> None:
    assert all(ONCE[case](hostile_records(seed)) >= 1 for seed in SEEDS)


def content(sent: Sent) -> tuple[str, str, str]:
    return sent.topic, sent.key, repr(sent.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_records_are_few_and_fit_the_schemas(seed: int) -> None:
    records = hostile_records(seed)
    assert 350 < len(records) < 600
    for sent in records:
        data = io.BytesIO()
        fastavro.schemaless_writer(data, parsed_schema(sent.topic), sent.value, strict=True)
        data.seek(0)
        decoded: Any = fastavro.schemaless_reader(data, parsed_schema(sent.topic), None)
        assert comparable([decoded]) == comparable([sent.value])


@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_timestamps_rise_but_for_slow_clocks_and_some_are_equal(seed: int) -> None:
    records = hostile_records(seed)
    for stamped in (records, shuffled(records, seed)):
        times = [sent.timestamp_ms for sent in stamped]
        right = [ms for ms in times if ms >= NOON_MS - TWO_HOURS_MS]
        slow = [ms for ms in times if ms < NOON_MS - TWO_HOURS_MS]
        assert right == sorted(right)
        assert right[-1] == NOON_MS - 1
        assert 20 < len(slow) < len(right) / 4
        assert min(slow) >= NOON_MS - 2 * TWO_HOURS_MS
        assert sum(earlier == later for earlier, later in pairwise(right)) > 20


def test_the_seed_decides() -> None:
    assert hostile_records(1) == hostile_records(1)
    assert hostile_records(1) != hostile_records(2)
    records = hostile_records(1)
    assert shuffled(records, 1) == shuffled(records, 1) != shuffled(records, 2)
    assert split(records, 5, 1) == split(records, 5, 1) != split(records, 5, 2)


def test_a_shuffle_keeps_the_content_and_changes_the_rows() -> None:
    records = hostile_records(1)
    other = shuffled(records, 1)
    assert Counter(map(content, other)) == Counter(map(content, records))
    assert expected(as_logged(other)) != expected(as_logged(records))


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_batches_are_the_records_in_order(parts: int) -> None:
    records = hostile_records(1)
    batches = split(records, parts, seed=3)
    assert len(batches) == parts
    assert all(batches)
    assert [sent for batch in batches for sent in batch] == records


@pytest.mark.parametrize("seed", SEEDS)
def test_every_product_has_rows_with_keys_of_their_own(seed: int) -> None:
    for name, rows in expected(as_logged(hostile_records(seed))).items():
        keys = [tuple(row[column] for column in KEYS[name]) for row in rows]
        assert len(keys) > 5
        assert keys == sorted(set(keys))


def test_the_oracle_goes_by_kafkas_order_and_not_by_the_lists() -> None:
    log = as_logged(hostile_records(1))
    mixed = list(log)
    Random(1).shuffle(mixed)  # noqa: S311
    assert expected(mixed) == expected(log)


def test_the_oracle_stands_alone() -> None:
    allowed = {*sys.stdlib_module_names, "tableflow_assets_tests"}
    for module in (*FOLDER.glob("oracle*.py"), FOLDER / "log.py", FOLDER / "exact.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            else:
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert {name.split(".")[0] for name in names} <= allowed
