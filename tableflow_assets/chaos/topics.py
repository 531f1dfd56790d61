"""The topics that the chaos harness feeds and breaks: one line each."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from tableflow_assets.settings.blocks import Mode
from tableflow_assets.settings.settings import Settings, TopicOptions


@dataclass(frozen=True)
class ChaosTopic:
    name: str
    partitions: int
    producer: Literal["plain", "transactional"] = "plain"
    mode: Mode = "append"
    bad_records: bool = False  # send one undecodable record before every fault
    abort_share: float = 0.0  # of the transactions
    keys: int = 0  # how many distinct keys; 0: no keys at all
    tombstone_share: float = 0.0  # of the records
    key_buckets: int = 1  # few files, because the whole table is read after every fault
    old_share: float = 0.0  # of the records: older than `retention`, for maintenance to drop


TOPICS: tuple[ChaosTopic, ...] = (
    ChaosTopic("clicks", partitions=4, bad_records=True, old_share=0.1),
    ChaosTopic("transfers", partitions=3, producer="transactional", abort_share=0.3),
    ChaosTopic("accounts", partitions=3, mode="upsert", keys=150, tombstone_share=0.1),
)


RETENTION = timedelta(days=2)
OLD = timedelta(days=4)


def topics_of_a_run() -> tuple[ChaosTopic, ...]:
    """Under unique names, so that a run does not judge what an earlier one left in the folder."""
    run = uuid.uuid4().hex[:8]
    return tuple(replace(topic, name=f"chaos-{topic.name}-{run}") for topic in TOPICS)


def options_of(topic: ChaosTopic) -> TopicOptions:
    today = datetime.now(UTC).date()
    options = TopicOptions(mode=topic.mode, first_window=today, key_buckets=topic.key_buckets)
    return options.model_copy(update={"retention": RETENTION}) if topic.old_share else options


def settings_for(topics: tuple[ChaosTopic, ...], settings: Settings) -> Settings:
    """The same servers, with only these topics."""
    return settings.model_copy(update={"topics": {t.name: options_of(t) for t in topics}})
