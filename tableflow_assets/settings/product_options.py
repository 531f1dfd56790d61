"""What can be set for a product in tableflow.yaml. Its .sql file defines the product itself."""

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
    # A file, relative to the folder of tableflow.yaml, or a product of the labs. None: the lab's of its name.
    sql: Line | None = None
    # By name in the SQL, the topic or product to read, if its name is different.
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
