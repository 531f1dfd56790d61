"""The `tableflow` command: the same library calls as Dagster's ops, from a terminal."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import click

from tableflow_assets.base import masking
from tableflow_assets.base.errors import TableflowError
from tableflow_assets.commands.deferred import DeferredCommand

GARBAGE_AFTER = 50_000  # new objects

# The module of each command in `commands` (and its name there, where that is another one), and the
# first sentence of its own help.
COMMANDS = {
    "demo": "Start everything, with data flowing, and open Dagster; Ctrl-C stops it all.",
    "topics:status": (
        "How far each table is behind its topic, its Delta log behind the table, and what it needs."
    ),
    "topics:verify": "Compare tables with their topics, offset by offset; exit 1 on any difference.",
    "topics:materialize": "Bring tables up to the end of their topics (what Dagster's runs do).",
    "follow": "Stay with the logs, and commit what comes to all tables, or to these, again and again.",
    "query": "Run SQL over the tables with DuckDB, e.g.",
    "connect": "Print what to paste into another engine, so that it sees the tables.",
    "products": "Data products: tables that SQL makes of topics' tables and of each other.",
    "catalogs": "Where tables are shown, beside the catalog that owns them.",
    "aws": "What AWS has to allow.",
    "snowflake": "What Snowflake needs to show the tables: its SQL, to read or to run.",
    "history": "The states that a table has had, newest first: what changed, up to where, and by which run.",
    "tag": "Name a state of the table, so that it stays readable; without a name, list the tags.",
    "rollback": "Take a table back to an earlier state; the next run reads the rest of the log again.",
    "plan": "What the newest schema does to a topic's table; exit 1 if some of it is refused.",
    "resume": "End a topic's suspension, once its cause is mended; exit 1 if it is not.",
    "rebuild": "Replace a table's rows by what the log holds, in one step; the old ones stay under a tag.",
    "rebase": (
        "Let a table go on with another log, and keep its rows: the topic has moved, or was created again."
    ),
    "mirror": "Write what the Delta logs of tables do not show yet, or check them; exit 1 on any difference.",
    "repair": (
        "Mend a table and its Delta log where that loses nothing; exit 1 if something is left to decide."
    ),
    "retention": "Drop the rows and dead letters of windows older than the topic's `retention`.",
    "maintenance": "What the tables need (files merged, old snapshots removed), and doing it.",
    "ledger": "Which offsets a table has read, and the commits that brought them, newest first.",
    "forget": "Erase all records of a key from the table, its dead letters and old snapshots.",
    "dead_letters": "Records that could not be read: kept aside, explained, and replayable.",
    "stack": "The embedded servers: Kafka, registry, object store, catalog, Spark, Dagster.",
    "spark": "What a Spark Connect server of your own needs; the embedded one has it.",
    "labs": "Seeded records for the labs' topics.",
    "config": "Check and show the settings.",
    "bench": "Measure, on a running stack.",
    "chaos": "Break runs and servers of a stack of its own; exit 1 if a record got lost or came twice.",
    "soak": "Many small commits on servers of its own; exit 1 if files pile up or queries become slow.",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="The settings file. Default: $TABLEFLOW_CONFIG, else ./tableflow.yaml, else built in.",
)
@click.version_option(package_name="tableflow-assets", message="%(package)s %(version)s")
def tableflow(config_file: Path | None) -> None:
    """Kafka topics as Iceberg tables, exactly once."""
    if config_file is not None:
        # By the environment, so that every process we start finds the same settings.
        os.environ["TABLEFLOW_CONFIG"] = str(config_file.absolute())


for place, sentence in COMMANDS.items():
    tableflow.add_command(DeferredCommand(place, sentence))


def main() -> None:
    # What a command imports stays: by default, looking through it for garbage is a seventh of its time.
    gc.set_threshold(GARBAGE_AFTER, *gc.get_threshold()[1:])
    masking.install()
    try:
        tableflow(standalone_mode=False)
    except TableflowError as error:
        click.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(1)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.secho("Stopped.", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
