"""What a version of the log says about itself, and about the columns of its table."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.errors import MirrorError
from tableflow_assets.table.delta.log import Action, DeltaLog
from tableflow_assets.table.delta.schema import delta_schema, features

WRITER = "tableflow_assets"
# A writer must not touch a table with a writer feature it does not know. This one keeps others from
# running VACUUM on Iceberg's files or making changes that Iceberg would not see. Readers ignore it.
NO_OTHER_WRITERS = "tableflowMirror"


@dataclass(frozen=True)
class Mirrored:
    """What the newest version of a log says about itself."""

    version: int
    snapshot: int
    metadata: str  # a digest of schema and properties
    features: tuple[str, ...]
    files: int


def mirrored(log: DeltaLog, topic: str) -> Mirrored | None:
    """None if there is no log yet."""
    if log.newest < 0:
        return None
    info = written_by_us(log.commit(log.newest))
    if info is None:
        raise MirrorError(
            f"Version {log.newest} of the Delta log of {topic!r} was not written by Tableflow"
            " Assets: somebody else has changed the Delta table.",
            f"The Iceberg table is not affected. Undo that change: tableflow repair {topic}",
        )
    return Mirrored(
        log.newest,
        int(info["snapshot"]),
        info["metadata"],
        tuple(info["features"]),
        int(info["files"]),
    )


def has_columns_of(table: Table, last: Mirrored) -> bool:
    return metadata_of(table, last.features)[0] == last.metadata


def written_by_us(actions: Iterable[Action]) -> dict[str, Any] | None:
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    return info.get(WRITER)


def metadata_of(table: Table, known_features: Iterable[str]) -> tuple[str, list[str], list[Action]]:
    """A digest of the metadata, the features it needs, and the actions that declare it."""
    schema, history = table.schema(), table.schemas()
    columns = delta_schema(schema, history)
    names = sorted({*known_features, *features(schema, history)})
    configuration = {
        "delta.columnMapping.mode": "id",
        "delta.columnMapping.maxColumnId": str(table.metadata.last_column_id),
        **({"delta.enableTypeWidening": "true"} if "typeWidening" in names else {}),
    }
    digest = hashlib.sha256(json.dumps([columns, names, configuration]).encode()).hexdigest()
    actions: list[Action] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": names,
                "writerFeatures": [*names, NO_OTHER_WRITERS],
            }
        },
        {
            "metaData": {
                "id": str(table.metadata.table_uuid),
                "name": table.name()[-1],
                "format": {"provider": "parquet", "options": {}},
                "schemaString": columns,
                "partitionColumns": [],
                "configuration": configuration,
                "createdTime": int(time.time() * 1000),
            }
        },
    ]
    return digest[:16], names, actions
