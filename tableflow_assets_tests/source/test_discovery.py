"""Which topics there are: found on the broker, remembered in a file."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.source.discovery import discover, known_topics, remember, remembered_topics
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments

NEW_YEAR = date(2024, 1, 1)


def settings_for(folder: Path, **topics: TopicOptions) -> Settings:
    chosen = {name.replace("__", "*"): options for name, options in topics.items()}
    return Settings(state_dir=folder / "state", topics=chosen)


def known(settings: Settings) -> dict[str, date | None]:
    return {topic.name: topic.first_window for topic in known_topics(settings)}


def today() -> date:
    return datetime.now(UTC).date()


def test_topics_are_remembered_with_their_first_day(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, __=TopicOptions())
    assert remembered_topics(settings) == {}
    remember(settings, {"b": NEW_YEAR})
    remember(settings, {"a": date(2025, 1, 1)})
    assert remembered_topics(settings) == {"a": date(2025, 1, 1), "b": NEW_YEAR}


def test_what_is_remembered_already_stays_as_it_is(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, __=TopicOptions())
    remember(settings, {"a": NEW_YEAR})
    remember(settings, {"a": date(2020, 1, 1), "b": NEW_YEAR})
    assert remembered_topics(settings) == {"a": NEW_YEAR, "b": NEW_YEAR}


def test_without_a_broker_the_named_topics_and_the_remembered_matches_are_known(
    tmp_path: Path,
) -> None:
    settings = settings_for(
        tmp_path,
        orders=TopicOptions(),
        old=TopicOptions(first_window=date(2001, 1, 1)),
        shop__=TopicOptions(),
    )
    remember(settings, {"shop.a": NEW_YEAR, "other": NEW_YEAR, "old": NEW_YEAR})
    assert known(settings) == {
        "old": date(2001, 1, 1),  # the settings know better
        "orders": today(),
        "shop.a": NEW_YEAR,
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"a": "2024-01-0',
        b"[]",
        b"null",
        b'"a"',
        b'{"a": "yesterday"}',
        b'{"a": 5}',
        b'{"a": null}',
        b"\xff\xfe\x00",
    ],
)
def test_a_corrupt_file_counts_as_none_and_is_written_again(tmp_path: Path, content: bytes) -> None:
    settings = settings_for(tmp_path, __=TopicOptions())
    path = settings.state_dir / "topics.json"
    path.parent.mkdir()
    path.write_bytes(content)
    assert remembered_topics(settings) == {}
    remember(settings, {"a": NEW_YEAR})
    assert remembered_topics(settings) == {"a": NEW_YEAR}
    assert json.loads(path.read_text()) == {"a": "2024-01-01"}


def test_a_new_topic_that_matches_a_pattern_is_found_once(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    moment = datetime(2024, 2, 3, 23, 59, tzinfo=UTC)
    kafka_topic.send(PAYMENT, payments(1), partition=1, timestamp=int(moment.timestamp() * 1000))
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    pattern = f"{kafka_topic.name[:-1]}?"
    settings = Settings(state_dir=tmp_path, topics={pattern: TopicOptions(group="found")})
    assert discover(settings, tableflow.log) == {kafka_topic.name}
    assert known(settings) == {kafka_topic.name: date(2024, 2, 3)}
    assert [topic.group for topic in known_topics(settings)] == ["found"]
    assert discover(settings, tableflow.log) == frozenset()


def test_an_empty_topic_begins_today(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    settings = Settings(state_dir=tmp_path, topics={kafka_topic.name: TopicOptions()})
    before = today()
    discover(settings, tableflow.log)
    assert before <= remembered_topics(settings)[kafka_topic.name] <= today()


def test_topics_that_no_pattern_matches_are_left_alone(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    settings = Settings(state_dir=tmp_path, topics={"another-*": TopicOptions()})
    assert discover(settings, tableflow.log) == frozenset()
    assert not (tmp_path / "topics.json").exists()


def test_a_topic_that_has_gone_stays_known(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    settings = Settings(state_dir=tmp_path, topics={f"{kafka_topic.name}*": TopicOptions()})
    discover(settings, tableflow.log)
    kafka_topic.delete()
    discover(settings, tableflow.log)
    assert list(known(settings)) == [kafka_topic.name]
