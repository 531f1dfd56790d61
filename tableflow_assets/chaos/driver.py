"""`python -m tableflow_assets.chaos.driver`: a run in a process of its own, that may end itself on the way.

It tells what it does as lines of JSON on stdout: the harness has them in a file, where they outlive it.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import shlex
import signal
import sys
import time
from collections.abc import Sequence

from tableflow_assets.base import boundary
from tableflow_assets.base.errors import ServerUnreachable, StackError, TableflowError

NAMED_ERROR = 3  # the exit code of a run that failed properly, with an error that says why
ENDINGS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.standby:
        order = _await_order()
        return main(shlex.split(order)) if order else 0
    if options.at:
        boundary.listen(_Fate(options.at, options.do, options.nth))
    tell("working")
    try:
        run = _run_dagster if options.dagster else _run
        failures = run(options.topics, options.run_id, options.maintain)
    except TableflowError as error:
        failures = {"settings": _named(error)}
    tell("done", failures=failures)
    return NAMED_ERROR if failures else 0


def tell(event: str, **details: object) -> None:
    line = json.dumps({"event": event, "at": time.monotonic(), **details})
    print(line, file=sys.__stdout__, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="driver", description=__doc__)
    parser.add_argument("topics", nargs="*", help="in the order in which they are brought up")
    parser.add_argument("--run-id", default="chaos")
    parser.add_argument("--dagster", action="store_true", help="by Dagster's asset job")
    parser.add_argument("--maintain", action="store_true", help="and look after each table then")
    parser.add_argument("--at", choices=boundary.BOUNDARIES, help="where this process ends itself")
    parser.add_argument("--do", choices=list(ENDINGS), default="kill", help="and how")
    parser.add_argument("--nth", type=int, default=1, help="at which reach of it")
    parser.add_argument(
        "--standby",
        action="store_true",
        help="import everything, then take the other arguments from stdin: a start takes seconds",
    )
    return parser


def _await_order() -> str:
    """One line with the arguments; empty if the harness is gone."""
    import pyspark.sql.connect.session  # noqa: F401

    import tableflow_assets.chaos.maintain
    import tableflow_assets.tableflow  # noqa: F401

    tell("ready")
    return sys.stdin.readline()


class _Fate:
    """Ends this process the n-th time it reaches a boundary."""

    def __init__(self, at: boundary.Boundary, do: str, nth: int) -> None:
        self._at, self._do, self._left = at, do, nth

    def __call__(self, name: boundary.Boundary) -> None:
        self._left -= name == self._at
        if self._left == 0:
            self._left = -1  # a stopped process that is resumed must not stop again
            tell("reached", boundary=name)
            os.kill(os.getpid(), ENDINGS[self._do])


def _named(error: TableflowError) -> str:
    return f"{type(error).__name__}: {error.problem.splitlines()[0]}"


def _run(topics: Sequence[str], run_id: str, maintains: bool) -> dict[str, str]:
    """Like `tableflow materialize`; returns what went wrong, by topic."""
    from tableflow_assets.chaos.maintain import maintain_roughly
    from tableflow_assets.settings.settings import load_settings
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    failures: dict[str, str] = {}
    for name in topics:
        tell("topic", topic=name)
        try:
            pipeline = tableflow.pipeline(tableflow.topic(name))
            committed = pipeline.catch_up(run_id)
            if maintains:
                tell("maintaining", topic=name)
                maintain_roughly(pipeline)
        except TableflowError as error:
            failures[name] = _named(error)
            if isinstance(error, ServerUnreachable | StackError):
                return failures  # the other topics need the same servers
        else:
            tell("caught_up", topic=name, commits=len(committed.snapshots))
    tableflow.close()
    return failures


def _run_dagster(topics: Sequence[str], *_: object) -> dict[str, str]:
    """Dagster's own command, in this process, so that our listener hears the boundaries."""
    from tableflow_assets.defs.names import table_key
    from tableflow_assets.defs.partitions import current_window
    from tableflow_assets.settings.settings import load_settings
    from tableflow_assets.tableflow import Tableflow

    settings = load_settings()
    tables = [Tableflow(settings).topic(name) for name in topics]
    keys = [table_key(table, settings.namespace).to_user_string() for table in tables]
    command = ["dagster", "asset", "materialize", "-m", "tableflow_assets.definitions"]
    sys.argv = [*command, "--select", ",".join(keys), "--partition", current_window(tables[0])]
    sys.stdout = sys.stderr  # what Dagster prints is not one of our events
    try:
        runpy.run_module("dagster", run_name="__main__")
    except SystemExit as end:
        return {"dagster": f"exit code {end.code}"} if end.code else {}
    return {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
