"""`tableflow products`: tables that are made of tables, and commands that look at and make them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from tableflow_assets.commands.show import (
    console,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.errors import (
    InputMissing,
    ServerUnreachable,
    SettingsError,
    StackError,
    TableflowError,
)
from tableflow_assets.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.product.products import Product
    from tableflow_assets.product.quality import Found
    from tableflow_assets.product.recheck import Recheck
    from tableflow_assets.product.runner import Done, Runner
    from tableflow_assets.product.standing import Standing
    from tableflow_assets.tableflow import Tableflow

AT_ONCE = 8  # products that are asked about
names_argument = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.group()
def products() -> None:
    """Data products: tables that SQL makes of topics' tables and of each other."""


@products.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Every product: its rows, and whether it is up to date with what it reads."""
    from tableflow_assets.product.standing import standing

    tableflow = _tableflow()
    catalog = tableflow.catalog
    with ThreadPoolExecutor(AT_ONCE) as pool:  # most of it is waiting for answers
        found = list(pool.map(lambda one: standing(catalog, one), tableflow.products))
    if as_json:
        print_json([one.to_json() for one in found])
        return
    rows = [
        [
            *(one.product, one.rows, ", ".join(one.inputs), _state(one)),
            one.last_commit.strftime("%Y-%m-%d %H:%M:%S") if one.last_commit else None,
            one.files,
        ]
        for one in found
    ]
    columns = ["product", "rows", "inputs", "state", "last commit (UTC)", "files"]
    print_table("Products", columns, rows)
    for one in found:
        if one.state == "error":
            told = f"[red]{one.product}[/]: {escape(one.reason)}"
            console.print(told, highlight=False, soft_wrap=True)


def _state(one: Standing) -> str:
    inputs = ", ".join(one.behind)
    texts = {
        "current": "up to date",
        "behind": f"behind {inputs}" if inputs else one.reason,
        "no_table": "no table yet",
        "waiting": f"waits for {inputs}",
    }
    return texts.get(one.state, one.state)


@products.command()
@click.argument("name")
@click.option("--spark", "in_spark", is_flag=True, help="The SQL as Spark is told, not as written.")
@json_option
def show(name: str, in_spark: bool, as_json: bool) -> None:
    """What a product is: its key, its inputs, what becomes of odd cases, its checks and its SQL."""
    tableflow = _tableflow()
    product = _named(tableflow, name)
    sql = _spark_sql(tableflow, product) if in_spark else product.definition.sql
    told = _about(product) | {"sql": sql}
    if as_json:
        print_json(told)
        return
    click.secho(f"{name}: {told['description']}", bold=True)
    for label in ("key", "event_time", "lateness", "versions_of"):
        if told[label]:
            value = told[label]
            click.echo(f"{label}: {', '.join(value) if isinstance(value, tuple) else value}")
    print_table("Inputs", ["name", "is the", "table"], [[*one.values()] for one in told["inputs"]])
    for title, part in (("Outcomes", told["outcomes"]), ("Checks", told["checks"])):
        if part:
            rows = [[case, " ".join(text.split())] for case, text in part.items()]
            print_table(title, ["case" if title == "Outcomes" else "name", ""], rows)
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
            {"name": one.name, "kind": "topic" if one.topic else "product", "table": one.table}
            for one in product.inputs
        ],
        "columns": product.definition.columns,
        "outcomes": dict(header.outcomes),
        "checks": dict(header.checks),
    }


def _spark_sql(tableflow: Tableflow, product: Product) -> str:
    """Without the limits that a run adds, so that it looks only at what has changed."""
    import sqlglot

    from tableflow_assets.product import flink

    settings = tableflow.settings
    sources = {
        one.name: one.source(f"`{settings.spark_catalog}`.`{settings.namespace}`.`{one.table}`")
        for one in product.inputs
    }
    told = flink.in_spark(product.definition.statement, sources)
    return sqlglot.transpile(told, read="spark", write="spark", pretty=True)[0]


@products.command()
@names_argument
@click.option(
    "--everything",
    is_flag=True,
    help="Compute all rows again; this also fills columns that older rows lack.",
)
@json_option
def run(names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Bring products up to date with what they read, and then those that read them."""
    done = _each(
        _with_downstream(_tableflow(), names),
        lambda runner: runner.run("cli", everything=everything),
        may_wait=not names,
    )
    told = [_done(name, one) for name, one in done.answers.items()]
    told += [_done(name) | {"waits": why} for name, why in done.waiting.items()]
    if as_json:
        print_json(told)
    else:
        columns = ["product", "rows added", "rows removed", "values recomputed"]
        rows = [
            [
                *(one["product"], one["rows_added"], one["rows_removed"]),
                one["waits"] or _values(done.answers[one["product"]]),
            ]
            for one in told
        ]
        print_table("Run", columns, rows)
    done.leave()


def _done(name: str, done: Done | None = None) -> dict[str, Any]:
    return {
        "product": name,
        "rows_added": done.rows_added if done else 0,
        "rows_removed": done.rows_removed if done else 0,
        "values_recomputed": _count(done),
        "windows": {str(day): rows for day, rows in sorted(done.windows.items())} if done else {},
        "snapshot": done.snapshot if done else None,
        "waits": None,
    }


def _count(done: Done | None) -> int | None:
    return 0 if done is None or done.did_nothing else done.values_affected


def _values(done: Done) -> str:
    """Beyond some number, a run does not count them."""
    if done.did_nothing:
        return "none: up to date"
    return "all, or too many to count" if done.values_affected is None else str(_count(done))


@products.command()
@names_argument
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Compute the rows of N values again, chosen at random. Default: all rows.",
)
@json_option
def check(names: tuple[str, ...], sample: int | None, as_json: bool) -> None:
    """Compute products again from what they were made of, and compare; exit 1 on any difference.

    Also runs the checks that a product's .sql file states.
    """
    from tableflow_assets.product.quality import run_checks
    from tableflow_assets.product.recheck import recheck

    tableflow = _tableflow()
    chosen = [_named(tableflow, name) for name in names] or tableflow.products
    done = _each(
        [tableflow.runner(one) for one in chosen],
        lambda runner: (recheck(runner, sample), run_checks(runner)),
        may_wait=not names,
    )
    if as_json:
        print_json([_checked(again, found) for again, found in done.answers.values()])
    else:
        _show_checked(list(done.answers.values()), done.waiting)
    is_wrong = any(
        not again.passed or any(not one.passed for one in found)
        for again, found in done.answers.values()
    )
    done.leave(is_wrong=is_wrong)


def _checked(again: Recheck, found: Sequence[Found]) -> dict[str, Any]:
    checks = [
        {"name": one.name, "passed": one.passed, "offending": one.offending, "rows": one.rows}
        for one in found
    ]
    return again.to_json() | {
        "passed": again.passed and all(one.passed for one in found),
        "checks": checks,
    }


def _show_checked(answers: list[tuple[Recheck, list[Found]]], waiting: dict[str, str]) -> None:
    rows = [
        [
            *(again.product, again.rows_compared, again.missing, again.unexpected),
            *(again.different, f"{sum(one.passed for one in found)} of {len(found)} passed"),
        ]
        for again, found in answers
    ]
    columns = ["product", "rows compared", "missing", "unexpected", "different", "checks"]
    print_table("Computed again", columns, rows)
    for again, found in answers:
        problems = [str(example) for example in again.examples]
        problems += [
            f"{one.name}: {one.offending} rows, e.g. {one.rows[0]}"
            for one in found
            if not one.passed
        ]
        for problem in problems:
            told = f"{again.product}: {problem}"
            console.print(told, markup=False, highlight=False, soft_wrap=True)
    for name, why in waiting.items():
        console.print(f"{name}: {why}", markup=False, highlight=False, soft_wrap=True)


@dataclass
class _Answers:
    """By product. ``waiting``: those that cannot be made yet, and why."""

    answers: dict[str, Any] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    failures: dict[str, TableflowError] = field(default_factory=dict)

    def leave(self, *, is_wrong: bool = False) -> None:
        for name, failure in self.failures.items():
            click.secho(f"{name}: {failure}", fg="red", err=True)
        sys.exit(1 if self.failures or is_wrong else 0)


def _each(runners: Sequence[Runner], what: Callable[[Runner], Any], *, may_wait: bool) -> _Answers:
    done = _Answers()
    with progress_bar() as progress:
        task = progress.add_task("", total=len(runners))
        for runner in runners:
            name = runner.product.name
            progress.update(task, description=name)
            try:
                done.answers[name] = what(runner)
            except (ServerUnreachable, StackError):
                raise
            except TableflowError as error:
                if len(runners) == 1:
                    raise
                if may_wait and isinstance(error, InputMissing):
                    done.waiting[name] = error.problem
                else:
                    done.failures[name] = error  # this product's own; the others go on
            progress.advance(task)
    return done


def _tableflow() -> Tableflow:
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    if not tableflow.products:
        raise SettingsError(
            "The settings have no products.",
            "Name some under `products:` in tableflow.yaml; docs/add-a-product.md says how.",
        )
    return tableflow


def _named(tableflow: Tableflow, name: str) -> Product:
    known = {one.name: one for one in tableflow.products}
    if name not in known:
        raise SettingsError(
            f"There is no product {name!r} in the settings.", f"There are: {', '.join(known)}."
        )
    return known[name]


def _with_downstream(tableflow: Tableflow, names: Sequence[str]) -> list[Runner]:
    """All, or those named and what is made of them; each after those that it reads."""
    wanted = {_named(tableflow, name).name for name in names}
    for product in tableflow.products:
        if not names or wanted & {one.name for one in product.upstream}:
            wanted.add(product.name)
    return [tableflow.runner(one) for one in tableflow.products if one.name in wanted]
