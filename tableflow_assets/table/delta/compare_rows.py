"""Both formats, value by value: pyiceberg reads one, delta-rs the other, and DuckDB compares.

Rows are identified by their place in the log. To need little memory whatever the table's size, both
sides are read once and summed up by blocks of offsets. Only the rows of blocks whose sums differ are
compared, in a second pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.decode.column_names import EPOCH_FIELD, KAFKA_COLUMN

if TYPE_CHECKING:
    import duckdb
    from deltalake import DeltaTable

BLOCK = 65536  # offsets
PLACE = '"epoch", "partition", "offset"'
BLOCKS_SHOWN, ROWS_SHOWN = 3, 10
BYTES_AT_ONCE = 128 * 2**20  # of files: pyiceberg holds all that it reads at once in memory
Batches = Callable[[], Iterator[pa.RecordBatch]]
Block = tuple[int | None, int | None]  # a partition of the topic, and a number


@dataclass(frozen=True)
class RowsCompared:
    rows: int | None  # None where they could not be read
    problems: tuple[str, ...]


def compare_rows(
    table: Table, snapshot: Snapshot, delta: DeltaTable, on_read: Callable[[int], None]
) -> RowsCompared:
    """``on_read``: gets the count of rows read, on either side."""
    import duckdb
    from deltalake.exceptions import DeltaError

    try:
        with closing(duckdb.connect()) as connection:
            sides = _iceberg_side(table, snapshot), _delta_side(delta)
            return _Comparison(connection, *sides, on_read).run()
    except (duckdb.Error, DeltaError, OSError, pa.ArrowException) as error:
        first_line = next(iter(str(error).splitlines()), "")
        return RowsCompared(None, (f"The rows could not be compared: {first_line}",))


@dataclass(frozen=True)
class _Side:
    format: str
    schema: pa.Schema
    batches: Batches


def _iceberg_side(table: Table, snapshot: Snapshot) -> _Side:
    columns = table.schema()
    schema = schema_to_pyarrow(columns, include_field_ids=False)

    def batches() -> Iterator[pa.RecordBatch]:
        tasks = table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
        reader = ArrowScan(table.metadata, table.io, columns, AlwaysTrue())
        for group in _by_bytes(tasks):
            for batch in reader.to_record_batches(group):
                yield from pa.Table.from_batches([batch]).cast(schema).to_batches()

    return _Side("Iceberg", schema, batches)


def _by_bytes(tasks: Iterable[FileScanTask]) -> Iterator[list[FileScanTask]]:
    group: list[FileScanTask] = []
    size = 0
    for task in tasks:
        if group and size + task.file.file_size_in_bytes > BYTES_AT_ONCE:
            yield group
            group, size = [], 0
        group.append(task)
        size += task.file.file_size_in_bytes
    if group:
        yield group


def _delta_side(delta: DeltaTable) -> _Side:
    from deltalake import QueryBuilder

    def read() -> pa.RecordBatchReader:
        query = QueryBuilder().register("delta_table", delta).execute("SELECT * FROM delta_table")
        return pa.RecordBatchReader.from_stream(query)

    return _Side("Delta", read().schema, lambda: iter(read()))


class _Comparison:
    """Columns are called c0, c1, …, so that no name from outside is part of a query."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        iceberg: _Side,
        delta: _Side,
        on_read: Callable[[int], None],
    ) -> None:
        self._duckdb, self._on_read = connection, on_read
        self._sides = (iceberg, delta)
        # A column that only one side has is a finding of its own.
        self._columns = [name for name in iceberg.schema.names if name in delta.schema.names]
        types = self._types_of(iceberg)
        self._values = [f"c{at}::{kind}" for at, kind in enumerate(types)]
        # The rows of a product have no place in a log: their values identify them.
        epoch, partition, offset = "0", "0", f"hash({', '.join(self._values)})"
        self._block = "0, 0"
        if KAFKA_COLUMN in self._columns:
            place = f"c{self._columns.index(KAFKA_COLUMN)}"
            partition, offset = f'{place}."partition"', f'{place}."offset"'
            self._block = f"{partition}, {offset} // {BLOCK}"
            if all(_has_epochs(side.schema) for side in self._sides):
                epoch = f'coalesce({place}."epoch", 0)'
        self._place = f'{epoch} AS "epoch", {partition} AS "partition", {offset} AS "offset"'

    def run(self) -> RowsCompared:
        iceberg, delta = (self._sums(side) for side in self._sides)
        every = sorted(iceberg.keys() | delta.keys(), key=str)
        different = [block for block in every if iceberg.get(block) != delta.get(block)]
        problems = self._look_into(different[:BLOCKS_SHOWN]) if different else []
        if len(different) > BLOCKS_SHOWN:
            problems.append(f"And {len(different) - BLOCKS_SHOWN} more blocks of {BLOCK} offsets.")
        return RowsCompared(sum(count for count, _ in iceberg.values()), tuple(problems))

    def _sums(self, side: _Side) -> dict[Block, tuple[int, int]]:
        """By block: how many rows, and the sum of their hashes."""
        hashed = f"sum(hash({', '.join(self._values)})::HUGEINT)"
        query = f"SELECT {self._block}, count(*), {hashed} FROM side GROUP BY ALL"  # noqa: S608
        answer = self._ask(side, query)
        return {(partition, block): (count, total) for partition, block, count, total in answer}

    def _look_into(self, blocks: Iterable[Block]) -> list[str]:
        pairs = ", ".join(
            f"({_literal(partition)}, {_literal(block)})" for partition, block in blocks
        )
        values = ", ".join(f"{value} AS c{at}" for at, value in enumerate(self._values))
        where = f"({self._block}) IN ({pairs})"
        selection = f"SELECT {self._place}, {values} FROM side WHERE {where}"  # noqa: S608
        for side in self._sides:
            self._ask(side, f"CREATE TABLE {side.format} AS {selection}")
        return [*self._counted_differently(), *self._of_other_values()]

    def _counted_differently(self) -> Iterator[str]:
        """Rows that one side has more often than the other, by their place in the log."""
        counts = f"SELECT {PLACE}, count(*) AS rows FROM {{}} GROUP BY ALL"  # noqa: S608
        differences = self._duckdb.execute(
            f"SELECT {PLACE}, coalesce(i.rows, 0), coalesce(d.rows, 0)"  # noqa: S608
            f" FROM ({counts.format('Iceberg')}) i FULL JOIN ({counts.format('Delta')}) d"
            f" USING ({PLACE})"
            f" WHERE i.rows IS DISTINCT FROM d.rows ORDER BY ALL LIMIT {ROWS_SHOWN}"
        ).fetchall()
        for _, partition, offset, iceberg, delta in differences:
            yield (
                f"The record {partition}:{offset} is {iceberg} times in the Iceberg table,"
                f" {delta} times in the Delta table."
            )

    def _of_other_values(self) -> Iterator[str]:
        differing = ", ".join(
            f"CASE WHEN i.c{at} IS DISTINCT FROM d.c{at} THEN {at} END"
            for at in range(len(self._columns))
        )
        differences = self._duckdb.execute(
            f"SELECT * FROM (SELECT {PLACE},"  # noqa: S608
            f" list_filter([{differing}], lambda c: c IS NOT NULL) AS columns"
            f" FROM Iceberg i JOIN Delta d USING ({PLACE}))"
            f" WHERE len(columns) > 0 ORDER BY ALL LIMIT {ROWS_SHOWN}"
        ).fetchall()
        for _, partition, offset, columns in differences:
            names = ", ".join(self._columns[at] for at in columns)
            yield f"The record {partition}:{offset} has other values in {names}."

    def _types_of(self, side: _Side) -> list[str]:
        """DuckDB's names for them; the other side's values are cast to the same."""
        empty = side.schema.empty_table().select(self._columns)
        self._duckdb.register("side", empty.rename_columns(self._names))
        types = self._duckdb.execute("DESCRIBE side").fetchall()
        self._duckdb.unregister("side")
        return [row[1] for row in types]

    @property
    def _names(self) -> list[str]:
        return [f"c{at}" for at in range(len(self._columns))]

    def _ask(self, side: _Side, query: str) -> list[tuple[Any, ...]]:
        """Run a query over the table `side`: the rows as they are read."""
        columns = zip(self._columns, self._names, strict=True)
        schema = pa.schema([side.schema.field(name).with_name(new) for name, new in columns])

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in side.batches():
                self._on_read(batch.num_rows)
                yield pa.RecordBatch.from_arrays(
                    [batch.column(name) for name in self._columns], schema=schema
                )

        self._duckdb.register("side", pa.RecordBatchReader.from_batches(schema, batches()))
        try:
            return self._duckdb.execute(query).fetchall()
        finally:
            self._duckdb.unregister("side")


def _has_epochs(schema: pa.Schema) -> bool:
    return bool(schema.field(KAFKA_COLUMN).type.get_field_index(EPOCH_FIELD) >= 0)


def _literal(number: int | None) -> str:
    return "NULL" if number is None else f"{number:d}"
