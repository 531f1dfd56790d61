"""The `tableflow` command: the same library calls as Dagster's ops, from a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from tableflow_assets.base import masking
from tableflow_assets.base.errors import TableflowError
from tableflow_assets.commands import (
    aws,
    bench,
    catalogs,
    chaos,
    config,
    connect,
    dead_letters,
    demo,
    forget,
    history,
    labs,
    ledger,
    maintenance,
    mirror,
    plan,
    products,
    query,
    rebuild,
    repair,
    resume,
    retention,
    rollback,
    snowflake,
    soak,
    spark,
    stack,
    tag,
    topics,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="The settings file. Default: $TABLEFLOW_CONFIG, else ./tableflow.yaml, else built in.",
)
def tableflow(config_file: Path | None) -> None:
    """Kafka topics as Iceberg tables, exactly once."""
    if config_file is not None:
        # By the environment, so that every process we start finds the same settings.
        os.environ["TABLEFLOW_CONFIG"] = str(config_file.absolute())


tableflow.add_command(demo.demo)
tableflow.add_command(topics.status)
tableflow.add_command(topics.verify)
tableflow.add_command(topics.materialize)
tableflow.add_command(query.query)
tableflow.add_command(connect.connect)
tableflow.add_command(products.products)
tableflow.add_command(catalogs.catalogs)
tableflow.add_command(aws.aws)
tableflow.add_command(snowflake.snowflake)
tableflow.add_command(history.history)
tableflow.add_command(tag.tag)
tableflow.add_command(rollback.rollback)
tableflow.add_command(plan.plan)
tableflow.add_command(resume.resume)
tableflow.add_command(rebuild.rebuild)
tableflow.add_command(mirror.mirror)
tableflow.add_command(repair.repair)
tableflow.add_command(retention.retention)
tableflow.add_command(maintenance.maintenance)
tableflow.add_command(ledger.ledger)
tableflow.add_command(forget.forget)
tableflow.add_command(dead_letters.dead_letters)
tableflow.add_command(stack.stack)
tableflow.add_command(spark.spark)
tableflow.add_command(labs.labs)
tableflow.add_command(config.config)
tableflow.add_command(bench.bench)
tableflow.add_command(chaos.chaos)
tableflow.add_command(soak.soak)


def main() -> None:
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
