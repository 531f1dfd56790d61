"""Spark's refusals of a product's SQL, with the place in its file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException

from tableflow_assets.base.errors import ProductFailed
from tableflow_assets.product.definition import Definition


@contextmanager
def understood(definition: Definition) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        place = f"{definition.file.path}:{_line(definition, error)}"
        raise ProductFailed(
            f"Spark does not understand the product {definition.name!r}: {place}:"
            f" {str(error).partition(chr(10))[0]}",
            "Its table is as it was. Correct its .sql file, then run it again.",
        ) from error


def _line(definition: Definition, error: AnalysisException) -> int:
    """Spark counts the lines of what it was told; the name it stumbles over leads to the file's."""
    file, select = definition.file, definition.file.text.index("*/")
    for quoted in re.findall(r"with name ((?:`[^`]+`\.?)+)", str(error)):
        name = quoted.rstrip(".").split("`")[-2]
        line = file.line_of_word(name, select) or file.line_of_word(name)
        if line is not None:
            return line
    return file.line_of_word("SELECT", select) or 1
