"""A table as Glue represents it: what is written to Glue, and what is read from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tableflow_assets.publish.base import (
    SNAPSHOT_MARK,
    TOPIC_MARK,
    UUID_MARK,
    ListedColumn,
    Listing,
    SourceTable,
)
from tableflow_assets.publish.glue.types import cut, glue_columns
from tableflow_assets.settings.blocks import Format

MAX_DESCRIPTION = 2048
_METADATA = "metadata_location"
_PREVIOUS = "previous_metadata_location"
# How readers recognize the format. Readers of Delta look at one of these three.
_DELTA = {"table_type": "DELTA", "spark.sql.sources.provider": "delta", "classification": "delta"}
# As Spark writes it for tables that are not Hive's. Trino looks for the location under `path`.
_DELTA_STORAGE = {
    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
    "Compressed": False,
}
_DELTA_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_OF_ONE_FORMAT = frozenset({*_DELTA, _METADATA, _PREVIOUS})
# Set by others on the table; an update that leaves them out would remove them.
_KEPT = ("Owner", "Retention")


def listed_columns(columns: list[dict[str, Any]]) -> tuple[ListedColumn, ...]:
    return tuple(
        ListedColumn(column["Name"], column.get("Type", ""), column.get("Comment", ""))
        for column in columns
    )


def listing_of(database: str, table: dict[str, Any]) -> Listing:
    """What Glue lists for any table, ours or not."""
    parameters, storage = table.get("Parameters") or {}, table.get("StorageDescriptor") or {}
    is_iceberg = parameters.get("table_type", "").upper() == "ICEBERG"
    snapshot = parameters.get(SNAPSHOT_MARK, "")
    return Listing(
        name=f"{database}.{table['Name']}",
        location=storage.get("Location", ""),
        columns=listed_columns(storage.get("Columns") or []),
        snapshot=int(snapshot) if re.fullmatch(r"[0-9]{1,19}", snapshot) else None,
        metadata_location=parameters.get(_METADATA, "") if is_iceberg else "",
        table_uuid=parameters.get(UUID_MARK, ""),
        topic=parameters.get(TOPIC_MARK, ""),
        token=table,
    )


def table_input(
    source: SourceTable, target: Listing, shown_as: Format, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """For `CreateTable`; with ``before``, for an `UpdateTable` that keeps what others have set on it."""
    before = before or {}
    old = before.get("Parameters") or {}
    parameters = {key: value for key, value in old.items() if key not in _OF_ONE_FORMAT}
    parameters |= {
        "EXTERNAL": "TRUE",
        UUID_MARK: source.uuid,
        TOPIC_MARK: source.topic,
        SNAPSHOT_MARK: "" if source.snapshot is None else str(source.snapshot),
    }
    storage: dict[str, Any] = {
        "Location": target.location,
        "Columns": glue_columns(source.schema),
    }
    if shown_as == "delta":
        parameters |= _DELTA
        for column in storage["Columns"]:
            del column["Parameters"]  # Iceberg's
        serde = {"path": target.location, "serialization.format": "1"}
        serde_info = {"SerializationLibrary": _DELTA_SERDE, "Parameters": serde}
        storage |= _DELTA_STORAGE | {"SerdeInfo": serde_info}
    else:
        parameters |= {"table_type": "ICEBERG", _METADATA: target.metadata_location}
        previous = old.get(_METADATA)
        if previous == target.metadata_location:  # only something else has changed
            previous = old.get(_PREVIOUS)
        parameters |= {_PREVIOUS: previous} if previous else {}
    description = cut(source.description, MAX_DESCRIPTION)
    return {
        "Name": source.name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": parameters,
        "StorageDescriptor": storage,
        "PartitionKeys": [],  # Hive's; some clients fail where the key is missing
        **({"Description": description} if description else {}),
        **{key: before[key] for key in _KEPT if key in before},
    }
