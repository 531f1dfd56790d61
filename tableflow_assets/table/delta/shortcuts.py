"""Beside a checkpoint, what spares its readers most of it: they look into it several times, and each
look is some requests, one after the other.

Both files are Delta's own. Nobody needs them: without them, readers look for themselves.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tableflow_assets.table.delta.log import LAST_CHECKPOINT, checkpoint_name, checksum_name
from tableflow_assets.table.delta.store import Store

SIDECARS = "sidecar"


def write_shortcuts(store: Store, version: int) -> None:
    content = store.read(checkpoint_name(version))
    if content is None:  # a newer one is there already, and it was trimmed
        return
    checkpoint = pq.ParquetFile(io.BytesIO(content))
    store.put(checksum_name(version), json.dumps(_checksum(checkpoint)).encode())
    hint = json.loads(store.read(LAST_CHECKPOINT) or b"{}")
    if hint.get("version") == version:  # else a newer one is there already
        told = hint | {"checkpointSchema": _columns(checkpoint)}
        store.put(LAST_CHECKPOINT, json.dumps(told).encode())


def _checksum(checkpoint: pq.ParquetFile) -> dict[str, Any]:
    """Readers take columns and features from here."""
    table = checkpoint.read(columns=["add.size", "metaData", "protocol"])
    sizes = pc.struct_field(table["add"], "size")
    return {
        "tableSizeBytes": pc.sum(sizes, min_count=0).as_py(),
        "numFiles": pc.count(sizes).as_py(),
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": _only(table["metaData"]),
        "protocol": _only(table["protocol"]),
    }


def _only(column: pa.ChunkedArray) -> dict[str, Any]:
    (action,) = column.drop_null().to_pylist(maps_as_pydicts="strict")
    return {name: value for name, value in action.items() if value is not None}


def _columns(checkpoint: pq.ParquetFile) -> Any:
    """Without that of sidecars, if there are none: where it is named, readers look for them."""
    from deltalake import Schema

    columns = checkpoint.schema_arrow
    if SIDECARS in columns.names:
        held = checkpoint.read(columns=[SIDECARS])[SIDECARS]
        if held.null_count == len(held):
            columns = columns.remove(columns.get_field_index(SIDECARS))
    return json.loads(Schema.from_arrow(columns).to_json())
