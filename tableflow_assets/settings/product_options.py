"""What can be set for a product in tableflow.yaml. Its .sql file defines the product itself."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from tableflow_assets.settings.blocks import Line, Word
from tableflow_assets.settings.managed_table import CommonOptions


class ProductOptions(CommonOptions):
    # A file, relative to the folder of tableflow.yaml, or a product of the labs. None: the lab's of its name.
    sql: Line | None = None
    # By name in the SQL, the topic or product to read, if its name is different.
    inputs: Mapping[str, Line] = Field(default_factory=dict)
    group: Word = "products"
