"""What can be set for a topic, or for all of them, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
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
    Mode,
    Owner,
    PartitionTerm,
    SortTerm,
    Word,
)
from tableflow_assets.settings.layout_terms import WINDOW
from tableflow_assets.settings.values import file_bytes

# By one writer: each takes some megabytes of memory.
FILES_OPEN_AT_ONCE = 64


class TopicOptions(Block):
    """What can be set for a topic, or for all in `defaults`."""

    mode: Mode = "append"
    # What the bytes of a value are: described by the registry, or by nobody.
    value: Literal["registry", "json", "string", "raw"] = "registry"
    # auto: as the registry says where it has a subject for the keys, else raw.
    key: Literal["auto", "registry", "json", "string", "raw"] = "auto"
    # Confluent's strategies to name the subject of a record.
    subject_name: Literal["topic", "record", "topic_record"] = "topic"
    # The full name of the values' record. Of Protobuf: the message, if not the first of its file.
    record: Line | None = None
    key_record: Line | None = None
    window: Literal["hour", "day"] = "day"
    formats: Annotated[tuple[Format, ...], Field(strict=False), NOT_EMPTY, NOT_TWICE] = (
        "iceberg",
        "delta",
    )
    bad_records: Literal["dead_letter", "skip", "suspend"] = "dead_letter"
    # The share of a run's records above which their being dead letters is an error, not a warning.
    dead_letter_threshold: Annotated[float, Field(ge=0, le=1)] = 0.01
    # None: the day of the topic's first record. Kafka's timestamps count from 1970.
    first_window: Annotated[date, Field(ge=date(1970, 1, 1))] | None = None
    owners: Annotated[tuple[Owner, ...], Field(strict=False)] = ()
    group: Word = "topics"
    description: str | None = None
    # The upper limit refuses a slip of the keyboard.
    max_records: Annotated[int, Field(gt=0, le=1_000_000_000)] = 1_000_000
    max_bytes: Annotated[int, Field(gt=0, le=2**40)] = 2**30
    # Of a table with keys: into how many parts its rows are laid out, so that a batch of few keys
    # looks through few of them.
    key_buckets: Annotated[int, Field(gt=0, le=4096)] = 8
    # The layout of what is written from now on; `settings_terms.py` takes the terms apart.
    partition_by: Annotated[
        tuple[PartitionTerm, ...], Field(strict=False), TERMS, NOT_EMPTY, NOT_TWICE
    ] = (WINDOW,)
    sort_by: Annotated[tuple[SortTerm, ...], Field(strict=False), TERMS, NOT_TWICE] = ()
    target_file_size: FileSize = "128MB"
    # None: rows stay for ever.
    retention: Age | None = None
    keep_snapshots: Age = timedelta(days=5)
    compaction: Compaction = "binpack"
    # When the table is looked after, as a cron schedule. None: never.
    maintenance: Cron | None = "0 * * * *"
    # Where the table and its dead letters are made, each in a folder of its own. None: as the catalog does.
    location: Folder | None = None
    # The catalogs, of those under `catalogs`, that show the table. None: all of them.
    catalogs: Annotated[tuple[Line, ...], Field(strict=False), NOT_TWICE] | None = None

    @property
    def is_keyed(self) -> bool:
        """Whether the table holds one row a key, and not one a record."""
        return self.mode in ("upsert", "cdc")

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

    def over(self, defaults: TopicOptions) -> TopicOptions:
        """These options, and those of the defaults where nothing is set here."""
        chosen = {name: getattr(defaults, name) for name in defaults.model_fields_set}
        chosen |= {name: getattr(self, name) for name in self.model_fields_set}
        return TopicOptions.model_validate(chosen)

    def contradictions(self) -> Iterator[tuple[str, str, str]]:
        """The option, what is wrong with it, and how a topic says that it does not want it."""
        if self.is_keyed and self.retention is not None:
            why = f"not with `mode: {self.mode}`: the rows of keys do not age"
            yield "retention", why, "retention: null"
        if self.is_keyed and self.partition_by != (WINDOW,):
            why = f"not with `mode: {self.mode}`: it is laid out by key; use `key_buckets`"
            yield "partition_by", why, "partition_by: window"
        if self.compaction == "sort" and not self.sort_by:
            yield "compaction", "`sort` needs `sort_by`", "compaction: binpack"
