"""The Delta log follows the Iceberg table, whatever happens to either of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.types import DecimalType, LongType, StringType

from tableflow_assets.base import boundary
from tableflow_assets.table import commit as commits
from tableflow_assets.table import handle as handles
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta import mirror
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.tables import Interruption
from tableflow_assets_tests.table.delta.own_tables import (
    VECTORS,
    OwnTable,
    assert_in_step,
    is_free,
    snapshots_of,
)


def unmirrored(
    own: OwnTable, monkeypatch: pytest.MonkeyPatch, *commits_: Callable[[], Any]
) -> None:
    """Commits of runs that die right after them."""
    with monkeypatch.context() as patch:
        patch.setattr(handles, "follow", lambda *_, **__: None)
        for commit in commits_:
            commit()


# --- what a commit does to the log ------------------------------------------------------------


def test_rows_and_replaced_rows_are_one_version_a_commit(keyed: OwnTable) -> None:
    keyed.append(5)
    keyed.replace(1, 2, 5)
    assert keyed.log.newest == 4
    assert len(keyed.now().snapshots()) == 7  # those with marks have two each
    assert_in_step(keyed)
    actions = keyed.log.commit(4)
    assert {"WRITE"} == {
        action["commitInfo"]["operation"] for action in actions if "commitInfo" in action
    }
    for version, count in ((0, 0), (1, 4), (2, 4), (3, 5)):
        assert len(keyed.delta_rows(version)) == count
    (transaction,) = [action["txn"] for action in actions if "txn" in action]
    head = keyed.now().current_snapshot()
    assert head is not None
    assert transaction["version"] == head.sequence_number


def test_a_row_replaced_in_the_file_of_its_own_commit(keyed: OwnTable) -> None:
    """Marks on top of marks, in files that were there and in new ones."""
    for ids in ((1, 2), (2, 3), (1, 2, 3, 4)):
        keyed.replace(*ids)
    assert_in_step(keyed)


@pytest.mark.parametrize("change", ["added", "nested", "widened"])
def test_a_column_that_comes_or_widens_shows_before_any_row_has_it(
    own: OwnTable, change: str
) -> None:
    with own.now().update_schema() as update:
        if change == "added":
            update.add_column("note", StringType())
        elif change == "nested":
            update.add_column(("_kafka", "note"), StringType())
        else:
            update.update_column("id", LongType())
    assert upkeep.mirror_status(own.catalog, own.now()).behind == 1
    assert catch_up(own.catalog, own.now()) == 1
    assert upkeep.mirror_status(own.catalog, own.now()).behind == 0
    assert_in_step(own)
    own.append(2**40 if change == "widened" else 4, **({"note": "n"} if change == "added" else {}))
    assert own.log.newest == 3
    assert not any("metaData" in action for action in own.log.commit(3))
    assert_in_step(own)


def test_bounds_keep_their_digits_when_rows_of_the_file_are_replaced(keyed: OwnTable) -> None:
    with keyed.now().update_schema() as update:
        update.add_column("price", DecimalType(38, 10))
    most = "9999999999999999999999999999.9999999999"
    keyed.append(10, 11, 12, 13, price=Decimal(most))
    keyed.replace(10, 11, 12, 13, price=Decimal(1))
    marked = [
        action["add"] for action in keyed.log.commit(4) if "deletionVector" in action.get("add", {})
    ]
    assert marked
    assert all(f'"price":{most}' in file["stats"] for file in marked)
    assert all('"tightBounds":false' in file["stats"] for file in marked)


def test_compaction_changes_files_and_no_rows(keyed: OwnTable, tableflow: Tableflow) -> None:
    name = ".".join(keyed.now().name())
    tableflow.spark.sql(
        f"CALL {tableflow.settings.spark_catalog}.system.rewrite_data_files("
        f"table => '{name}', options => map('rewrite-all', 'true'))"
    ).collect()
    assert catch_up(keyed.catalog, keyed.now()) == 1
    actions = keyed.log.commit(3)
    files = [
        action.get("add") or action["remove"]
        for action in actions
        if {"add", "remove"} & action.keys()
    ]
    assert files
    assert not any(file["dataChange"] for file in files)
    assert_in_step(keyed)


def test_many_snapshots_that_nobody_saw_are_one_version(own: OwnTable) -> None:
    """A rebuild grows on a branch, with an entry in every step: readers see the end of it only."""
    table, ledger = own.now(), read_ledger(own.now())
    with commits.own_branch(own.catalog, table, ledger.head, commits.REBUILD) as branch:
        commits.empty_branch(own.catalog, table, branch, ledger.entry)
        for ids in ((1, 2), (3,)):
            own._append(table, branch, ids, ledger.entry, {})
        own.handle.commit_and_mirror(table, branch, ledger.head)
    assert own.log.newest == 2
    assert [row["id"] for row in own.delta_rows()] == [1, 2, 3]
    assert_in_step(own)


# --- who comes too late, or dies --------------------------------------------------------------


def test_who_is_behind_writes_every_state_in_turn(
    keyed: OwnTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one needs to know what the one before has just written."""
    states = [keyed.rows()]
    replaced = (
        (lambda: keyed.append(5, 6)),
        (lambda: keyed.replace(5, 1)),
        (lambda: keyed.append(7)),
    )
    for commit in replaced:
        unmirrored(keyed, monkeypatch, commit)
        states.append(keyed.rows())
    assert upkeep.mirror_status(keyed.catalog, keyed.now()).behind == 3
    assert catch_up(keyed.catalog, keyed.now()) == 3
    assert [keyed.delta_rows(version) for version in (2, 3, 4, 5)] == states
    assert_in_step(keyed)


def test_eight_who_mirror_at_once_write_every_version_once(
    keyed: OwnTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmirrored(
        keyed,
        monkeypatch,
        lambda: keyed.append(5),
        lambda: keyed.replace(1, 5),
        lambda: keyed.replace(2),
        lambda: keyed.append(6),
    )
    assert upkeep.mirror_status(keyed.catalog, keyed.now()).behind == 4
    tables = [keyed.now() for _ in range(8)]
    with ThreadPoolExecutor(8) as mirrors:
        list(mirrors.map(lambda table: catch_up(keyed.catalog, table), tables))
    assert keyed.log.all_commits == list(range(7))
    assert len(set(snapshots_of(keyed))) == 7
    assert_in_step(keyed)


@pytest.mark.parametrize("moment", ["committed", "vectors_written"])
def test_who_dies_between_the_commit_and_its_version_is_followed_by_one_who_writes_it(
    keyed: OwnTable, moment: str
) -> None:
    def die(reached: str) -> None:
        if reached == moment:
            raise Interruption

    boundary.listen(die)
    with pytest.raises(Interruption):
        keyed.replace(1, 4)
    boundary.listen(None)
    assert keyed.log.newest == 2
    upkeep.keep_in_step(keyed.catalog, keyed.now(), keyed.topic)  # how every run begins
    assert keyed.log.newest == 3
    assert_in_step(keyed)
    assert len(keyed.store.names(VECTORS)) == 2  # what the dead one wrote is what was needed


def test_a_table_that_went_back_takes_the_log_along(keyed: OwnTable) -> None:
    before = keyed.rows()
    head = keyed.head
    keyed.append(7)
    keyed.replace(2)
    keyed.now().manage_snapshots().rollback_to_snapshot(head).commit()
    mirror.follow(keyed.catalog, keyed.now())
    assert keyed.delta_rows() == before
    assert keyed.log.newest == 5
    assert_in_step(keyed)
    keyed.replace(3)
    assert_in_step(keyed)


def test_states_that_expired_before_they_were_mirrored_are_passed_over(
    keyed: OwnTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmirrored(keyed, monkeypatch, *(lambda at=at: keyed.replace(at) for at in (1, 2, 2)))
    table = keyed.now()
    old = [snapshot.snapshot_id for snapshot in table.snapshots()][:-2]
    table.maintenance.expire_snapshots().by_ids(
        [snapshot_id for snapshot_id in old if is_free(table, snapshot_id)]
    ).commit()
    assert catch_up(keyed.catalog, keyed.now()) == 1
    assert_in_step(keyed)
