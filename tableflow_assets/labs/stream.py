"""Both labs as one stream of records: endless, or a fixed number of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.labs import river_hotels, shift_left
from tableflow_assets.labs.clock import Clock, fixed_step_clock, wall_clock
from tableflow_assets.labs.record import LabRecord
from tableflow_assets.labs.river_hotels import RiverHotels
from tableflow_assets.labs.shift_left import ShiftLeft

LAB_TOPICS: tuple[str, ...] = (*shift_left.TOPICS, *river_hotels.TOPICS)

DEFAULT_START = datetime(2026, 1, 5, tzinfo=UTC)

# 20,000 records span a little more than a day: small sets already touch more than one window. A
# million span 58 days. For more, take a smaller step: a broker refuses timestamps in the future.
DEFAULT_STEP = timedelta(seconds=5)


def generate(
    seed: int,
    start: datetime,
    topics: Collection[str] | None = None,
    step: timedelta = DEFAULT_STEP,
) -> Iterator[LabRecord]:
    """An endless stream in which record n of all topics is produced at ``start + n * step``.

    The same seed and start give the same records; asking for fewer topics leaves records out and
    changes none of the others.
    """
    return _stamped(seed, fixed_step_clock(start, step), checked_topics(topics))


def generate_live(seed: int, topics: Collection[str] | None = None) -> Iterator[LabRecord]:
    """The same stream, but each record is produced at the moment it is taken from the iterator."""
    return _stamped(seed, wall_clock, checked_topics(topics))


def records(
    seed: int,
    count: int,
    start: datetime = DEFAULT_START,
    topics: Collection[str] | None = None,
    step: timedelta = DEFAULT_STEP,
) -> Iterator[LabRecord]:
    """A fixed set: the first ``count`` records of the chosen topics, all topics taken together."""
    if count < 0:
        raise SettingsError(f"Cannot generate {count} lab records", "Ask for zero or more.")
    return islice(generate(seed, start, topics, step), count)


def checked_topics(topics: Collection[str] | None) -> tuple[str, ...]:
    """The topics asked for, or all of them; a name that no lab has is refused."""
    if topics is None:
        return LAB_TOPICS
    choices = ", ".join(LAB_TOPICS)
    unknown = sorted(set(topics) - set(LAB_TOPICS))
    if unknown:
        raise SettingsError(
            f"No lab has a topic named {', '.join(unknown)}", f"Choose from: {choices}."
        )
    if not topics:
        raise SettingsError("No lab topic was chosen", f"Choose from: {choices}.")
    return tuple(topic for topic in LAB_TOPICS if topic in topics)


def _stamped(seed: int, clock: Clock, topics: Collection[str]) -> Iterator[LabRecord]:
    taking_turns = zip(ShiftLeft(seed).drafts(), RiverHotels(seed).drafts(), strict=True)
    for draft in chain.from_iterable(taking_turns):
        # Every draft is completed, even those left out below: completing one draws random
        # numbers and can put others on the agenda.
        record = draft(clock())
        if record.topic in topics:
            yield record
