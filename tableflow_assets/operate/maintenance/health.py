"""What a topic's table needs, and why. Reads metadata only: no row, no Spark, no Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.maintenance.content import Content, Counts, GroupContent, content_of
from tableflow_assets.operate.maintenance.expirable import Limits, outlived_tags, sort_out
from tableflow_assets.operate.maintenance.file_groups import FileGroup, FileGroups, OneGroup
from tableflow_assets.operate.maintenance.old_metadata import has_old_metadata
from tableflow_assets.operate.oldest_kept import oldest_kept
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.delta.lifecycle import MirrorStatus, mirror_status
from tableflow_assets.table.formats import is_delta

# So many small files are worth merging, if that makes them fewer.
SMALL_FILES = 5
# Up to so many bytes, merging just two is worth it: it costs next to nothing.
FEW_BYTES = 16 * 2**20
# The newest window, which is still being written, needs more of them: each rewrite reads again what the
# last one has written, and forces an append under way to be planned again.
SMALL_FILES_IN_THE_NEWEST = 10
# Rows that are only marked as deleted: readers read them, then throw them away.
DEAD_SHARE = 0.3
# Files of such marks: every reader opens them all.
DELETE_FILES = 10
# Manifests with few entries: every reader opens them to plan a query.
SMALL_MANIFESTS = 50
# How often to look for files that belong to nothing, which lists the whole table.
ORPHANS_EVERY = timedelta(days=1)
LAST_ORPHANS = "tableflow.orphans_removed"  # a property of the table: when, in ISO

DEAD_LETTERS = "dead letters"

Kind = Literal["retention", "compact", "manifests", "expire", "metadata", "orphans", "mirror"]
Remedy = Literal["", "pack", "rewrite"]


@dataclass(frozen=True)
class Need:
    kind: Kind
    why: str


@dataclass(frozen=True)
class Window:
    """A window of the table or, with keys, a bucket of them.

    ``remedy``: merge the small files, or rewrite all of them without the dead rows.
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
    group: FileGroup


@dataclass(frozen=True)
class Health:
    topic: str
    windows: tuple[Window, ...] = ()
    needs: tuple[Need, ...] = ()
    snapshots: int = 0
    manifests: int = 0
    letters: Window | None = None  # the dead letters' table, as if it were a window; None: no table

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(need.kind for need in self.needs)

    def why(self, kind: Kind) -> str:
        return next((need.why for need in self.needs if need.kind == kind), "")

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        letters = document["letters"]
        for window in (*document["windows"], *([letters] if letters else ())):
            window.pop("group")
        return document


def health(catalog: RestCatalog, topic: ManagedTable, now: datetime | None = None) -> Health:
    table = catalog.find(topic.table)
    if table is None or table.current_snapshot() is None:
        return Health(topic.name)
    delta = mirror_status(catalog, table) if is_delta(table) else None
    return health_of(catalog, table, topic, delta, now)


def health_of(
    catalog: RestCatalog,
    table: Table,
    topic: ManagedTable,
    delta: MirrorStatus | None,
    now: datetime | None = None,
) -> Health:
    """For those who have the table, and know how its Delta log stands."""
    if table.current_snapshot() is None:
        return Health(topic.name)
    now = now or datetime.now(UTC)
    groups = FileGroups(table, topic)
    content = catalog.ask(lambda: content_of(table, topic, groups))
    windows = windows_of(content, topic, groups, now)
    needs = [*_needs(topic, windows, content, delta, now), *_of_any(table, topic, content, now)]
    letters, letters_state = catalog.find(topic.dead_letter_table), None
    if letters is not None:
        letters_content = _content_of_letters(catalog, letters, topic)
        letters_state = _window_of_letters(letters_content, topic)
        needs += _needs_of_letters(letters, topic, letters_content, letters_state, now)
    needs += _orphans(table, now)
    return Health(
        topic=topic.name,
        windows=windows,
        needs=tuple(_by_kind(needs)),
        snapshots=len(table.snapshots()),
        manifests=content.manifests,
        letters=letters_state,
    )


def letters_window(catalog: RestCatalog, letters: Table, topic: ManagedTable) -> Window:
    """The dead letters' table as it is now."""
    return _window_of_letters(_content_of_letters(catalog, letters, topic), topic)


def _content_of_letters(catalog: RestCatalog, letters: Table, topic: ManagedTable) -> Content:
    return catalog.ask(lambda: content_of(letters, topic, OneGroup(DEAD_LETTERS)))


def _window_of_letters(content: Content, topic: ManagedTable) -> Window:
    group = FileGroup(DEAD_LETTERS)
    # Like the newest window, it is written all the time.
    return _window(content.groups.get(group, GroupContent(group)), topic, is_newest=True)


def windows_of(
    content: Content, topic: ManagedTable, groups: FileGroups, now: datetime
) -> tuple[Window, ...]:
    """All windows in order, each with what it needs; those being written come last."""
    being_written = _being_written(content, groups, now)
    contents = sorted(content.groups.values(), key=lambda part: _order(part.group))
    return tuple(_window(part, topic, part.group in being_written) for part in contents)


def _being_written(content: Content, groups: FileGroups, now: datetime) -> set[FileGroup]:
    if not groups.are_windows:
        return set()  # every bucket gets new rows, all the time
    newest = max(content.groups, key=_order, default=None)
    return {groups.window_of(now), *([newest] if newest else ())}


def _order(group: FileGroup) -> tuple[float, int, str]:
    start = group.start.timestamp() if group.start else 0.0
    return (start, group.bucket or 0, group.name)


def _window(part: GroupContent, topic: ManagedTable, is_newest: bool) -> Window:
    total = part.total
    remedy, why = _remedy(part, topic, is_newest)
    return Window(
        name=part.group.name,
        files=total.files,
        small_files=total.small_files,
        bytes=total.bytes,
        rows=total.rows,
        dead_rows=min(total.dead_rows, total.rows),
        delete_files=total.delete_files,
        is_newest=is_newest,
        remedy=remedy,
        why=why,
        group=part.group,
    )


def _enough(counts: Counts, is_newest: bool) -> int:
    if is_newest:
        return SMALL_FILES_IN_THE_NEWEST
    return 2 if counts.small_bytes <= FEW_BYTES else SMALL_FILES


def _remedy(part: GroupContent, topic: ManagedTable, is_newest: bool) -> tuple[Remedy, str]:
    packable = [
        counts
        for counts in part.mergeable.values()
        if counts.small_files >= _enough(counts, is_newest)
        and counts.files_when_packed(topic.target_file_bytes) < counts.small_files
    ]
    total, reasons = part.total, []
    if packable:
        small = sum(counts.small_files for counts in packable)
        packed = sum(counts.files_when_packed(topic.target_file_bytes) for counts in packable)
        reasons.append(f"{small} small files would be {packed}")
    is_dead = any(map(_is_dead, part.mergeable.values()))
    if is_dead:
        reasons.append(f"{total.dead_rows} of {total.rows} rows are deleted")
    has_many_marks = any(counts.delete_files > DELETE_FILES for counts in part.mergeable.values())
    if has_many_marks:
        reasons.append(f"{total.delete_files} delete files")
    remedy: Remedy = "rewrite" if is_dead else "pack" if reasons else ""
    return remedy, ", ".join(reasons)


def _is_dead(counts: Counts) -> bool:
    return counts.dead_rows > 0 and counts.dead_rows >= DEAD_SHARE * counts.rows


def _needs(
    topic: ManagedTable,
    windows: tuple[Window, ...],
    content: Content,
    delta: MirrorStatus | None,
    now: datetime,
) -> Iterator[Need]:
    limit = oldest_kept(topic, now)
    if limit and content.oldest and content.oldest < limit:
        yield Need("retention", f"rows from before {limit:%Y-%m-%d %H:%M} are older than it allows")
    if needy := [window for window in windows if window.remedy]:
        yield Need("compact", "; ".join(f"{window.name}: {window.why}" for window in needy))
    if delta is not None and delta.behind:
        yield Need("mirror", delta.problem or f"the Delta log lacks {delta.behind} states")


def _needs_of_letters(
    letters: Table, topic: ManagedTable, content: Content, window: Window, now: datetime
) -> Iterator[Need]:
    if window.remedy:
        yield Need("compact", f"{DEAD_LETTERS}: {window.why}")
    for need in _of_any(letters, topic, content, now):
        yield Need(need.kind, f"{DEAD_LETTERS}: {need.why}")


def _of_any(table: Table, topic: ManagedTable, content: Content, now: datetime) -> Iterator[Need]:
    """What any table may need, whatever is in it."""
    if content.small_manifests > SMALL_MANIFESTS:
        yield Need("manifests", f"{content.small_manifests} manifests have few entries")
    now_ms = int(now.timestamp() * 1000)
    limits = Limits.of(topic, int((now - topic.keep_snapshots).timestamp() * 1000))
    old, tags = sort_out(table, limits, now_ms).expirable, outlived_tags(table, now_ms)
    if old or tags:
        days = topic.keep_snapshots / timedelta(days=1)
        text = f"{len(old)} snapshots are older than {days:g} days"
        if len(table.snapshots()) > topic.max_snapshots:
            text += f", or more than {topic.max_snapshots}"
        yield Need("expire", text + (f", {len(tags)} tags are outlived" if tags else ""))
    if has_old_metadata(table, now):
        yield Need("metadata", "the catalog has let go of old versions of the metadata")


def _orphans(table: Table, now: datetime) -> Iterator[Need]:
    last_look = _last_look_for_orphans(table)
    if now - last_look > ORPHANS_EVERY:
        yield Need("orphans", f"not looked for since {last_look:%Y-%m-%d %H:%M}")


def _by_kind(needs: Iterable[Need]) -> Iterator[Need]:
    """One for each kind: a step looks after the table and its dead letters."""
    reasons: dict[Kind, list[str]] = {}
    for need in needs:
        reasons.setdefault(need.kind, []).append(need.why)
    return (Need(kind, "; ".join(why)) for kind, why in reasons.items())


def _last_look_for_orphans(table: Table) -> datetime:
    """If there was none: when the table began, as far as that is known."""
    try:
        return datetime.fromisoformat(table.properties[LAST_ORPHANS])
    except (KeyError, ValueError):
        times = [entry.timestamp_ms for entry in table.metadata.metadata_log]
        times += [entry.timestamp_ms for entry in table.history()]
        oldest = min(times, default=table.metadata.last_updated_ms)
        return datetime.fromtimestamp(oldest / 1000, UTC)
