"""What a topic's table needs, and why. Reads metadata only: no row, no Spark, no Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.maintenance.content import Content, Counts, Part, content_of
from tableflow_assets.operate.maintenance.expirable import (
    SNAPSHOTS_AT_MOST,
    expirable,
    outlived_tags,
)
from tableflow_assets.operate.maintenance.file_groups import Place, Places
from tableflow_assets.operate.oldest_kept import oldest_kept
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.delta.lifecycle import Standing, standing
from tableflow_assets.table.formats import is_delta

# Small files: so many of them, if merging makes them fewer.
SMALL_FILES = 5
# Up to so many bytes, merging two of them is worth it already: it costs next to nothing.
FEW_BYTES = 16 * 2**20
# In the newest window, which is still being written, so many more: each rewrite of it reads again what
# the last one has written, and an append under way has to be planned again.
SMALL_FILES_IN_THE_NEWEST = 10
# Rows that are only marked as deleted: readers read them to throw them away.
DEAD_SHARE = 0.3
# Files of such marks: every reader opens all of them.
DELETE_FILES = 10
# Manifests with few entries: every reader opens them to plan a query.
SMALL_MANIFESTS = 50
# Files that belong to nothing are looked for so often: it lists the whole table.
ORPHANS_EVERY = timedelta(days=1)
LAST_ORPHANS = "tableflow.orphans_removed"  # a property of the table: when, in ISO

Kind = Literal["retention", "compact", "manifests", "expire", "orphans", "mirror"]
Remedy = Literal["", "pack", "rewrite"]


@dataclass(frozen=True)
class Need:
    kind: Kind
    why: str


@dataclass(frozen=True)
class Window:
    """A window of the table or, with keys, a bucket of them.

    ``remedy``: merge the small files, or write all of them anew without the dead rows.
    """

    name: str
    files: int
    small_files: int
    bytes: int
    rows: int
    dead_rows: int
    delete_files: int
    is_newest: bool
    remedy: Remedy
    why: str
    place: Place


@dataclass(frozen=True)
class Health:
    topic: str
    windows: tuple[Window, ...] = ()
    needs: tuple[Need, ...] = ()
    snapshots: int = 0
    manifests: int = 0

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(need.kind for need in self.needs)

    def why(self, kind: Kind) -> str:
        return next((need.why for need in self.needs if need.kind == kind), "")

    def to_json(self) -> dict[str, Any]:
        known = asdict(self)
        for window in known["windows"]:
            window.pop("place")
        return known


def health(catalog: RestCatalog, topic: Topic, now: datetime | None = None) -> Health:
    table = catalog.find(topic.table)
    if table is None or table.current_snapshot() is None:
        return Health(topic.name)
    delta = standing(catalog, table) if is_delta(table) else None
    return health_of(catalog, table, topic, delta, now)


def health_of(
    catalog: RestCatalog,
    table: Table,
    topic: Topic,
    delta: Standing | None,
    now: datetime | None = None,
) -> Health:
    """For those who have the table, and know how its Delta log stands."""
    if table.current_snapshot() is None:
        return Health(topic.name)
    now = now or datetime.now(UTC)
    places = Places(table, topic)
    content = catalog.ask(lambda: content_of(table, topic, places))
    windows = windows_of(content, topic, places, now)
    return Health(
        topic=topic.name,
        windows=windows,
        needs=tuple(_needs(table, topic, windows, content, delta, now)),
        snapshots=len(table.snapshots()),
        manifests=content.manifests,
    )


def windows_of(content: Content, topic: Topic, places: Places, now: datetime) -> tuple[Window, ...]:
    """All windows in their order, each with what it needs; those being written last."""
    being_written = _being_written(content, places, now)
    parts = sorted(content.parts.values(), key=lambda part: _order(part.place))
    return tuple(_window(part, topic, part.place in being_written) for part in parts)


def _being_written(content: Content, places: Places, now: datetime) -> set[Place]:
    if not places.are_windows:
        return set()  # rows come to every bucket, all the time
    newest = max(content.parts, key=_order, default=None)
    return {places.window_of(now), *([newest] if newest else ())}


def _order(place: Place) -> tuple[float, int, str]:
    start = place.start.timestamp() if place.start else 0.0
    return (start, place.bucket or 0, place.name)


def _window(part: Part, topic: Topic, is_newest: bool) -> Window:
    total = part.total
    remedy, why = _remedy(part, topic, is_newest)
    return Window(
        name=part.place.name,
        files=total.files,
        small_files=total.small_files,
        bytes=total.bytes,
        rows=total.rows,
        dead_rows=min(total.dead_rows, total.rows),
        delete_files=total.delete_files,
        is_newest=is_newest,
        remedy=remedy,
        why=why,
        place=part.place,
    )


def _enough(group: Counts, is_newest: bool) -> int:
    if is_newest:
        return SMALL_FILES_IN_THE_NEWEST
    return 2 if group.small_bytes <= FEW_BYTES else SMALL_FILES


def _remedy(part: Part, topic: Topic, is_newest: bool) -> tuple[Remedy, str]:
    packable = [
        group
        for group in part.groups.values()
        if group.small_files >= _enough(group, is_newest)
        and group.files_when_packed(topic.target_file_bytes) < group.small_files
    ]
    total, reasons = part.total, []
    if packable:
        small = sum(group.small_files for group in packable)
        packed = sum(group.files_when_packed(topic.target_file_bytes) for group in packable)
        reasons.append(f"{small} small files would be {packed}")
    is_dead = any(map(_is_dead, part.groups.values()))
    if is_dead:
        reasons.append(f"{total.dead_rows} of {total.rows} rows are deleted")
    has_many_marks = any(group.delete_files > DELETE_FILES for group in part.groups.values())
    if has_many_marks:
        reasons.append(f"{total.delete_files} delete files")
    remedy: Remedy = "rewrite" if is_dead else "pack" if reasons else ""
    return remedy, ", ".join(reasons)


def _is_dead(group: Counts) -> bool:
    return group.dead_rows > 0 and group.dead_rows >= DEAD_SHARE * group.rows


def _needs(
    table: Table,
    topic: Topic,
    windows: tuple[Window, ...],
    content: Content,
    delta: Standing | None,
    now: datetime,
) -> Iterator[Need]:
    if (kept := oldest_kept(topic, now)) and content.oldest and content.oldest < kept:
        yield Need("retention", f"rows from before {kept:%Y-%m-%d %H:%M} are older than it allows")
    if unwell := [window for window in windows if window.remedy]:
        yield Need("compact", "; ".join(f"{one.name}: {one.why}" for one in unwell))
    if content.small_manifests > SMALL_MANIFESTS:
        yield Need("manifests", f"{content.small_manifests} manifests have few entries")
    yield from _of_age(table, topic, now)
    if delta is not None and delta.behind:
        yield Need("mirror", delta.problem or f"the Delta log lacks {delta.behind} states")


def _of_age(table: Table, topic: Topic, now: datetime) -> Iterator[Need]:
    now_ms = int(now.timestamp() * 1000)
    old = expirable(table, int((now - topic.keep_snapshots).timestamp() * 1000), now_ms)
    tags = outlived_tags(table, now_ms)
    if old or tags:
        days = topic.keep_snapshots / timedelta(days=1)
        text = f"{len(old)} snapshots are older than {days:g} days"
        if len(table.snapshots()) > SNAPSHOTS_AT_MOST:
            text += f", or more than {SNAPSHOTS_AT_MOST}"
        yield Need("expire", text + (f", {len(tags)} tags are outlived" if tags else ""))
    looked = _last_look_for_orphans(table)
    if now - looked > ORPHANS_EVERY:
        yield Need("orphans", f"not looked for since {looked:%Y-%m-%d %H:%M}")


def _last_look_for_orphans(table: Table) -> datetime:
    """Never: then the table's beginning, as far as it is known."""
    try:
        return datetime.fromisoformat(table.properties[LAST_ORPHANS])
    except (KeyError, ValueError):
        times = [one.timestamp_ms for one in table.metadata.metadata_log]
        times += [one.timestamp_ms for one in table.history()]
        oldest = min(times, default=table.metadata.last_updated_ms)
        return datetime.fromtimestamp(oldest / 1000, UTC)
