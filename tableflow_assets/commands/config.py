"""Commands about the settings."""

from __future__ import annotations

import json
import sys

import click

from tableflow_assets.base.errors import InputMissing, ProductFailed, ServerUnreachable, StackError
from tableflow_assets.commands.show import counted, json_option, print_json
from tableflow_assets.settings.settings import Settings, load_settings


@click.group()
def config() -> None:
    """Check and show the settings."""


@config.command()
@json_option
def check(as_json: bool) -> None:
    """Read tableflow.yaml and the products' .sql files; name every mistake with its line.

    Where Spark and the products' inputs are there, Spark analyzes the SQL as well; it runs nothing.
    """
    settings = load_settings()
    mistakes, unseen = _mistakes_of_products(settings)
    file = str(settings.file or "built in")
    if as_json:
        print_json(
            {
                "ok": not mistakes,
                "file": file,
                "entries": list(settings.topics),
                "products": list(settings.products),
                "mistakes": mistakes,
                "not_analyzed": unseen,
            }
        )
    else:
        for mistake in mistakes.values():
            click.secho(mistake, fg="red", err=True)
        if not mistakes:
            entries = f"{len(settings.topics)} topics and patterns"
            products = counted(len(settings.products), "product")
            click.echo(f"{file} is valid: {entries}, {products}")
        for name, why in unseen.items():
            click.echo(f"{name}: Spark has not seen its SQL. {why}", err=True)
    sys.exit(1 if mistakes else 0)


def _mistakes_of_products(settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """By product: its mistake, and why Spark could not analyze it."""
    if not settings.products:
        return {}, {}
    from tableflow_assets.base.spark_session import ensure_spark_answers
    from tableflow_assets.product.analyze import analyze
    from tableflow_assets.stack import connections
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(settings)
    mistakes = {broken.name: str(broken.error) for broken in tableflow.loaded_products.broken}
    unseen: dict[str, str] = {}
    try:
        ensure_spark_answers(connections.spark_address(settings))
        for product in tableflow.products:
            try:
                analyze(tableflow.runner(product))
            except InputMissing as error:
                unseen[product.name] = error.problem
            except ProductFailed as error:
                mistakes[product.name] = str(error)
    except (StackError, ServerUnreachable) as error:  # nothing is wrong with the files
        unseen = {product.name: error.problem for product in tableflow.products}
    return mistakes, unseen


@config.command()
@json_option
def show(as_json: bool) -> None:
    """The settings in effect, defaults included, secrets masked."""
    click.echo(json.dumps(load_settings().show(), indent=None if as_json else 2, default=str))
