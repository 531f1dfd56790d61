"""The small language of the layout settings: columns, partition terms, sort terms, compaction.

Every function takes the text as written and returns its parts, or raises a ``ValueError`` that names the
text and the allowed forms. Whether a table has the columns is not known here.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from tableflow_assets.base.sql_names import quoted

Column = tuple[str, ...]  # the path to it: ("address", "city")
Transform = Literal["window", "identity", "days", "hours", "months", "years", "bucket", "truncate"]
Strategy = Literal["binpack", "sort", "zorder"]

WINDOW = "window"
PARTITION_FORMS = "window, x, days(x), hours(x), months(x), years(x), bucket(N, x), truncate(N, x)"
COLUMN_FORM = "a column is name, outer.inner or `any name`"
MAX_BUCKETS, MAX_WIDTH = 4096, 1_000_000
ZORDER_COLUMNS = 2  # with one column, zorder would be a plain sort

_QUOTED = r"`(?:[^`]|``)+`"
_NAME = rf"(?:{_QUOTED}|[^\s`.,()]+)"
_COLUMN = rf"{_NAME}(?:\.{_NAME})*"


class PartitionTerm(NamedTuple):
    transform: Transform
    column: Column = ()  # none for `window`, which is the record's own time
    number: int = 0  # for `bucket`, how many; for `truncate`, how wide


class SortTerm(NamedTuple):
    column: Column
    descending: bool = False


class Compaction(NamedTuple):
    strategy: Strategy
    columns: tuple[Column, ...] = ()  # those of `zorder`


def partition_term(text: str) -> PartitionTerm:
    if text.strip() == WINDOW:
        return PartitionTerm("window")
    if re.fullmatch(_COLUMN, text.strip()):
        return PartitionTerm("identity", _column(text))
    if match := re.fullmatch(rf"\s*(days|hours|months|years)\(\s*({_COLUMN})\s*\)\s*", text):
        return PartitionTerm(match[1], _column(match[2]))  # type: ignore[arg-type]
    if match := re.fullmatch(rf"\s*(bucket|truncate)\(\s*(\d+)\s*,\s*({_COLUMN})\s*\)\s*", text):
        most = MAX_BUCKETS if match[1] == "bucket" else MAX_WIDTH
        # Digits are counted first: Python refuses to parse integers of thousands of digits.
        if len(match[2]) > len(str(most)) or not 0 < int(match[2]) <= most:
            raise ValueError(f"{_short(text)}: the number must be 1 to {most}")
        return PartitionTerm(match[1], _column(match[3]), int(match[2]))  # type: ignore[arg-type]
    raise ValueError(f"{_short(text)} is none of {PARTITION_FORMS}")


def sort_term(text: str) -> SortTerm:
    match = re.fullmatch(rf"\s*({_COLUMN})(?:\s+(asc|desc))?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{_short(text)} is neither `column` nor `column desc`; {COLUMN_FORM}")
    return SortTerm(_column(match[1]), descending=(match[2] or "").lower() == "desc")


def compaction(text: str) -> Compaction:
    if text in ("binpack", "sort"):
        return Compaction(text)  # type: ignore[arg-type]
    match = re.fullmatch(rf"\s*zorder\(\s*({_COLUMN}(?:\s*,\s*{_COLUMN})*)\s*\)\s*", text)
    if not match:
        raise ValueError(f"{_short(text)} is none of binpack, sort, zorder(a, b); {COLUMN_FORM}")
    columns = tuple(_column(name) for name in re.findall(_COLUMN, match[1]))
    if len(set(columns)) < max(ZORDER_COLUMNS, len(columns)):
        raise ValueError(f"{_short(text)}: zorder needs two different columns or more; one: sort")
    return Compaction("zorder", columns)


def written_terms(value: object) -> object:
    """A text of terms separated by commas, as a list.

    Also repairs what YAML has split: to YAML, [bucket(16, x)] is a list of two texts.
    """
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        value = ", ".join(map(str, value)) if any(map(_is_cut, value)) else value
    if not isinstance(value, str):
        return value
    # A comma inside parentheses or backticks is not a separator.
    in_parentheses = rf"\((?:{_QUOTED}|[^)`])*\)"
    parts = re.findall(rf"(?:{_QUOTED}|{in_parentheses}|[^,])+", value)
    return [part.strip() for part in parts]


def _is_cut(part: object) -> bool:
    outside = re.sub(_QUOTED, "", str(part))
    return outside.count("(") > outside.count(")")


def in_sql(column: Column) -> str:
    """Quoted, for Spark SQL."""
    return ".".join(map(quoted, column))


def shown(column: Column) -> str:
    """As it is written in the settings."""
    return ".".join(n if re.fullmatch(_NAME, n) else in_sql((n,)) for n in column)


def _column(text: str) -> Column:
    names = re.findall(_NAME, text.strip())
    return tuple(n[1:-1].replace("``", "`") if n.startswith("`") else n for n in names)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")  # noqa: PLR2004
