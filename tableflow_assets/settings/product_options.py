"""What can be set for a product in tableflow.yaml. What it is, its .sql file says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from tableflow_assets.settings.blocks import (
    NOT_EMPTY,
    NOT_TWICE,
    Age,
    Block,
    Compaction,
    Cron,
    FileSize,
    Format,
    Line,
    Owner,
    Word,
)


class ProductOptions(Block):
    # A file, from the folder of tableflow.yaml on; or a product of the labs. None: that of its own name.
    sql: Line | None = None
    # The topic or product that is meant by a name in the SQL, where it is not the name itself.
    inputs: Mapping[str, Line] = Field(default_factory=dict)
    owners: Annotated[tuple[Owner, ...], Field(strict=False)] = ()
    group: Word = "products"
    # As for topics.
    formats: Annotated[tuple[Format, ...], Field(strict=False), NOT_EMPTY, NOT_TWICE] = (
        "iceberg",
        "delta",
    )
    target_file_size: FileSize = "128MB"
    keep_snapshots: Age = timedelta(days=5)
    compaction: Compaction = "binpack"
    maintenance: Cron | None = "0 * * * *"
    catalogs: Annotated[tuple[Line, ...], Field(strict=False), NOT_TWICE] | None = None
