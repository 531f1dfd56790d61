"""What can be set for a topic, or for all of them, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from tableflow_assets.settings.blocks import Line, Mode
from tableflow_assets.settings.layout_terms import WINDOW
from tableflow_assets.settings.managed_table import TableOptions


class TopicOptions(TableOptions):
    """What can be set for a topic, or for all in `defaults`."""

    mode: Mode = "append"
    # How values are encoded: as the registry says, or without a schema.
    value: Literal["registry", "json", "string", "raw"] = "registry"
    # auto: as the registry says if it has a subject for the keys, else raw.
    key: Literal["auto", "registry", "json", "string", "raw"] = "auto"
    # Confluent's strategies to name the subject of a record.
    subject_name: Literal["topic", "record", "topic_record"] = "topic"
    # The full name of the values' record. For Protobuf: the message, if not the first of its file.
    record: Line | None = None
    key_record: Line | None = None
    bad_records: Literal["dead_letter", "skip", "suspend"] = "dead_letter"
    # The share of dead letters in a run above which they are an error, not a warning.
    dead_letter_threshold: Annotated[float, Field(ge=0, le=1)] = 0.01
    # None: the day of the topic's first record. Kafka's timestamps count from 1970.
    first_window: Annotated[date, Field(ge=date(1970, 1, 1))] | None = None
    # The upper limit catches typing errors.
    max_records: Annotated[int, Field(gt=0, le=1_000_000_000)] = 1_000_000
    max_bytes: Annotated[int, Field(gt=0, le=2**40)] = 2**30

    @property
    def is_keyed(self) -> bool:
        return self.mode in ("upsert", "cdc")

    def over(self, defaults: TopicOptions) -> TopicOptions:
        """These options, and those of the defaults where nothing is set here."""
        options = {name: getattr(defaults, name) for name in defaults.model_fields_set}
        options |= {name: getattr(self, name) for name in self.model_fields_set}
        return TopicOptions.model_validate(options)

    def contradictions(self) -> Iterator[tuple[str, str, str]]:
        """The option, what is wrong with it, and how a topic can turn it off."""
        if self.is_keyed and self.retention is not None:
            why = f"not with `mode: {self.mode}`: the rows of keys do not age"
            yield "retention", why, "retention: null"
        if self.is_keyed and self.partition_by != (WINDOW,):
            why = f"not with `mode: {self.mode}`: it is laid out by key; use `key_buckets`"
            yield "partition_by", why, "partition_by: window"
        if self.compaction == "sort" and not self.sort_by:
            yield "compaction", "`sort` needs `sort_by`", "compaction: binpack"
