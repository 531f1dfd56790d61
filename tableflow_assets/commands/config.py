"""Commands about the settings."""

from __future__ import annotations

import json

import click

from tableflow_assets.commands.show import json_option, print_json
from tableflow_assets.settings.settings import load_settings


@click.group()
def config() -> None:
    """Check and show the settings."""


@config.command()
@json_option
def check(as_json: bool) -> None:
    """Read tableflow.yaml; name every mistake with its line."""
    settings = load_settings()
    summary = {"file": str(settings.file or "built in"), "entries": list(settings.topics)}
    if as_json:
        print_json({"ok": True, **summary})
    else:
        click.echo(f"{summary['file']} is valid: {len(settings.topics)} topics and patterns")


@config.command()
@json_option
def show(as_json: bool) -> None:
    """The settings in effect, defaults included, secrets masked."""
    click.echo(json.dumps(load_settings().show(), indent=None if as_json else 2, default=str))
