"""The stream: repeatable, filtered without side effects, in steps or live."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.labs import DEFAULT_START, LAB_TOPICS, generate, generate_live, records
from tableflow_assets.labs.record import EPOCH, LabRecord


def test_same_seed_and_start_give_the_same_records() -> None:
    assert list(records(seed=3, count=2_000)) == list(records(seed=3, count=2_000))


def test_records_do_not_depend_on_the_process() -> None:
    program = (
        "import hashlib; from tableflow_assets.labs import records;"
        "print(hashlib.sha256(repr(list(records(3, 2_000))).encode()).hexdigest())"
    )

    def digest(hash_seed: str) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.check_output([sys.executable, "-c", program], env=environment)

    assert digest("1") == digest("2")


def test_another_seed_gives_other_records_and_other_keys() -> None:
    def keys(seed: int) -> set[tuple[str, str]]:
        return {(record.topic, record.key) for record in records(seed, count=2_000)}

    assert keys(3).isdisjoint(keys(4))


def test_another_start_moves_every_time_along() -> None:
    later = timedelta(days=40)
    originals = records(seed=3, count=2_000)
    moved = records(seed=3, count=2_000, start=DEFAULT_START + later)
    for before, after in zip(originals, moved, strict=True):
        assert after.timestamp_ms - before.timestamp_ms == later // timedelta(milliseconds=1)
        assert _lags(after) == _lags(before)


def test_kafka_timestamps_advance_in_steps_from_the_start() -> None:
    step = timedelta(seconds=2)
    timestamps = [r.timestamp_ms for r in islice(generate(3, DEFAULT_START, step=step), 500)]
    first = (DEFAULT_START - EPOCH) // timedelta(milliseconds=1)
    assert timestamps == [first + 2_000 * n for n in range(500)]


@pytest.mark.parametrize("topic", LAB_TOPICS)
def test_asking_for_one_topic_leaves_its_records_unchanged(topic: str) -> None:
    among_all = [r for r in records(seed=3, count=3_000) if r.topic == topic]
    alone = list(records(seed=3, count=len(among_all), topics=[topic]))
    assert alone == among_all
    assert among_all


def test_facts_make_up_most_of_the_stream() -> None:
    dimensions = [
        t for t in LAB_TOPICS if t.endswith(("customers", "products", "customer", "hotel"))
    ]
    assert len(dimensions) == 4
    total = sum(record.topic in dimensions for record in records(seed=3, count=5_000))
    assert 0 < total < 500


def test_unknown_topic_is_refused_at_once_with_the_allowed_names() -> None:
    with pytest.raises(SettingsError, match="paymnts") as refusal:
        generate(3, DEFAULT_START, topics=["payments", "paymnts"])
    assert all(topic in refusal.value.next_step for topic in LAB_TOPICS)


def test_requests_that_would_never_end_or_mean_nothing_are_refused() -> None:
    with pytest.raises(SettingsError, match="No lab topic"):
        generate_live(3, topics=[])
    with pytest.raises(SettingsError, match="-1"):
        records(3, count=-1)
    with pytest.raises(SettingsError, match="time zone"):
        generate(3, datetime(2026, 1, 5))


def test_live_records_are_stamped_when_they_are_taken() -> None:
    stream = generate_live(3)
    for record in islice(stream, 300):
        assert abs(record.timestamp_ms - time.time() * 1000) < 2_000
    time.sleep(0.05)
    resumed = int(time.time() * 1000)
    assert next(stream).timestamp_ms >= resumed


def test_live_records_tell_the_same_story_at_another_time() -> None:
    payments_seen: set[str] = set()
    for live, fixed in zip(generate_live(3), records(seed=3, count=3_000), strict=False):
        assert (live.topic, live.key) == (fixed.topic, fixed.key)
        # A repeated payment keeps its first event time: its lag is the time between the two.
        if live.key not in payments_seen:
            assert _lags(live) == _lags(fixed)
        if live.topic == "payments":
            payments_seen.add(live.key)


def _lags(record: LabRecord) -> list[timedelta]:
    produced = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    times = [value for value in record.value.values() if isinstance(value, datetime)]
    return [produced - moment for moment in times]
