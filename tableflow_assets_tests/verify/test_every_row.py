"""Every row, value by value: in portions, and only as far as the log still has its record."""

from __future__ import annotations

import pytest

from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify import every_row
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import compared, pipeline_of
from tableflow_assets_tests.table import damage


@pytest.fixture(autouse=True)
def _few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_row, "MOST_ROWS", 5)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_are_compared_in_portions(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode=mode)
    for first in range(0, 12, 4):
        for payment in payments(4, first):
            key = b"k%d" % (payment["id"] % 7)
            kafka_topic.send(PAYMENT, [payment], partition=payment["id"] % 2, key=key)
        pipeline.catch_up()
    portions: list[tuple[int, int]] = []
    rows = 12 if mode == "append" else 7

    def seen() -> tuple[int, list[str]]:
        results = compared(
            pipeline, deep=True, on_compared=lambda *counted: portions.append(counted)
        )
        assert all(result.ok == (result.differing == 0) for result in results), results
        texts = [text for result in results for text in result.differences]
        return sum(result.sampled for result in results), texts

    assert seen() == (rows, [])
    assert sum(count for count, _ in portions) == rows
    assert {total for _, total in portions} == {rows}
    assert len(portions) > 1
    damage.run_sql(pipeline, "UPDATE TABLE SET amount = -1 WHERE id = 10")
    assert seen() == (rows, [f"{kafka_topic.name} 0:5 amount: the log has 5.0, the table -1.0"])


def test_a_row_whose_record_has_expired_is_not_compared(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(6), partition=0)
    kafka_topic.send(PAYMENT, payments(3), partition=1)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete_records_before(0, 2)
    kafka_topic.delete_records_before(1, 3)
    damage.run_sql(pipeline, "UPDATE TABLE SET amount = -1 WHERE id < 3")
    results = compared(pipeline, deep=True)
    assert [(result.sampled, result.differing) for result in results] == [(4, 1), (0, 0)]
