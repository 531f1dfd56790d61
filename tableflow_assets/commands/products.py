"""`tableflow products`: tables made from other tables, and the commands that show and update them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from tableflow_assets.commands.products_run import (
    check,
    product_named,
    run,
    tableflow_with_products,
)
from tableflow_assets.commands.show import console, json_option, print_json, print_table

if TYPE_CHECKING:
    from tableflow_assets.product.products import Product
    from tableflow_assets.product.status import ProductStatus
    from tableflow_assets.tableflow import Tableflow

AT_ONCE = 8  # products asked about in parallel


@click.group()
def products() -> None:
    """Data products: tables that SQL makes of topics' tables and of each other."""


@products.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Every product: its rows, and whether it is up to date with what it reads."""
    from tableflow_assets.product.status import ProductStatus, product_status

    tableflow = tableflow_with_products()
    catalog, state_dir = tableflow.catalog, tableflow.settings.state_dir
    with ThreadPoolExecutor(AT_ONCE) as pool:  # most of the time goes into waiting for answers
        statuses = list(
            pool.map(
                lambda product: product_status(catalog, product, state_dir), tableflow.products
            )
        )
    statuses += [
        ProductStatus(broken.name, "error", reason=str(broken.error))
        for broken in tableflow.loaded_products.broken
    ]
    if as_json:
        print_json([status.to_json() for status in statuses])
        return
    rows = [
        [
            *(status.product, status.rows, ", ".join(status.inputs), _state(status)),
            status.last_commit.strftime("%Y-%m-%d %H:%M:%S") if status.last_commit else None,
            status.files,
        ]
        for status in statuses
    ]
    columns = ["product", "rows", "inputs", "state", "last commit (UTC)", "files"]
    print_table("Products", columns, rows)
    for status in statuses:
        if status.state == "error":
            line = f"[red]{status.product}[/]: {escape(status.reason)}"
            console.print(line, highlight=False, soft_wrap=True)


def _state(status: ProductStatus) -> str:
    inputs = ", ".join(status.behind)
    texts = {
        "current": "up to date",
        "behind": f"behind {inputs} ({_seconds(status)} s)" if inputs else status.reason,
        "no_table": "no table yet",
        "waiting": f"waits for {inputs}",
    }
    return texts.get(status.state, status.state)


def _seconds(status: ProductStatus) -> int:
    return round(status.lag(datetime.now(UTC)).total_seconds())


@products.command()
@click.argument("name")
@click.option("--spark", "in_spark", is_flag=True, help="Also the SQL as Spark is told.")
@json_option
def show(name: str, in_spark: bool, as_json: bool) -> None:
    """What a product is: its key, its inputs, what becomes of odd cases, its checks and its SQL."""
    tableflow = tableflow_with_products()
    product = product_named(tableflow, name)
    facts = _about(product) | ({"spark_sql": _spark_sql(tableflow, product)} if in_spark else {})
    if as_json:
        print_json(facts)
        return
    click.secho(f"{name}: {facts['description']}", bold=True)
    for label in ("key", "event_time", "lateness", "versions_of"):
        if facts[label]:
            value = facts[label]
            click.echo(f"{label}: {', '.join(value) if isinstance(value, tuple) else value}")
    print_table(
        "Inputs", ["name", "is the", "table"], [[*source.values()] for source in facts["inputs"]]
    )
    for title, part in (("Outcomes", facts["outcomes"]), ("Checks", facts["checks"])):
        if part:
            rows = [[case, " ".join(text.split())] for case, text in part.items()]
            print_table(title, ["case" if title == "Outcomes" else "name", ""], rows)
    for title, sql in (("SQL", facts["sql"]), ("As Spark is told", facts.get("spark_sql"))):
        if sql:
            click.secho(title, bold=True)
            console.print(sql, markup=False, highlight=False, soft_wrap=True)


def _about(product: Product) -> dict[str, Any]:
    header = product.definition.header
    return {
        "product": product.name,
        "description": header.description,
        "key": header.key,
        "event_time": header.event_time,
        "lateness": str(header.lateness),
        "mode": header.mode,
        "versions_of": header.versions_of,
        "inputs": [
            {
                "name": source.name,
                "kind": "topic" if source.topic else "product",
                "table": source.table,
            }
            for source in product.inputs
        ],
        "columns": product.definition.columns,
        "outcomes": dict(header.outcomes),
        "checks": dict(header.checks),
        "sql": product.definition.sql,
    }


def _spark_sql(tableflow: Tableflow, product: Product) -> str:
    """Without the filters that a run adds to read only what has changed."""
    import sqlglot

    from tableflow_assets.product import flink

    settings = tableflow.settings
    sources = {
        source.name: source.source(
            f"`{settings.spark_catalog}`.`{settings.namespace}`.`{source.table}`"
        )
        for source in product.inputs
    }
    statement = flink.in_spark(product.definition.statement, sources)
    return sqlglot.transpile(statement, read="spark", write="spark", pretty=True)[0]


products.add_command(run)
products.add_command(check)
