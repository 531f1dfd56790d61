"""What is remembered of tables: enough to miss one, and nothing that may not get lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tableflow_assets.base.errors import LedgerError, NewerFormat
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.known_tables import (
    forget,
    refuse_a_vanished_table,
    remember,
    remembered,
)

ORDERS = Topic(name="shop.orders")


def test_a_table_that_nobody_knew_may_be_made(tmp_path: Path) -> None:
    refuse_a_vanished_table(tmp_path / "not made yet", ORDERS, "lake")


def test_a_known_table_that_is_gone_is_named_with_its_uuid_and_the_way_out(tmp_path: Path) -> None:
    uuid = uuid4()
    remember(tmp_path, ORDERS, uuid, "lake")
    with pytest.raises(
        LedgerError, match=rf"lake\.shop_orders \(uuid {uuid}\).* is gone"
    ) as caught:
        refuse_a_vanished_table(tmp_path, ORDERS, "lake")
    assert "`tableflow rebuild shop.orders`" in caught.value.next_step


def test_another_namespace_has_tables_of_its_own(tmp_path: Path) -> None:
    remember(tmp_path, ORDERS, uuid4(), "lake")
    refuse_a_vanished_table(tmp_path, ORDERS, "another")


def test_a_forgotten_table_may_be_made_anew(tmp_path: Path) -> None:
    payments, uuid = Topic(name="payments"), uuid4()
    remember(tmp_path, ORDERS, uuid4(), "lake")
    remember(tmp_path, payments, uuid, "lake")
    forget(tmp_path, ORDERS, "lake")
    forget(tmp_path, ORDERS, "lake")
    refuse_a_vanished_table(tmp_path, ORDERS, "lake")
    assert remembered(tmp_path) == {"lake.payments": str(uuid)}


def test_a_table_made_anew_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    remember(tmp_path, ORDERS, uuid4(), "lake")
    newer = uuid4()
    remember(tmp_path, ORDERS, newer, "lake")
    assert remembered(tmp_path) == {"lake.shop_orders": str(newer)}


def test_a_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    (tmp_path / "tables.json").write_text(json.dumps({"lake.shop_orders": "u"}))
    assert remembered(tmp_path) == {"lake.shop_orders": "u"}
    remember(tmp_path, Topic(name="other"), uuid4(), "lake")
    assert remembered(tmp_path)["lake.shop_orders"] == "u"


def test_a_file_of_a_newer_version_is_refused_and_stays(tmp_path: Path) -> None:
    text = json.dumps({"version": 2, "tables": []})
    (tmp_path / "tables.json").write_text(text)
    with pytest.raises(NewerFormat, match="newer version of Tableflow Assets: version 2"):
        remember(tmp_path, ORDERS, uuid4(), "lake")
    assert (tmp_path / "tables.json").read_text() == text


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "3", "null"])
def test_a_file_that_cannot_be_read_counts_as_lost_and_is_written_again(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "tables.json").write_text(text)
    refuse_a_vanished_table(tmp_path, ORDERS, "lake")
    remember(tmp_path, ORDERS, uuid4(), "lake")
    assert list(remembered(tmp_path)) == ["lake.shop_orders"]


def test_runs_at_the_same_time_remember_each_its_table(tmp_path: Path) -> None:
    topics = [Topic(name=f"topic-{number}") for number in range(50)]
    with ThreadPoolExecutor(8) as runs:
        list(runs.map(lambda topic: remember(tmp_path, topic, uuid4(), "lake"), topics))
    assert len(remembered(tmp_path)) == 50
