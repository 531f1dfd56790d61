"""Answers that a broker gives while a partition changes its leader."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.source import kafka_admin
from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.kafka_admin import KafkaAdmin
from tableflow_assets_tests.support.ports import closed_port

HERE, THERE = TopicPartition("payments", 0), TopicPartition("payments", 1)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> KafkaAdmin:
    """Nobody listens at its address: the answers are the test's own."""
    monkeypatch.setattr(kafka_admin, "WHILE_LEADERS_CHANGE", (0.0, 0.0))
    return KafkaAdmin(KafkaAccess(f"127.0.0.1:{closed_port()}"), timeout_seconds=1)


def promised(answer: int | KafkaError) -> Future[int]:
    future: Future[int] = Future()
    if isinstance(answer, KafkaError):
        future.set_exception(KafkaException(answer))
    else:
        future.set_result(answer)
    return future


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
)
def test_it_is_asked_again_until_there_is_a_leader(admin: KafkaAdmin, code: int) -> None:
    promises = [promised(KafkaError(code)), promised(KafkaError(code)), promised(9)]

    def question(_: Any) -> dict[TopicPartition, Future[int]]:
        return {HERE: promised(5), THERE: promises.pop(0)}

    assert admin.ask_each(question) == {HERE: 5, THERE: 9}
    assert promises == []


def test_without_a_leader_for_long_it_is_an_error(admin: KafkaAdmin) -> None:
    questions = []

    def question(_: Any) -> dict[TopicPartition, Future[int]]:
        questions.append(HERE)
        return {HERE: promised(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))}

    with pytest.raises(ServerUnreachable, match="Not leader for partition"):
        admin.ask_each(question)
    assert len(questions) == 3


def test_other_errors_are_told_at_once(admin: KafkaAdmin) -> None:
    questions = []

    def question(_: Any) -> dict[TopicPartition, Future[int]]:
        questions.append(HERE)
        return {HERE: promised(KafkaError(KafkaError.INVALID_REQUEST))}

    with pytest.raises(ServerUnreachable):
        admin.ask_each(question)
    assert len(questions) == 1
