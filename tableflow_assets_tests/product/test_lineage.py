"""Where the columns of a product come from, as its SQL tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tableflow_assets.product.lineage import column_lineage
from tableflow_assets.product.load import load_products
from tableflow_assets.product.products import Product
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets_tests.product.oracle import KEYS

HEADER = """/*
description: A test's.
key: [{key}]
event_time: {key}
lateness: 5 seconds
mode: upsert
changes:
{changes}
*/
"""


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Product]:
    options = dict.fromkeys(KEYS, ProductOptions())
    settings = Settings(state_dir=tmp_path_factory.mktemp("labs"), products=options)
    return {product.name: product for product in load_products(settings).usable}


def product_of(folder: Path, sql: str, *inputs: str, key: str = "k") -> Product:
    changes = "\n".join(f"  {name}: {{{key}: {key}}}" for name in inputs)
    (folder / "p.sql").write_text(HEADER.format(key=key, changes=changes) + sql)
    settings = Settings(
        file=folder / "tableflow.yaml",
        state_dir=folder,
        topics=dict.fromkeys(inputs, TopicOptions()),
        products={"p": ProductOptions(sql="p.sql")},
    )
    (product,) = load_products(settings).usable
    return product


@pytest.mark.parametrize(
    ("product", "column", "origins"),
    [
        ("unique_payments", "order_id", [("payments", "order_id")]),  # FIRST_ROW
        ("bookings_with_watermark", "event_time", [("bookings", "created_at")]),  # LAST_ROW
        ("customer_with_watermark", "updated_at", [("riverhotel.cdc.customer", "updated_at")]),
        ("completed_orders", "amount", [("unique_payments", "amount")]),
        ("denormalized_hotel_bookings", "hotel_name", [("hotel_with_watermark", "name")]),
        ("denormalized_hotel_bookings", "check_in", [("bookings_with_watermark", "check_in")]),
        ("denormalized_hotel_bookings", "review_date", [("hotel_reviews", "created_at")]),
        ("hotel_stats", "window_start", [("denormalized_hotel_bookings", "booking_date")]),
        (
            "hotel_stats",
            "total_booking_amount",
            [("denormalized_hotel_bookings", "booking_amount")],
        ),
        ("hotel_stats", "total_bookings_count", []),  # of rows, not of any column
        ("product_sales", "brand", [("shiftleft.public.products", "brand")]),  # WITH
        (
            "product_sales",
            "total_amount",
            [("shiftleft.public.order_items", "quantity"), ("shiftleft.public.products", "price")],
        ),
        ("thirty_day_customer_snapshot", "total_amount", [("product_sales", "total_amount")]),
        ("prospects", "birth_date", [("customer_with_watermark", "birth_date")]),
    ],
)
def test_a_column_of_the_labs_comes_from_these(
    labs: dict[str, Product], product: str, column: str, origins: list[tuple[str, str]]
) -> None:
    assert list(column_lineage(labs[product])[column]) == origins


@pytest.mark.parametrize("name", KEYS)
def test_every_column_is_told_and_none_comes_from_elsewhere(
    labs: dict[str, Product], name: str
) -> None:
    product = labs[name]
    lineage = column_lineage(product)
    assert tuple(lineage) == product.definition.columns
    products = {product_input.name: product_input.product for product_input in product.inputs}
    for source, column in {origin for origins in lineage.values() for origin in origins}:
        assert source in products
        upstream = products[source]
        assert upstream is None or column in upstream.definition.columns


def test_a_union_takes_columns_by_their_place(tmp_path: Path) -> None:
    sql = "SELECT k, v FROM (SELECT k, a AS v FROM one UNION ALL SELECT k, b FROM two)"
    lineage = column_lineage(product_of(tmp_path, sql, "one", "two"))
    assert lineage["v"] == (("one", "a"), ("two", "b"))


def test_a_field_of_a_struct_comes_from_the_structs_column(tmp_path: Path) -> None:
    sql = "SELECT t.k, t.place.city AS city, place.street AS street FROM LAST_ROW(one, k) t"
    lineage = column_lineage(product_of(tmp_path, sql, "one"))
    assert lineage["city"] == lineage["street"] == (("one", "place"),)


def test_a_query_within_an_expression_counts(tmp_path: Path) -> None:
    sql = "SELECT t.k, (SELECT MAX(u.w) FROM two u WHERE u.k = t.k) AS w FROM one t"
    lineage = column_lineage(product_of(tmp_path, sql, "one", "two"))
    assert lineage["w"] == (("two", "w"),)


def test_a_column_that_does_not_say_whose_it_is_is_left_out_unless_columns_are_known(
    tmp_path: Path,
) -> None:
    sql = "SELECT one.k, v FROM one JOIN two ON one.k = two.k"
    product = product_of(tmp_path, sql, "one", "two")
    assert column_lineage(product)["v"] == ()
    columns = {"one": ["k"], "two": ["k", "v"]}
    assert column_lineage(product, columns)["v"] == (("two", "v"),)


def test_names_that_differ_in_case_alone_are_the_same(tmp_path: Path) -> None:
    sql = "WITH x AS (SELECT K, Amount FROM one) SELECT X.k, x.AMOUNT AS v FROM x"
    lineage = column_lineage(product_of(tmp_path, sql, "one"))
    assert lineage["v"] == (("one", "Amount"),)
