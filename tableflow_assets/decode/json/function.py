"""The function that reads JSON in Spark: ours, in Java, from a catalog of such functions.

It reads a text whole and strictly, as a value of one shape, and says what is wrong with it if it is not.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.base.sql_names import quoted
from tableflow_assets.decode.json.shape import ListOf, MapOf, Shape, Struct

CATALOG = "tableflow_json"
PROPERTIES = {f"spark.sql.catalog.{CATALOG}": "tableflow.JsonFunctions"}
_AS_SENT = "AS_SENT"


def read_json(data: Column, shape: Shape | None, header_bytes: int) -> Column:
    """A struct of `value` and `problem`; without a shape the value is the text as it was sent."""
    said = {"headerBytes": header_bytes, "shape": _said(shape) if shape else _AS_SENT}
    return F.call_function(f"{CATALOG}.{quoted(json.dumps(said))}", data)


def _said(shape: Shape) -> Any:
    """As `Shape.java` takes it."""
    if isinstance(shape, Struct):
        return {"struct": [[p.key, p.column, _said(p.shape)] for p in shape.properties]}
    if isinstance(shape, ListOf):
        return {"list": _said(shape.element)}
    if isinstance(shape, MapOf):
        return {"map": _said(shape.value)}
    return shape.name
