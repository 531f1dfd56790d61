"""One fixed set of lab records, shared by the tests that look at its content."""

from __future__ import annotations

import pytest

from tableflow_assets.labs import LAB_TOPICS, LabRecord, records

LabSample = dict[str, list[LabRecord]]


@pytest.fixture(scope="session")
def sample() -> LabSample:
    """5,000 records by topic, in the order of the stream."""
    by_topic: LabSample = {topic: [] for topic in LAB_TOPICS}
    for record in records(seed=7, count=5_000):
        by_topic[record.topic].append(record)
    return by_topic
