"""When a staying process merges small files: with scripted topics, and on a real table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.follow import packing
from tableflow_assets.follow.follow import follow
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.packing import COMMITS_WITH_KEYS, Packing, PackTurn
from tableflow_assets.follow.turn import Turn
from tableflow_assets.follow.workers import always
from tableflow_assets.operate.maintenance.compact import Compacted
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Topic, TopicOptions
from tableflow_assets.table.snapshots import total_now
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify
from tableflow_assets_tests.defs.dagster_world import settings_on
from tableflow_assets_tests.follow.scripted import Script
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

QUICK = Pace(look_seconds=0.02, rest=0, idle_seconds=0.4, products_rest=0)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose files were merged, one after the other; nothing is."""
    names: list[str] = []

    def compact(table: ManagedTable) -> Compacted:
        names.append(table.name)
        return Compacted(
            table.name, dry_run=False, strategy="binpack", files_before=9, files_after=1
        )

    monkeypatch.setattr(packing, "compact", compact)
    monkeypatch.setattr(packing, "COMMITS", 4)
    monkeypatch.setattr(packing, "WAIT", 0.0)
    return names


def commit_again_and_again(script: Script, commits: int, **options: object) -> list[PackTurn]:
    turns: list[PackTurn] = []

    def more(turn: Turn) -> None:
        if script.ends[turn.name] < commits:
            script.ends[turn.name] += 1

    follow(script.tableflow, pace=QUICK, on_turn=more, on_packed=turns.append, **options)  # type: ignore[arg-type]
    return turns


def test_after_some_commits_a_tables_files_are_merged(tmp_path: Path, packed: list[str]) -> None:
    script = Script(tmp_path, {"busy": 1, "calm": 1})
    script.ends["calm"] = 1
    turns: list[PackTurn] = []

    def one_more(turn: Turn | PackTurn) -> None:
        """Not while a merge is due: on a busy machine it would come after more commits than that."""
        commits = script.ends[turn.name]
        if commits < 9 and packed.count(turn.name) == commits // 4:
            script.ends[turn.name] += 1

    def packed_one(turn: PackTurn) -> None:
        turns.append(turn)
        one_more(turn)

    follow(script.tableflow, pace=QUICK, on_turn=one_more, on_packed=packed_one)
    assert packed.count("busy") == packed.count("calm") == 2
    assert all(turn.is_work_done for turn in turns)


def test_products_count_too(tmp_path: Path, packed: list[str]) -> None:
    script = Script(tmp_path, {"payments": 1}, products={"unique": ("payments",)})
    commit_again_and_again(script, 12)
    assert {"payments", "unique"} == set(packed)


def test_one_that_cannot_be_merged_goes_on_being_committed(
    tmp_path: Path, packed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(table: ManagedTable) -> Compacted:
        raise TableflowError("no room")

    monkeypatch.setattr(packing, "compact", fail)
    script = Script(tmp_path, {"busy": 1})
    turns = commit_again_and_again(script, 9)
    assert script.committed == {"busy": 9}
    assert {turn.error.problem for turn in turns if turn.error} == {"no room"}


@pytest.mark.parametrize(
    ("table", "commits", "is_due"),
    [
        (Topic(name="t"), 3, False),
        (Topic(name="t"), 4, True),
        (Topic(name="t", mode="upsert"), COMMITS_WITH_KEYS, True),
        (Topic(name="t", maintenance=None), 100, False),
    ],
)
def test_when_a_table_is_due(
    tmp_path: Path, packed: list[str], table: ManagedTable, commits: int, is_due: bool
) -> None:
    turns: list[PackTurn] = []
    script = Script(tmp_path, {})
    work = Packing(script.tableflow, QUICK, always, turns.append)
    for _ in range(commits):
        work.note_commits(table)
    work.give_turns(1.0, set())
    while work.busy:
        work.settle()
    assert bool(turns) == is_due


def test_a_large_table_is_not_rewritten_all_the_time(
    tmp_path: Path, packed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "WAIT", 1e6)
    commit_again_and_again(Script(tmp_path, {"busy": 1}), 20)
    assert packed == ["busy"]


def test_a_real_table_with_keys_stays_small_and_right(
    tableflow: Tableflow, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    options = TopicOptions(mode="upsert")
    state = tableflow.settings.state_dir
    settings = settings_on(state, tmp_path / "state", topics={kafka_topic.name: options})
    with_keys = Tableflow(settings)
    turns: list[PackTurn] = []
    sent = 0

    def send_one_more(turn: Turn | None = None) -> None:
        """After each commit, so that none of them brings two."""
        nonlocal sent
        if sent < COMMITS_WITH_KEYS and (turn is None or turn.has_committed):
            sent += 1
            kafka_topic.send(PAYMENT, [{"id": sent, "amount": 1.0}], key=f"{sent % 3}".encode())

    send_one_more()
    pace = replace(QUICK, idle_seconds=3)
    names = [kafka_topic.name]
    follow(
        lambda: with_keys, topics=names, pace=pace, on_turn=send_one_more, on_packed=turns.append
    )

    (turn,) = turns
    assert turn.error is None and turn.is_work_done, turn
    topic = with_keys.topic(kafka_topic.name)
    table = with_keys.existing_table(topic)
    assert total_now(table, "total-data-files") <= 3
    assert all(
        result.ok
        for result in verify(with_keys.log, with_keys.catalog, topic, registry=with_keys.registry)
    )
