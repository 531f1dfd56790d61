"""The code location: what Dagster shows for the settings that it finds when it loads this module."""

import dagster as dg

from tableflow_assets.defs.build import build_definitions
from tableflow_assets.settings.settings import load_settings

__all__ = ["build_definitions", "defs"]

defs = dg.Definitions.merge(
    build_definitions(load_settings()),
    # One process drives Spark for the whole run: each further process would open its own session.
    dg.Definitions(executor=dg.in_process_executor),
)
