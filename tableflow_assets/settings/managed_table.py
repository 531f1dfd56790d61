"""How a managed table is kept, whoever fills it: a topic's records or a product's statement."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from tableflow_assets.settings.blocks import (
    NOT_EMPTY,
    NOT_TWICE,
    TERMS,
    Age,
    Block,
    Compaction,
    Cron,
    FileSize,
    Folder,
    Format,
    Line,
    Owner,
    PartitionTerm,
    SortTerm,
    Word,
)
from tableflow_assets.settings.layout_terms import WINDOW
from tableflow_assets.settings.names import DEAD_LETTER_SUFFIX, table_name
from tableflow_assets.settings.values import file_bytes

# By one writer: each takes some megabytes of memory.
FILES_OPEN_AT_ONCE = 64


class CommonOptions(Block):
    """What tableflow.yaml can set alike for a topic's table and for a product's."""

    owners: Annotated[tuple[Owner, ...], Field(strict=False)] = ()
    formats: Annotated[tuple[Format, ...], Field(strict=False), NOT_EMPTY, NOT_TWICE] = (
        "iceberg",
        "delta",
    )
    target_file_size: FileSize = "128MB"
    keep_snapshots: Age = timedelta(days=5)
    # Beyond so many, those older than an hour are thinned out to one an hour: every commit writes the
    # list of all of them.
    max_snapshots: Annotated[int, Field(ge=2, le=100_000)] = 500
    compaction: Compaction = "binpack"
    # When the table is looked after, as a cron schedule. None: never.
    maintenance: Cron | None = "0 * * * *"
    # The catalogs, of those under `catalogs`, that show the table. None: all of them.
    catalogs: Annotated[tuple[Line, ...], Field(strict=False), NOT_TWICE] | None = None


class TableOptions(CommonOptions):
    """What defines how any table is kept; a product's SQL decides some of these."""

    group: Word = "topics"
    description: str | None = None
    window: Literal["hour", "day"] = "day"
    # Of a table with keys: into how many parts its rows are laid out, so that a batch of few keys
    # looks through few of them.
    key_buckets: Annotated[int, Field(gt=0, le=4096)] = 8
    # The layout of what is written from now on; `layout_terms.py` takes the terms apart.
    partition_by: Annotated[
        tuple[PartitionTerm, ...], Field(strict=False), TERMS, NOT_EMPTY, NOT_TWICE
    ] = (WINDOW,)
    sort_by: Annotated[tuple[SortTerm, ...], Field(strict=False), TERMS, NOT_TWICE] = ()
    # None: rows stay for ever.
    retention: Age | None = None
    # Where the table and its dead letters are created, each in a folder of its own. None: where the
    # catalog chooses.
    location: Folder | None = None

    @property
    def is_keyed(self) -> bool:
        """Whether the table holds one row per key, rather than one per record."""
        return False

    @property
    def is_by_window_only(self) -> bool:
        return not self.is_keyed and self.partition_by == (WINDOW,)

    @property
    def has_few_partitions(self) -> bool:
        """Few enough that a writer can have a file open for each of them."""
        few_keys = self.is_keyed and self.key_buckets <= FILES_OPEN_AT_ONCE
        return few_keys or self.is_by_window_only

    @property
    def target_file_bytes(self) -> int:
        return file_bytes(self.target_file_size)

    def is_shown_in(self, catalog: str) -> bool:
        return self.catalogs is None or catalog in self.catalogs


class ManagedTable(TableOptions):
    """A table with all its options resolved. ``name``: of the topic or product that fills it."""

    name: str

    @property
    def table(self) -> str:
        return table_name(self.name)

    @property
    def dead_letter_table(self) -> str:
        """The table beside it; only topics have letters to keep there."""
        return self.table + DEAD_LETTER_SUFFIX
