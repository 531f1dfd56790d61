"""Our Java function that reads JSON in Spark.

It reads a whole text strictly as a value of one shape, or says what is wrong with it. The shape is in
the name by which the function is looked up in its catalog.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.base.sql_names import quoted
from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN
from tableflow_assets.decode.json.shape import ListOf, MapOf, Shape, Struct

CATALOG = "tableflow_json"
PROPERTIES = {f"spark.sql.catalog.{CATALOG}": "tableflow.JsonFunctions"}
_AS_SENT = "AS_SENT"


def read_json(data: Column, shape: Shape | None, header_bytes: int) -> Column:
    """A struct of `value` and `problem`; without a shape the value is the text as it was sent."""
    name = {"headerBytes": header_bytes, "shape": _as_json(shape) if shape else _AS_SENT}
    return F.call_function(f"{CATALOG}.{quoted(json.dumps(name))}", data)


def _as_json(shape: Shape) -> Any:
    """In the form that `Shape.java` parses."""
    if isinstance(shape, Struct):
        struct = {"struct": [[p.key, p.column, _as_json(p.shape)] for p in shape.properties]}
        if isinstance(shape.additional, bool):
            return struct
        return struct | {"additional": [ADDITIONAL_COLUMN, _as_json(shape.additional)]}
    if isinstance(shape, ListOf):
        return {"list": _as_json(shape.element)}
    if isinstance(shape, MapOf):
        return {"map": _as_json(shape.value)}
    return shape.name
