"""Commands about a Spark server of your own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from tableflow_assets.settings.settings import load_settings


@click.group()
def spark() -> None:
    """What a Spark Connect server of your own needs; the embedded one has it."""


@spark.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON value, for machines.")
def properties(as_json: bool) -> None:
    """Print what to set in its spark-defaults.conf. Secrets are the names of where they are kept."""
    from tableflow_assets.stack.spark_properties import spark_properties

    defaults = spark_properties(load_settings())
    if as_json:
        click.echo(json.dumps(defaults))
        return
    for key, value in defaults.items():
        click.echo(f"{key} {value}")


@spark.command()
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False, writable=True),
    default=".",
    help="The folder to put it into.  [default: this one]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON value, for machines.")
def jar(folder: Path, as_json: bool) -> None:
    """Make the archive with the functions that read JSON, for its class path."""
    from tableflow_assets.jvm.own_jar import ensure_own_jar

    archive = ensure_own_jar()
    copy = folder / archive.name
    shutil.copyfile(archive, copy)
    click.echo(json.dumps({"jar": str(copy)}) if as_json else str(copy))
