"""pyiceberg reads collections of records as they are: also in a file's later batches, which are slices."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import _to_requested_schema
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, MapType, NestedField, StringType, StructType

from tableflow_assets.lake.pyiceberg_fixes import mend

LINE = StructType(NestedField(10, "n", IntegerType()))
LINES = ListType(11, LINE, element_required=False)
SCHEMA = Schema(
    NestedField(1, "lines", LINES),
    NestedField(2, "nested", ListType(20, LINES, element_required=False)),
    NestedField(3, "by_name", MapType(30, StringType(), 31, LINE, value_required=False)),
)
ROWS: list[dict[str, Any]] = [
    {"lines": None, "nested": None, "by_name": None},
    {"lines": [], "nested": [None, []], "by_name": []},
    {"lines": [{"n": 1}, None], "nested": [[{"n": 2}], None], "by_name": [("a", {"n": 3})]},
]


@pytest.mark.parametrize("start", [0, 1, 2, 4])
def test_null_is_not_empty_in_any_batch(start: int) -> None:
    mend()
    batch = pa.RecordBatch.from_pylist(ROWS * 3, schema=SCHEMA.as_arrow()).slice(start)
    assert _to_requested_schema(SCHEMA, SCHEMA, batch).to_pylist() == (ROWS * 3)[start:]
