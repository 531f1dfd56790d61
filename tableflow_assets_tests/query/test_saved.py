"""Saved queries: each can be read, reads only what the labs' products have, and is answered by DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.product.load import load_products
from tableflow_assets.query.answer import Table, draw
from tableflow_assets.query.saved import SavedQuery, parse, saved_queries, saved_query
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings

NAMES = {
    *("hourly_sales", "product_insights", "customer_snapshot", "payment_methods"),
    *("hotel_performance", "prospect_list"),
}
PRODUCTS = {
    "completed_orders": "completed_orders_with_method",
    "unique_payments": "unique_payments",
    "product_sales": "product_sales",
    "thirty_day_customer_snapshot": "thirty_day_customer_snapshot",
    "bookings_with_watermark": "bookings_with_watermark",
    "customer_with_watermark": "customer_with_watermark",
    "hotel_with_watermark": "hotel_with_watermark",
    "denormalized_hotel_bookings": "denormalized_hotel_bookings",
    "hotel_stats": "hotel_stats",
    "prospects": "prospects",
}
# Of columns whose type matters to a query; the others are numbers.
TIMES = {"ts", "updated_at", "window_start", "window_end", "last_click"}
TEXTS = {"payment_method", "brand", "productname", "customername", "customer_email", "hotel_id"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """The labs' products, with the columns of their SQL and three rows each."""
    products = {name: ProductOptions(sql=sql) for name, sql in PRODUCTS.items()}
    settings = Settings(state_dir=tmp_path_factory.mktemp("state"), products=products)
    connection = duckdb.connect()
    for product in load_products(settings).usable:
        columns = ", ".join(f"{_value(one)} AS {one}" for one in product.definition.columns)
        connection.execute(f"CREATE TABLE {product.name} AS SELECT {columns} FROM range(3) r(n)")  # noqa: S608
    return connection


def _value(column: str) -> str:
    if column in TIMES:
        return "TIMESTAMPTZ '2026-02-05 12:10:00+00' + n * INTERVAL 1 HOUR"
    return "'text ' || n" if column in TEXTS else "10 + n"


def test_these_are_there() -> None:
    assert set(saved_queries()) == NAMES


@pytest.mark.parametrize("query", saved_queries().values(), ids=lambda query: query.name)
def test_each_is_answered_and_drawn(tables: duckdb.DuckDBPyConnection, query: SavedQuery) -> None:
    assert set(query.tables) <= set(PRODUCTS)
    answer = tables.execute(query.sql)
    table = Table([column[0] for column in answer.description or ()], answer.fetchall())
    assert table.rows
    assert query.about.chart is not None
    drawn = draw(query.about.chart, table, query.about.description)
    assert all(name in drawn for name in query.about.chart.y)


def test_hours_are_hours(tables: duckdb.DuckDBPyConnection) -> None:
    query = saved_query("hourly_sales")
    assert query is not None
    rows = tables.execute(query.sql).fetchall()
    assert [(end - start).total_seconds() for start, end, *_ in rows] == [3600.0] * 3
    assert [row[2:] for row in rows] == [(1, 10.0), (1, 11.0), (1, 12.0)]


@pytest.mark.parametrize("text", ["SELECT 1", "nosuch", "SHOW TABLES", "", "../sql/prospects"])
def test_what_is_no_name_is_no_saved_query(text: str) -> None:
    assert saved_query(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT 1", "does not begin with a header"),
        ("/* {description: a} */ SELEC FROM", "SQL cannot be parsed"),
        ("/* description: [ */ SELECT 1", "not YAML"),
        ("/* {} */ SELECT 1", "description: Field required"),
        ("/* {description: a, chart: {kind: pie, x: a, y: b}} */ SELECT 1", "chart.kind"),
    ],
)
def test_one_that_cannot_be_used_says_why(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        parse("mine", text)


def test_a_table_of_its_own_is_not_read() -> None:
    query = parse("mine", "/* {description: a} */ WITH a AS (SELECT 1 FROM b) SELECT * FROM a, c")
    assert query.tables == ("b", "c")


def test_they_are_installed_with_the_package() -> None:
    configured = (Path(__file__).parents[2] / "setup.cfg").read_text()
    assert "query/sql/*.sql" in configured
