"""What a product's file may say, and what is refused before any run."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.product.definition import parse
from tableflow_assets.product.load import load_products
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings

HEADER = """
description: The newest state of every order.
key: [id]
event_time: at
lateness: 5 seconds
mode: upsert
changes: {orders: {id: id}}
"""
SELECT = "SELECT id, at FROM LAST_ROW(orders, id)"


def file_of(header: str = HEADER, select: str = SELECT) -> str:
    return f"/*{header}*/\n{select}"


def test_a_file_says_what_it_reads_and_what_it_gives() -> None:
    definition = parse("newest", file_of())
    assert (definition.inputs, definition.columns, definition.scope) == (
        ("orders",),
        ("id", "at"),
        ("id",),
    )
    assert definition.header.lateness.total_seconds() == 5


def test_the_version_is_that_of_what_is_computed() -> None:
    version = parse("newest", file_of()).version
    reworded = HEADER.replace("newest", "last")
    spaced = "SELECT id,   at -- a remark\n FROM last_row(orders, id)"
    assert parse("newest", file_of(reworded)).version == version
    assert (
        parse("newest", file_of(select=spaced.replace("last_row", "LAST_ROW"))).version == version
    )
    assert parse("newest", file_of(select=SELECT + " WHERE id > 0")).version != version


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SELECT, "does not begin with a header"),
        (file_of("\nkey: [id\n"), "its header is not YAML"),
        (file_of(HEADER.replace("mode: upsert", "mode: append")), "mode"),
        (file_of(HEADER.replace("5 seconds", "soon")), "lateness: Value error, must be a time"),
        (file_of(HEADER.replace("[id]", "[id, id]")), "key"),
        (file_of(HEADER.replace("[id]", "[other]")), "`key` names 'other'"),
        (file_of(HEADER.replace("time: at", "time: then")), "`event_time` names 'then'"),
        (file_of(HEADER + "color: red"), "color"),
        (file_of(HEADER.replace("{orders: {id: id}}", "{}")), "at least one input"),
        (file_of(HEADER.replace("{orders:", "{others:")), "says nothing about 'orders'"),
        (file_of(select="DELETE FROM orders"), "one SELECT"),
        (file_of(select=f"{SELECT}; {SELECT}"), "one SELECT"),
        (file_of(select="SELECT * FROM orders"), "must name its columns"),
        (file_of(select="SELECT id, at, FROM orders WHERE ((("), "cannot be parsed"),
        (file_of(select="SELECT id, at, 1 AS id FROM orders"), "two columns 'id'"),
        (file_of(select="SELECT id, at FROM db.orders"), "in backticks: `db.orders`"),
        # A row of another customer could be the newest of its order.
        (
            file_of(HEADER.replace("{id: id}", "{id: customer}")),
            "a row may move to another",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as excinfo:
        parse("newest", text)
    assert "The product 'newest' cannot be used" in str(excinfo.value)
    assert problem in str(excinfo.value)


def labs_products(**options: ProductOptions) -> Settings:
    return Settings(state_dir=Path(), products=options)


def test_all_products_of_the_labs_can_be_used() -> None:
    names = [
        file.name.removesuffix(".sql") for file in files("tableflow_assets.product.sql").iterdir()
    ]
    settings = labs_products(**{name: ProductOptions() for name in names})
    order = [product.name for product in load_products(settings).usable]
    assert sorted(order) == sorted(names)
    for before, after in (
        ("unique_payments", "completed_orders"),
        ("product_sales", "thirty_day_customer_snapshot"),
        ("denormalized_hotel_bookings", "hotel_stats"),
    ):
        assert order.index(before) < order.index(after)


def test_names_of_inputs_can_be_those_of_other_topics_and_products() -> None:
    first = ProductOptions(sql="unique_payments", inputs={"payments": "eu.payments"})
    second = ProductOptions(sql="completed_orders", inputs={"unique_payments": "eu_payments"})
    paid, completed = load_products(labs_products(eu_payments=first, eu_completed=second)).usable
    assert [source.table for source in paid.inputs] == ["eu_payments"]
    assert [source.table for source in completed.inputs] == [
        "eu_payments",
        "shiftleft_public_orders",
    ]
    assert completed.upstream == (paid,)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"own": ProductOptions()}, "the labs have no product 'own'"),
        ({"own": ProductOptions(sql="gone.sql")}, "cannot be read"),
        ({"hotel_stats": ProductOptions(inputs={"payments": "x"})}, "does not read 'payments'"),
        (
            {
                "unique_payments": ProductOptions(inputs={"payments": "completed_orders"}),
                "completed_orders": ProductOptions(),
            },
            "in a circle",
        ),
        (
            # A topic has no versions to join as of a moment.
            {"denormalized_hotel_bookings": ProductOptions()},
            "cannot be read FOR SYSTEM_TIME AS OF",
        ),
    ],
)
def test_products_that_do_not_fit_together(
    options: dict[str, ProductOptions], problem: str
) -> None:
    broken = load_products(labs_products(**options)).broken
    assert re.search(problem, str(broken[0].error))


def test_a_broken_product_is_its_own_mistake_and_that_of_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text(file_of(HEADER.replace("[id]", "[gone]")))
    settings = labs_products(
        bad=ProductOptions(sql=str(tmp_path / "bad.sql")),
        lost=ProductOptions(sql="gone.sql"),
        unique_payments=ProductOptions(),
        completed_orders=ProductOptions(inputs={"unique_payments": "lost"}),
        eu_orders=ProductOptions(sql="completed_orders"),
    )
    products = load_products(settings)
    assert [product.name for product in products.usable] == ["unique_payments", "eu_orders"]
    errors = {broken.name: str(broken.error) for broken in products.broken}
    assert list(errors) == ["bad", "lost", "completed_orders"]
    assert f"{tmp_path / 'bad.sql'}:3: `key` names 'gone'" in errors["bad"]
    assert "'completed_orders' reads 'lost', which cannot be used" in errors["completed_orders"]


def test_a_circle_does_not_reach_the_others() -> None:
    settings = labs_products(
        unique_payments=ProductOptions(inputs={"payments": "completed_orders"}),
        completed_orders=ProductOptions(),
        bookings_with_watermark=ProductOptions(),
    )
    products = load_products(settings)
    assert [product.name for product in products.usable] == ["bookings_with_watermark"]
    assert {broken.name for broken in products.broken} == {"unique_payments", "completed_orders"}


def test_the_products_that_follow_a_table_are_known() -> None:
    names = ("unique_payments", "completed_orders", "bookings_with_watermark")
    products = load_products(labs_products(**{name: ProductOptions() for name in names}))
    assert products.following("payments") == ("unique_payments", "completed_orders")
    assert products.following("shiftleft_public_orders") == ("completed_orders",)
    assert products.following("clickstream") == ()


TUMBLE = "FROM TABLE(\n  TUMBLE(TABLE orders,\n  DESCRIPTOR(at), INTERVAL '7' DAY)\n)"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (file_of(HEADER.replace("mode: upsert", "mode: upsert: now")), 6),
        (file_of(HEADER.replace("5 seconds", "soon")), 5),
        (file_of(HEADER.replace("[id]", "[other]")), 3),
        (file_of(HEADER.replace("{orders: {id: id}}", "{}")), 7),
        (file_of(select="SELECT id,\n  at,\nFROM orders WHERE ((("), 11),
        (file_of(select=f"SELECT id, at\n{TUMBLE}\nWHERE id = )"), 14),
        (file_of(select="\n\nSELECT * FROM orders"), 11),
    ],
)
def test_a_mistake_has_its_file_and_line(text: str, line: int) -> None:
    with pytest.raises(SettingsError, match=rf"cannot be used: of/newest.sql:{line}: "):
        parse("newest", text, "of/newest.sql")
