"""`tableflow products run` and `check`: bring products up to date, and check that they are right."""

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
from tableflow_assets.base.faults import named_faults
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
    from tableflow_assets.product.quality import Finding
    from tableflow_assets.product.recheck import Recheck
    from tableflow_assets.product.runner import Runner, RunResult
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
    outcome = _each(
        runners,
        lambda runner: runner.run("cli", everything=everything),
        asked_for=names,
    )
    outcome.add_broken(tableflow, names)
    for name, answer in outcome.answers.items():
        warn_of_failures(name, answer.catalogs)
    reports = [_done(name, result) for name, result in outcome.answers.items()]
    reports += [_done(name) | {"waits": reason} for name, reason in outcome.waiting.items()]
    if as_json:
        print_json(reports)
    else:
        columns = ["product", "rows added", "rows removed", "values recomputed"]
        rows = [
            [
                *(report["product"], report["rows_added"], report["rows_removed"]),
                report["waits"] or _values(outcome.answers[report["product"]]),
            ]
            for report in reports
        ]
        print_table("Run", columns, rows)
    outcome.leave()


def _done(name: str, result: RunResult | None = None) -> dict[str, Any]:
    return {
        "product": name,
        "rows_added": result.rows_added if result else 0,
        "rows_removed": result.rows_removed if result else 0,
        "values_recomputed": _count(result),
        "windows": {str(day): rows for day, rows in sorted(result.windows.items())}
        if result
        else {},
        "snapshot": result.snapshot if result else None,
        "waits": None,
    }


def _count(result: RunResult | None) -> int | None:
    return 0 if result is None or result.did_nothing else result.values_affected


def _values(result: RunResult) -> str:
    """Beyond a certain number, a run does not count them."""
    if result.did_nothing:
        return "none: up to date"
    return "all, or too many to count" if result.values_affected is None else str(_count(result))


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
    products = [product_named(tableflow, name) for name in names] or tableflow.products
    outcome = _each(
        [tableflow.runner(product) for product in products],
        lambda runner: (recheck(runner, sample), run_checks(runner)),
        asked_for=names,
    )
    outcome.add_broken(tableflow, names)
    if as_json:
        reports = [
            _checked(comparison, findings) for comparison, findings in outcome.answers.values()
        ]
        print_json(
            [*reports, *({"product": n, "waits": reason} for n, reason in outcome.waiting.items())]
        )
    else:
        _show_checked(list(outcome.answers.values()), outcome.waiting)
    is_wrong = any(
        not comparison.passed or any(not finding.passed for finding in findings)
        for comparison, findings in outcome.answers.values()
    )
    outcome.leave(is_wrong=is_wrong)


def _checked(comparison: Recheck, findings: Sequence[Finding]) -> dict[str, Any]:
    checks = [
        {
            "name": finding.name,
            "passed": finding.passed,
            "offending": finding.offending,
            "rows": finding.rows,
        }
        for finding in findings
    ]
    return comparison.to_json() | {
        "passed": comparison.passed and all(finding.passed for finding in findings),
        "checks": checks,
    }


def _show_checked(answers: list[tuple[Recheck, list[Finding]]], waiting: dict[str, str]) -> None:
    rows = [
        [
            *(
                comparison.product,
                comparison.rows_compared,
                comparison.missing,
                comparison.unexpected,
            ),
            *(
                comparison.different,
                f"{sum(finding.passed for finding in findings)} of {len(findings)} passed",
            ),
        ]
        for comparison, findings in answers
    ]
    columns = ["product", "rows compared", "missing", "unexpected", "different", "checks"]
    print_table("Computed again", columns, rows)
    for comparison, findings in answers:
        problems = [str(example) for example in comparison.examples]
        problems += [
            f"{finding.name}: {counted(finding.offending, 'row')}, e.g. {finding.rows[0]}"
            for finding in findings
            if not finding.passed
        ]
        for problem in problems:
            line = f"{comparison.product}: {problem}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for name, reason in waiting.items():
        console.print(f"{name}: {reason}", markup=False, highlight=False, soft_wrap=True)


@dataclass
class _Answers:
    """By product. ``waiting``: products that cannot be made yet, and why."""

    answers: dict[str, Any] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    failures: dict[str, TableflowError] = field(default_factory=dict)

    def add_broken(self, tableflow: Tableflow, asked_for: Sequence[str]) -> None:
        """Products that cannot be used fail, too, if all were asked for."""
        for broken in tableflow.loaded_products.broken if not asked_for else ():
            self.failures[broken.name] = broken.error

    def leave(self, *, is_wrong: bool = False) -> None:
        for name, failure in self.failures.items():
            click.secho(f"{name}: {failure}", fg="red", err=True)
        sys.exit(1 if self.failures or is_wrong else 0)


def _each(
    runners: Sequence[Runner], action: Callable[[Runner], Any], *, asked_for: Sequence[str]
) -> _Answers:
    """A product that was not ``asked_for`` by name may wait for inputs that are not there yet."""
    outcome = _Answers()
    with progress_bar() as progress:
        task = progress.add_task("", total=len(runners))
        for runner in runners:
            name = runner.product.name
            progress.update(task, description=name)
            try:
                with named_faults(name, runner.state_dir):
                    outcome.answers[name] = action(runner)
            except (ServerUnreachable, StackError):
                raise
            except TableflowError as error:
                if len(runners) == 1:
                    raise
                if name not in asked_for and isinstance(error, InputMissing):
                    outcome.waiting[name] = error.problem
                else:
                    outcome.failures[name] = error  # concerns this product only
            progress.advance(task)
    return outcome


def tableflow_with_products() -> Tableflow:
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    if not tableflow.settings.products:
        raise SettingsError(
            "The settings have no products.",
            "Name some under `products:` in tableflow.yaml; docs/add-a-product.md says how.",
        )
    return tableflow


def product_named(tableflow: Tableflow, name: str) -> Product:
    names = tableflow.settings.products
    if name not in names:
        raise SettingsError(
            f"There is no product {name!r} in the settings.", f"There are: {', '.join(names)}."
        )
    return tableflow.loaded_products.named(name)


def _with_downstream(tableflow: Tableflow, names: Sequence[str]) -> list[Runner]:
    """All products, or the named ones and everything downstream; each after the ones it reads."""
    selection = {product_named(tableflow, name).name for name in names}
    for product in tableflow.products:
        if not names or selection & {upstream.name for upstream in product.upstream}:
            selection.add(product.name)
    return [
        tableflow.runner(product) for product in tableflow.products if product.name in selection
    ]
