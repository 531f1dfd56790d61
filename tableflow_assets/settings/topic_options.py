"""What can be set for a topic, or for all of them, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Annotated, Literal

from pydantic import Field

from tableflow_assets.settings.blocks import Commit, Line, Mode, Promise
from tableflow_assets.settings.layout_terms import WINDOW
from tableflow_assets.settings.managed_table import TableOptions
from tableflow_assets.settings.values import gathered_bytes, span_text

# Below it, the way into the table takes most of the time that was promised.
SHORTEST_TO_GATHER = timedelta(minutes=1)


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
    # How old the oldest unread record may get. None: nothing is promised.
    freshness: Promise | None = None
    # Whether Dagster's own policy watches it as well: for topics in which records never pause.
    freshness_policy: bool = False
    commit: Commit = Commit()

    @property
    def is_keyed(self) -> bool:
        return self.mode in ("upsert", "cdc")

    @property
    def commit_every(self) -> timedelta:
        """How long the oldest unread record waits for others, while less than `or_bytes` is unread."""
        if self.commit.every is not None:
            return self.commit.every
        if self.freshness is None or self.freshness < SHORTEST_TO_GATHER:
            return timedelta()
        return self.freshness / 2

    @property
    def commit_bytes(self) -> int:
        return gathered_bytes(self.commit.or_bytes)

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
        yield from self._broken_promises()

    def _broken_promises(self) -> Iterator[tuple[str, str, str]]:
        every, promise = self.commit.every, self.freshness
        if every is not None and promise is not None and every > promise:
            why = f"{span_text(every)} is longer than `freshness: {span_text(promise)}` allows"
            yield "commit.every", why, "commit: {}"
        if every is None and promise is None and "or_bytes" in self.commit.model_fields_set:
            why = "does nothing without `every` or `freshness`: records are committed at once"
            yield "commit.or_bytes", why, "commit: {}"
        if promise is None and self.freshness_policy:
            yield "freshness_policy", "needs `freshness`", "freshness_policy: false"
