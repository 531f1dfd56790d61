"""`tableflow products run` and `check`: bring products up to date, and see whether they are right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from tableflow_assets.base.errors import (
    InputMissing,
    ServerUnreachable,
    SettingsError,
    StackError,
    TableflowError,
)
from tableflow_assets.commands.published import warn_of_failures
from tableflow_assets.commands.show import (
    console,
    counted,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.product.products import Product
    from tableflow_assets.product.quality import Found
    from tableflow_assets.product.recheck import Recheck
    from tableflow_assets.product.runner import Done, Runner
    from tableflow_assets.tableflow import Tableflow

names_argument = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.command()
@names_argument
@click.option(
    "--everything",
    is_flag=True,
    help="Compute all rows again; this also fills columns that older rows lack.",
)
@json_option
def run(names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Bring products up to date with what they read, and then those that read them."""
    tableflow = tableflow_with_products()
    runners = _with_downstream(tableflow, names)
    if also := [
        runner.product.name for runner in runners if names and runner.product.name not in names
    ]:
        click.echo(f"Also runs what reads {', '.join(names)}: {', '.join(also)}.", err=True)
    done = _each(
        runners,
        lambda runner: runner.run("cli", everything=everything),
        asked_for=names,
    )
    for name, answer in done.answers.items():
        warn_of_failures(name, answer.catalogs)
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


@click.command()
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

    tableflow = tableflow_with_products()
    chosen = [product_named(tableflow, name) for name in names] or tableflow.products
    done = _each(
        [tableflow.runner(one) for one in chosen],
        lambda runner: (recheck(runner, sample), run_checks(runner)),
        asked_for=names,
    )
    if as_json:
        told = [_checked(again, found) for again, found in done.answers.values()]
        print_json([*told, *({"product": n, "waits": why} for n, why in done.waiting.items())])
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
            f"{one.name}: {counted(one.offending, 'row')}, e.g. {one.rows[0]}"
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


def _each(
    runners: Sequence[Runner], what: Callable[[Runner], Any], *, asked_for: Sequence[str]
) -> _Answers:
    """Of those that nobody ``asked_for`` by name, one whose inputs are not there yet may wait."""
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
                if name not in asked_for and isinstance(error, InputMissing):
                    done.waiting[name] = error.problem
                else:
                    done.failures[name] = error  # this product's own; the others go on
            progress.advance(task)
    return done


def tableflow_with_products() -> Tableflow:
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    if not tableflow.products:
        raise SettingsError(
            "The settings have no products.",
            "Name some under `products:` in tableflow.yaml; docs/add-a-product.md says how.",
        )
    return tableflow


def product_named(tableflow: Tableflow, name: str) -> Product:
    known = {one.name: one for one in tableflow.products}
    if name not in known:
        raise SettingsError(
            f"There is no product {name!r} in the settings.", f"There are: {', '.join(known)}."
        )
    return known[name]


def _with_downstream(tableflow: Tableflow, names: Sequence[str]) -> list[Runner]:
    """All, or those named and what is made of them; each after those that it reads."""
    wanted = {product_named(tableflow, name).name for name in names}
    for product in tableflow.products:
        if not names or wanted & {one.name for one in product.upstream}:
            wanted.add(product.name)
    return [tableflow.runner(one) for one in tableflow.products if one.name in wanted]
