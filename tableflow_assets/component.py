"""Tableflow in somebody's own Dagster project: a component, to be named in a `defs.yaml`.

Imports Dagster and nothing else that is heavy: `dg` imports this module for every one of its commands.
"""

from pathlib import Path
from typing import Annotated

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field

from tableflow_assets.base.errors import SettingsError

SETTINGS_FILE = "tableflow.yaml"
STARTER = """\
# The topics that become tables, and where the servers are. Nothing is said here about Kafka, the registry,
# storage, the catalog or Spark, so the embedded stack serves them all: `tableflow stack up`.

defaults: # inherited by every topic below
  window: day

topics: # an exact name beats a pattern; among patterns the first match wins
  # Every topic of the cluster. Topics that start with _ are internal and never match a pattern.
  "*":
    group: topics
"""


class TableflowScaffoldParams(BaseModel):
    """What `dg scaffold defs tableflow_assets.TableflowComponent` can be told."""

    model_config = ConfigDict(extra="forbid")

    settings: str = Field(
        SETTINGS_FILE,
        description="The settings file, relative to the new folder; created if absent.",
    )


class TableflowScaffolder(dg.Scaffolder[TableflowScaffoldParams]):
    """A `defs.yaml`, and settings to begin with."""

    @classmethod
    def get_scaffold_params(cls) -> type[TableflowScaffoldParams]:
        return TableflowScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[TableflowScaffoldParams]) -> None:
        settings = request.params.settings
        dg.scaffold_component(request, {"settings": settings})
        folder = request.target_path.parent if request.append else request.target_path
        file = folder / settings
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(STARTER)


def _beside_its_yaml(context: dg.ResolutionContext, value: str) -> Path:
    path = context.resolve_value(value)
    if not isinstance(path, str):  # {{ env.X }} of a variable that is not set is None
        raise SettingsError(
            f"The component's `settings` is {value!r}, which gives {path!r} and not the path of a file.",
            "Set the environment variable that it names, or write the path itself.",
        )
    return context.resolve_source_relative_path(path)


@dg.scaffold_with(TableflowScaffolder)
class TableflowComponent(dg.Component, dg.Model, dg.Resolvable):
    """Kafka topics as Iceberg and Delta tables, exactly once: their assets, checks, jobs and sensors."""

    settings: Annotated[
        Path,
        dg.Resolver(
            _beside_its_yaml,
            inject_before_resolve=False,  # a variable that is not set would never get to us
            model_field_type=str,
            description="The settings file, relative to this defs.yaml.",
            examples=[SETTINGS_FILE, "{{ env.TABLEFLOW_CONFIG }}"],
        ),
    ] = Path(SETTINGS_FILE)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        from tableflow_assets.defs.build import build_definitions
        from tableflow_assets.settings.settings import load_settings

        folder = context.path if context.path.is_dir() else context.path.parent
        return build_definitions(load_settings(folder / self.settings))
