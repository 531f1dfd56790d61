"""Read the records of some windows again, and replace those windows' rows in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tableflow_assets.base.errors import RebuildFailed
from tableflow_assets.decode.decode import decode
from tableflow_assets.operate.irreplaceable import rows_not_on
from tableflow_assets.pipeline import NOTHING, Committed, Pipeline
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import TopicIdentity
from tableflow_assets.source.plan import OffsetRange, Plan, plan, refuse_another_log
from tableflow_assets.source.reader import read_records
from tableflow_assets.table import commit as commits
from tableflow_assets.table.dropped import without_dropped
from tableflow_assets.table.epochs import of_earlier_logs
from tableflow_assets.table.keyed.forgotten import without_forgotten
from tableflow_assets.table.ledger import Entry, Ledger, read_ledger
from tableflow_assets.table.letters.letters import without_letters
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.suspension import suspending
from tableflow_assets.table.written import Written

# Iceberg's message where a window's rows share a file with others.
FILE_OF_SEVERAL_WINDOWS = "Cannot delete file where some, but not all, rows match filter"


def rebuild_windows(
    pipeline: Pipeline, start: datetime | None, end: datetime, run_id: str = ""
) -> Committed:
    """Replace the rows with timestamps in [start, end); ``None``: from the oldest on.

    Only what the table has read already: its position in the log stays. Dead letters are left out, since
    they come back by a replay. What retention dropped does not come back at all.
    """
    _refuse_keys(pipeline)
    pipeline.refuse_without_room()
    with suspending(pipeline.catalog, pipeline.topic):
        topic = pipeline.log.identify(pipeline.topic.name)
        schemas = pipeline.schemas_of_now()
        table = pipeline.evolve(pipeline.ensure_table(topic), schemas)
        ledger = read_ledger(table)
        plan(pipeline.log, topic, ledger)  # refuses a log that the rows are not from
        _refuse_what_retention_dropped(pipeline.topic, ledger.entry, end)
        step = _offsets_to_read(pipeline, topic, ledger, start)
        _refuse_what_the_log_has_lost(pipeline, table, ledger.entry, topic, start, end)
        if not step.size:
            return NOTHING

        records = read_records(pipeline.spark, pipeline.log, step)
        records = records.filter(_in_windows("timestamp", start, end))
        records = without_forgotten(records, ledger.entry, schemas.key)
        records = without_dropped(records, ledger.entry)
        records = _without_dead_letters(pipeline, records, ledger)
        mode, epoch = pipeline.topic.mode, ledger.entry.epoch
        decoded = decode(records, schemas, table.schema(), mode, epoch)
        entry = replace(ledger.entry, kind="window", start=ledger.committed, run_id=run_id)
        with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
            writer = commits.branch_writer(decoded.rows, pipeline.spark_table, branch, entry)
            with named_spark_errors(pipeline.spark_table), _whole_windows_only(pipeline.topic):
                writer.overwrite(_in_windows("_kafka.timestamp", start, end))
                counts = decoded.counts()
            _refuse_new_dead_letters(pipeline, counts.dead)
            refuse_another_log(pipeline.log.identify(topic.name), ledger)
            _refuse_what_compaction_has_removed(pipeline, ledger, branch, start, end)
            written = Written(counts.records)
            head = pipeline.commit_and_mirror(table, branch, ledger.head, written)
        return Committed(rows=counts.records, dead_letters=0, skipped=0, snapshots=(head,))


@contextmanager
def _whole_windows_only(topic: Topic) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        if FILE_OF_SEVERAL_WINDOWS not in str(error):
            raise
        raise RebuildFailed(
            f"Files of {topic.table} hold more than one {topic.window} each: they were written with"
            " another `window`, or with a `partition_by` that leaves `window` out.",
            "Choose windows that make up whole days; without `window`, rebuild the whole table:"
            f" tableflow rebuild {topic.name}",
        ) from error


def _in_windows(column: str, start: datetime | None, end: datetime) -> Column:
    before_end = F.col(column) < F.lit(end)
    return before_end if start is None else (F.col(column) >= F.lit(start)) & before_end


def _offsets_to_read(
    pipeline: Pipeline, topic: TopicIdentity, ledger: Ledger, start: datetime | None
) -> Plan:
    """From the first record of the windows; late ones may be anywhere up to the ledger's end."""
    earliest = pipeline.log.earliest(topic)
    first = pipeline.log.at(topic, start) if start else earliest
    ranges = []
    for partition, committed in sorted(ledger.committed.items()):
        begin = max(first[partition], earliest[partition], ledger.origin[partition])
        ranges.append(OffsetRange(partition, min(begin, committed), committed))
    return Plan(topic, tuple(ranges))


def _refuse_what_the_log_has_lost(
    pipeline: Pipeline,
    table: Table,
    entry: Entry,
    topic: TopicIdentity,
    start: datetime | None,
    end: datetime,
) -> None:
    since = f"_kafka.timestamp >= '{start.isoformat()}' AND " if start else ""
    windows = f"{since}_kafka.timestamp < '{end.isoformat()}'"

    def refuse(where: BooleanExpression | str, why: str) -> None:
        scan = table.scan(row_filter=windows, selected_fields=("_kafka.offset",)).filter(where)
        if rows := pipeline.catalog.ask(scan.count):
            raise _would_lose(pipeline.topic, rows, why)

    if entry.earlier:
        refuse(of_earlier_logs(entry), "they are from a log before the rebase of the topic")
    for partition, offset in pipeline.log.earliest(topic).items():
        refuse(
            f"_kafka.partition = {partition} AND _kafka.offset < {offset}",
            f"the log of partition {partition} begins at offset {offset}, so it no longer holds all"
            " records of these windows",
        )


def _refuse_what_compaction_has_removed(
    pipeline: Pipeline, ledger: Ledger, branch: str, start: datetime | None, end: datetime
) -> None:
    """Log compaction takes records from the middle, so this is seen only once the log has been read."""
    if not pipeline.log.is_compacted(pipeline.topic.name):
        return
    since = f"_kafka.timestamp >= TIMESTAMP_LTZ '{start.isoformat(sep=' ')}' AND " if start else ""
    where = f"{since}_kafka.timestamp < TIMESTAMP_LTZ '{end.isoformat(sep=' ')}'"
    if rows := rows_not_on(pipeline, ledger.head, branch, where):
        raise _would_lose(pipeline.topic, rows, "log compaction has removed their records")


def _would_lose(topic: Topic, rows: int, why: str) -> RebuildFailed:
    return RebuildFailed(
        f"The rebuild of these windows of {topic.name!r} would lose {rows:,} rows: {why}.",
        "The rows stay as they are. Choose other windows. Only a rebuild of the whole table can give up"
        f" rows, and says first how many: tableflow rebuild {topic.name}",
    )


def _refuse_what_retention_dropped(topic: Topic, entry: Entry, end: datetime) -> None:
    latest = max((drop.before for drop in entry.dropped), default=0)
    if end.timestamp() * 1000 <= latest:
        kept_from = datetime.fromtimestamp(latest / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        raise RebuildFailed(
            f"Retention dropped the windows of {topic.name!r} before {kept_from} (UTC), these among"
            " them.",
            "Choose newer windows. To have them back, lengthen `retention` and rebuild the whole"
            f" table, as far as the log still holds it: tableflow rebuild {topic.name}",
        )


def _without_dead_letters(pipeline: Pipeline, records: DataFrame, ledger: Ledger) -> DataFrame:
    if pipeline.catalog.find(pipeline.topic.dead_letter_table) is None:
        return records
    return without_letters(pipeline.spark, records, pipeline.dead_letter_table, ledger.entry)


def _refuse_new_dead_letters(pipeline: Pipeline, dead: int) -> None:
    if dead:
        raise RebuildFailed(
            f"{dead} records of {pipeline.topic.name!r} that are rows of these windows can no"
            " longer be decoded.",
            "The rows stay as they are. Is a schema version gone from the registry?",
        )


def _refuse_keys(pipeline: Pipeline) -> None:
    if pipeline.topic.is_keyed:
        raise RebuildFailed(
            f"The table of {pipeline.topic.name!r} has one row per key (mode {pipeline.topic.mode}):"
            " its windows cannot be rebuilt one by one.",
            f"Rebuild the whole table: tableflow rebuild {pipeline.topic.name}",
        )
