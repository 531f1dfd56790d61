"""Files beside a checkpoint that save readers most of it: they open it several times, and each time
takes a few requests, one after the other.

Both files are part of Delta's protocol, and optional: without them, readers read the checkpoint.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from tableflow_assets.table.delta.log import LAST_CHECKPOINT, checkpoint_name, checksum_name
from tableflow_assets.table.delta.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SIDECARS = "sidecar"


def write_shortcuts(store: Store, version: int) -> None:
    import pyarrow.parquet as pq

    content = store.read(checkpoint_name(version))
    if content is None:  # trimmed already, after a newer one
        return
    checkpoint = pq.ParquetFile(io.BytesIO(content))
    store.put(checksum_name(version), json.dumps(_checksum(checkpoint)).encode())
    hint = json.loads(store.read(LAST_CHECKPOINT) or b"{}")
    if hint.get("version") == version:  # otherwise there is a newer one already
        new_hint = hint | {"checkpointSchema": _columns(checkpoint)}
        store.put(LAST_CHECKPOINT, json.dumps(new_hint).encode())


def _checksum(checkpoint: pq.ParquetFile) -> dict[str, Any]:
    """Readers take the columns and features from here."""
    import pyarrow.compute as pc

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
    """Without the column of sidecars, if there are none: where it is named, readers look for them."""
    from deltalake import Schema

    columns = checkpoint.schema_arrow
    if SIDECARS in columns.names:
        sidecars = checkpoint.read(columns=[SIDECARS])[SIDECARS]
        if sidecars.null_count == len(sidecars):
            columns = columns.remove(columns.get_field_index(SIDECARS))
    return json.loads(Schema.from_arrow(columns).to_json())
