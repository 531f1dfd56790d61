"""Avro values of recursive types, which a table holds as JSON text."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tableflow_assets.verify.avro_schema import Node
from tableflow_assets.verify.avro_wire import without_union
from tableflow_assets.verify.columns import decimal_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def json_of(value: Any, node: Node) -> Any:
    """Loops instead of comprehensions, which would need one more stack frame per level."""
    value, node = without_union(value, node)
    if value is None:
        return None
    if node.kind == "record":
        fields = {}
        for name, part in node.parts.items():
            fields[name] = json_of(value[name], part)
        return fields
    if node.kind == "map":
        entries = {}
        for key, inner in value.items():
            entries[key] = json_of(inner, node.parts["values"])
        return entries
    if node.kind == "array":
        elements = []
        for element in value:
            elements.append(json_of(element, node.parts["items"]))
        return elements
    return _scalar(value, node)


def _scalar(value: Any, node: Node) -> Any:
    if node.logical == "decimal":
        return format(decimal_of(int.from_bytes(value, "big", signed=True), node.scale), "f")
    if node.logical:
        return _moment(value, node.logical)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    is_not_finite = isinstance(value, float) and not math.isfinite(value)
    return json.dumps(value) if is_not_finite else value


def _moment(number: int, logical: str) -> str | int:
    unit = {"millis": "milliseconds", "micros": "microseconds"}.get(logical.rpartition("-")[2])
    try:
        if unit is None:
            return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
        moment = _EPOCH + timedelta(**{unit: number})
    except OverflowError:
        return number  # beyond Python's calendar
    if logical.startswith("time-"):
        return moment.time().isoformat()
    return (moment.replace(tzinfo=None) if logical.startswith("local") else moment).isoformat()
