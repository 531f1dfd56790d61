"""Commands that are only imported when called: `tableflow --help` needs none of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import click


class DeferredCommand(click.Command):
    """Stands in for the command ``module`` or ``module:attribute`` of this package."""

    def __init__(self, place: str, sentence: str) -> None:
        self._module, _, attribute = place.partition(":")
        self._attribute = attribute or self._module
        super().__init__(self._attribute.replace("_", "-"), help=sentence)

    def load(self) -> click.Command:
        module = import_module(f"{__package__}.{self._module}")
        return cast(click.Command, getattr(module, self._attribute))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        # The context belongs to the real command, and everything click does next goes through it.
        return self.load().make_context(info_name, args, parent, **extra)
