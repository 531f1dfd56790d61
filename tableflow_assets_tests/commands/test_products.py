"""`tableflow products`, and the saved queries over what they make, in a namespace of their own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tableflow_assets.commands import query
from tableflow_assets.labs.avro_schemas import schema_text
from tableflow_assets.product import recheck
from tableflow_assets.product.recheck import Recheck
from tableflow_assets.settings.settings import Settings, load_settings
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Answer, Command
from tableflow_assets_tests.product.broken_sql import WRONG_COLUMN
from tableflow_assets_tests.support.crashes import break_the_look_at
from tableflow_assets_tests.support.kafka_topics import KafkaTopic

on_stack = pytest.mark.usefixtures("on_stack")
NOON = datetime(2026, 2, 5, 12, tzinfo=UTC)
LAB = "products: {unique_payments: {}, completed_orders: {}, prospects: {}}\n"


@dataclass(frozen=True)
class Shop:
    """Payments and orders in topics of their own; ``file``: settings whose products read them."""

    file: str
    payments: KafkaTopic
    orders: KafkaTopic

    def order(self, *numbers: int) -> None:
        schema = json.loads(schema_text("shiftleft.public.orders"))
        shared: dict[str, Any] = {"customerid": 1, "orderdate": NOON, "channel": "web"}
        self.orders.send(schema, [shared | {"orderid": one} for one in numbers])

    def pay(self, *numbers: int, amount: float = 10.0) -> None:
        shared: dict[str, Any] = {"product_id": 1, "customer_id": 1, "confirmation_code": "X"}
        shared |= {"cc_number": None, "expiration": "12/29", "amount": amount}
        hours = {one: timedelta(hours=one % 5 + 1) for one in numbers}
        values = [shared | {"order_id": one, "ts": NOON + hours[one]} for one in numbers]
        self.payments.send(json.loads(schema_text("payments")), values)


@pytest.fixture(scope="module")
def shop(session_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    mark = uuid4().hex[:12]
    topics = [KafkaTopic(kafka, registry, f"test-{mark}-{one}") for one in ("payments", "orders")]
    file = tmp_path_factory.mktemp("shop") / "tableflow.yaml"
    file.write_text(
        f"""
namespace: test_{mark}
topics: {{{topics[0].name}: {{}}, {topics[1].name}: {{}}, test-{mark}-clicks: {{}}, bookings: {{}}}}
products:
  unique_payments: {{inputs: {{payments: {topics[0].name}}}}}
  completed_orders: {{inputs: {{shiftleft.public.orders: {topics[1].name}}}}}
  bookings_with_watermark: {{}}
"""
    )
    made = Shop(str(file), *topics)
    made.order(*range(1, 21))
    made.pay(*range(1, 11))
    settings = load_settings(file).model_copy(update={"state_dir": session_settings.state_dir})
    tableflow = Tableflow(settings)  # not to be closed: all share one session of Spark
    for topic in topics:
        tableflow.pipeline(tableflow.topic(topic.name)).catch_up()
    return made


@pytest.fixture
def in_shop(command: Command, shop: Shop) -> Command:
    def run(*arguments: str) -> Answer:
        return command("--config", shop.file, *arguments)

    return run


def states(answer: Answer) -> dict[str, str]:
    assert answer.code == 0, answer.err
    return {one["product"]: one["state"] for one in answer.json}


@on_stack
def test_products_are_made_follow_and_are_checked(in_shop: Command, shop: Shop) -> None:
    assert states(in_shop("products", "list", "--json")) == {
        "unique_payments": "no_table",
        "completed_orders": "waiting",
        "bookings_with_watermark": "waiting",
    }
    none = in_shop("query", "hourly_sales")
    assert none.code == 1
    assert "'completed_orders', which has no table yet" in none.err
    assert "Next step: Make it: tableflow products run completed_orders" in none.err

    ran = in_shop("products", "run", "--json")
    assert ran.code == 0, ran.err
    told = {one["product"]: one for one in ran.json}
    assert [told[one]["rows_added"] for one in ("unique_payments", "completed_orders")] == [10, 10]
    assert "has no table yet" in told["bookings_with_watermark"]["waits"]

    again = in_shop("products", "run", "unique_payments", "--json").json
    assert [(one["product"], one["values_recomputed"]) for one in again] == [
        ("unique_payments", 0),
        ("completed_orders", 0),
    ], "also what is made of it, and no more"

    shop.pay(11, 12)
    assert in_shop("materialize", shop.payments.name).code == 0
    behind = in_shop("products", "list")
    assert "behind payments" in behind.out
    ran = in_shop("products", "run", "unique_payments")
    assert ran.code == 0, ran.err
    assert "Also runs what reads unique_payments: completed_orders." in ran.err
    assert len([line for line in ran.out.splitlines() if line.count(" 2 ") == 2]) == 2, ran.out
    answer = in_shop("products", "list", "--json")
    assert answer.code == 0, answer.err
    listed = {one["product"]: one for one in answer.json}
    assert (listed["completed_orders"]["state"], listed["completed_orders"]["rows"]) == (
        "current",
        12,
    )

    checked = in_shop("products", "check", "--json")
    assert checked.code == 0, checked.err
    unique, completed, waiting = checked.json
    assert waiting["product"] == "bookings_with_watermark"
    assert (unique["passed"], unique["rows_compared"], completed["rows_compared"]) == (True, 12, 12)
    assert {one["name"]: one["offending"] for one in unique["checks"]}["amounts_are_positive"] == 0


@on_stack
def test_a_product_that_crashes_is_named_and_the_others_are_done(
    in_shop: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_the_look_at("unique_payments", monkeypatch)
    answer = in_shop("products", "list", "--json")
    assert answer.code == 0, answer.err
    listed = {one["product"]: one for one in answer.json}
    assert "Unforeseen KeyError: 'what nobody foresaw'" in listed["unique_payments"]["reason"]
    assert listed["bookings_with_watermark"]["state"] == "waiting"
    ran = in_shop("products", "run", "--json")
    assert (ran.code, "unique_payments: Unforeseen KeyError" in ran.err) == (1, True)
    assert "bookings_with_watermark" in {one["product"] for one in ran.json}


@on_stack
def test_config_check_lets_spark_analyze_the_products(
    command: Command, in_shop: Command, shop: Shop
) -> None:
    right = in_shop("config", "check")
    assert right.code == 0, right.err
    assert "4 topics and patterns, 3 products" in right.out
    assert "bookings_with_watermark: Spark has not seen its SQL." in right.err

    file = Path(shop.file).with_name("wrong.yaml")
    wrong = file.with_name("wrong.sql")
    wrong.write_text(WRONG_COLUMN)
    entry = f"  wrong: {{sql: wrong.sql, inputs: {{payments: {shop.payments.name}}}}}\n"
    file.write_text(Path(shop.file).read_text() + entry)
    for sql, line in (
        (WRONG_COLUMN, 11),
        (WRONG_COLUMN.replace("amont", "amount").replace("order_id: order_id}", "order_id: x}"), 7),
        (WRONG_COLUMN.replace("amont,", "amount ),"), 11),
    ):
        wrong.write_text(sql)
        answer = command("--config", str(file), "config", "check")
        assert (answer.code, answer.out) == (1, "")
        assert f"{wrong}:{line}: " in answer.err
        assert "Traceback" not in answer.err


@on_stack
def test_a_broken_product_fails_alone(command: Command, shop: Shop) -> None:
    file = Path(shop.file).with_name("lost.yaml")
    file.write_text(Path(shop.file).read_text() + "  lost: {sql: lost.sql}\n")
    listed = command("--config", str(file), "products", "list", "--json")
    assert listed.code == 0, listed.err
    assert {one["product"]: one["state"] for one in listed.json}["lost"] == "error"
    ran = command("--config", str(file), "products", "run", "--json")
    assert ran.code == 1
    assert "lost: The SQL of the product 'lost' cannot be read" in ran.err
    assert {one["product"] for one in ran.json} >= {"unique_payments", "completed_orders"}
    shown = command("--config", str(file), "products", "show", "lost")
    assert (shown.code, "lost.sql" in shown.err) == (1, True)
    assert command("--config", str(file), "products", "show", "unique_payments").code == 0


def test_config_check_reads_the_products_files_without_any_server(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "lab.yaml"
    (tmp_path / "odd.sql").write_text(WRONG_COLUMN.replace("key: [order_id]", "key: [id]"))
    file.write_text("products: {odd: {sql: odd.sql}, lost: {sql: lost.sql}, unique_payments: {}}\n")
    answer = command("--config", str(file), "config", "check", "--json")
    assert answer.code == 1
    assert set(answer.json["mistakes"]) == {"odd", "lost"}
    assert f"{tmp_path / 'odd.sql'}:3: `key` names 'id'" in answer.json["mistakes"]["odd"]
    assert set(answer.json["not_analyzed"]) == {"unique_payments"}


@on_stack
def test_a_row_that_a_check_does_not_want_makes_check_fail(in_shop: Command, shop: Shop) -> None:
    shop.pay(13, amount=-1.0)
    assert in_shop("materialize", shop.payments.name).code == 0
    assert in_shop("products", "run", "--json").code == 0
    answer = in_shop("products", "check", "unique_payments", "--sample", "3")
    assert answer.code == 1
    assert "1 of 2 passed" in answer.out
    assert "unique_payments: amounts_are_positive: 1 row, e.g. {'order_id': 13" in answer.out


@on_stack
def test_a_row_that_is_not_what_is_computed_makes_check_fail(
    in_shop: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Recheck("completed_orders", 9, missing=1, examples=({"order_id": "[7]"},))
    monkeypatch.setattr(recheck, "recheck", lambda *_: found)
    answer = in_shop("products", "check", "completed_orders")
    assert answer.code == 1
    assert "completed_orders: {'order_id': '[7]'}" in answer.out


@on_stack
def test_a_product_that_cannot_be_made_yet_is_an_error_when_asked_for(in_shop: Command) -> None:
    for what in ("run", "check"):
        answer = in_shop("products", what, "bookings_with_watermark")
        assert (answer.code, answer.out) == (1, "")
        assert "has no" in answer.err
        assert "Next step: " in answer.err


@on_stack
def test_a_saved_query_is_answered_and_drawn(
    in_shop: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_shop("products", "run", "unique_payments").code == 0
    drawn = tmp_path / "sales.svg"
    answer = in_shop("query", "hourly_sales", "--json", "--chart", str(drawn))
    assert answer.code == 0, answer.err
    assert sum(one["total_orders"] for one in answer.json) in (10, 12, 13)
    ElementTree.parse(drawn)  # noqa: S314  (our own)
    assert "total_revenue" in drawn.read_text()

    assert "█" not in in_shop("query", "hourly_sales").out
    monkeypatch.setattr(query, "console", Console(force_terminal=True, width=80))
    assert "█" in in_shop("query", "hourly_sales").out
    assert "█" not in in_shop("query", "hourly_sales", "--json").out

    nowhere = in_shop("query", "hourly_sales", "--chart", str(tmp_path / "no" / "sales.svg"))
    assert nowhere.code == 1
    assert "cannot be written" in nowhere.err

    old = in_shop("query", "payment_methods")
    assert old.code == 1
    assert "completed_orders_with_method in tableflow.yaml" in old.err
    elsewhere = in_shop("query", "prospect_list")
    assert "Next step: Add prospects under `products`" in elsewhere.err
    word = in_shop("query", "nosuch")
    assert "Next step: List the saved queries with" in word.err


def test_saved_queries_are_listed_without_any_server(command: Command) -> None:
    found = {one["query"]: one for one in command("query", "--list", "--json").json}
    assert found["hourly_sales"]["reads"] == ["completed_orders"]
    assert found["product_insights"]["chart"]["kind"] == "bar"
    assert "payment_methods" in command("query", "--list").out


def test_neither_sql_nor_a_name_is_a_usage_error(command: Command) -> None:
    answer = command("query")
    assert answer.code == 2
    assert "the name of a saved query" in answer.err


def test_a_product_is_shown_without_any_server(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB.replace("prospects: {}", "customer_with_watermark: {}"))
    shown = command("--config", str(file), "products", "show", "completed_orders", "--json").json
    assert shown["key"] == ["order_id"]
    assert [one["kind"] for one in shown["inputs"]] == ["product", "topic"]
    assert "paid_within_96_hours" in shown["checks"]
    assert "LAST_ROW" in shown["sql"]

    told = command("--config", str(file), "products", "show", "completed_orders", "--spark").out
    written, _, told = told.partition("As Spark is told")
    assert "LAST_ROW" in written
    assert "LAST_ROW" not in told
    assert "ROW_NUMBER() OVER" in told
    assert "`lake`.`tableflow`.`shiftleft_public_orders`" in told
    versions = command("--config", str(file), "products", "show", "customer_with_watermark").out
    assert "versions_of: email" in versions


@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        ("topics: {payments: {}}\n", ("list",), "The settings have no products."),
        ("topics: {payments: {}}\n", ("run",), "The settings have no products."),
        ("products: {unique_payments: {}}\n", ("show", "nosuch"), "no product 'nosuch'"),
        ("products: {unique_payments: {}}\n", ("run", "nosuch"), "no product 'nosuch'"),
        ("products: {unique_payments: {}}\n", ("check", "nosuch"), "no product 'nosuch'"),
    ],
)
def test_what_the_settings_do_not_have_is_an_error_with_a_next_step(
    command: Command, tmp_path: Path, text: str, arguments: tuple[str, ...], problem: str
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    answer = command("--config", str(file), "products", *arguments)
    assert (answer.code, answer.out) == (1, "")
    assert problem in answer.err
    assert "Next step: " in answer.err
