"""The room on the disk, with limits that it is below of or above, whatever the machine has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tableflow_assets.base.disk_space import DiskSpace, DiskWatch
from tableflow_assets.base.errors import DiskAlmostFull


def free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def test_with_room_nothing_is_said_and_nothing_refused(tmp_path: Path) -> None:
    disk = DiskSpace(tmp_path, least=1)
    disk.refuse_when_short()
    assert (disk.level, disk.warning) == ("", "")


def test_without_room_the_error_says_where_and_what_to_do(tmp_path: Path) -> None:
    disk = DiskSpace(tmp_path, least=2 * free(tmp_path))
    with pytest.raises(DiskAlmostFull, match="Nothing is ingested") as caught:
        disk.refuse_when_short()
    assert str(tmp_path) in caught.value.problem
    assert "min_free_disk" in caught.value.next_step
    assert "has stopped" in disk.warning


def test_it_is_said_in_time(tmp_path: Path) -> None:
    disk = DiskSpace(tmp_path, least=free(tmp_path) * 2 // 3)
    disk.refuse_when_short()
    assert "Ingestion stops below" in disk.warning


def test_a_folder_that_is_not_there_yet_is_where_it_will_be(tmp_path: Path) -> None:
    DiskSpace(tmp_path / "not" / "yet", least=1).refuse_when_short()


def test_each_change_is_reported_once(tmp_path: Path) -> None:
    report: list[str] = []
    enough, short = DiskSpace(tmp_path, least=1), DiskSpace(tmp_path, least=2 * free(tmp_path))
    watch = DiskWatch(enough, report.append)
    for disk in (enough, short, short, enough, enough):
        watch.disk = disk
        watch.look()
    assert len(report) == 2
    assert "has stopped" in report[0]
    assert "room again" in report[1]
