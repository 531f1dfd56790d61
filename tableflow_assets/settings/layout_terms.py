"""The small language of the layout settings: columns, partition terms, sort terms, compaction.

Every function takes the text as written and gives its parts, or raises a ``ValueError`` that names
the text and the forms there are. Whether a table has the columns is not known here.
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
ZORDER_COLUMNS = 2  # with fewer there is nothing to weigh against each other

_QUOTED = r"`(?:[^`]|``)+`"
_NAME = rf"(?:{_QUOTED}|[^\s`.,()]+)"
_COLUMN = rf"{_NAME}(?:\.{_NAME})*"


class PartitionTerm(NamedTuple):
    transform: Transform
    column: Column = ()  # of `window`: none, it is the record's own time
    number: int = 0  # of `bucket`: how many; of `truncate`: how wide


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
    if found := re.fullmatch(rf"\s*(days|hours|months|years)\(\s*({_COLUMN})\s*\)\s*", text):
        return PartitionTerm(found[1], _column(found[2]))  # type: ignore[arg-type]
    if found := re.fullmatch(rf"\s*(bucket|truncate)\(\s*(\d+)\s*,\s*({_COLUMN})\s*\)\s*", text):
        most = MAX_BUCKETS if found[1] == "bucket" else MAX_WIDTH
        # Digits are counted first: a number of thousands of them is no integer that Python takes.
        if len(found[2]) > len(str(most)) or not 0 < int(found[2]) <= most:
            raise ValueError(f"{_short(text)}: the number must be 1 to {most}")
        return PartitionTerm(found[1], _column(found[3]), int(found[2]))  # type: ignore[arg-type]
    raise ValueError(f"{_short(text)} is none of {PARTITION_FORMS}")


def sort_term(text: str) -> SortTerm:
    found = re.fullmatch(rf"\s*({_COLUMN})(?:\s+(asc|desc))?\s*", text, re.IGNORECASE)
    if not found:
        raise ValueError(f"{_short(text)} is neither `column` nor `column desc`; {COLUMN_FORM}")
    return SortTerm(_column(found[1]), descending=(found[2] or "").lower() == "desc")


def compaction(text: str) -> Compaction:
    if text in ("binpack", "sort"):
        return Compaction(text)  # type: ignore[arg-type]
    found = re.fullmatch(rf"\s*zorder\(\s*({_COLUMN}(?:\s*,\s*{_COLUMN})*)\s*\)\s*", text)
    if not found:
        raise ValueError(f"{_short(text)} is none of binpack, sort, zorder(a, b); {COLUMN_FORM}")
    columns = tuple(_column(one) for one in re.findall(_COLUMN, found[1]))
    if len(set(columns)) < max(ZORDER_COLUMNS, len(columns)):
        raise ValueError(f"{_short(text)}: zorder needs two different columns or more; one: sort")
    return Compaction("zorder", columns)


def written_terms(value: object) -> object:
    """A text with terms separated by commas as the list that it means.

    Also where YAML has cut it: to YAML, [bucket(16, x)] is a list of two texts.
    """
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        value = ", ".join(map(str, value)) if any(map(_is_cut, value)) else value
    if not isinstance(value, str):
        return value
    # A comma inside parentheses or backticks separates nothing.
    in_parentheses = rf"\((?:{_QUOTED}|[^)`])*\)"
    parts = re.findall(rf"(?:{_QUOTED}|{in_parentheses}|[^,])+", value)
    return [part.strip() for part in parts]


def _is_cut(part: object) -> bool:
    outside = re.sub(_QUOTED, "", str(part))
    return outside.count("(") > outside.count(")")


def in_sql(column: Column) -> str:
    """Quoted, for Spark's SQL."""
    return ".".join(map(quoted, column))


def shown(column: Column) -> str:
    """As it is written in the settings."""
    return ".".join(n if re.fullmatch(_NAME, n) else in_sql((n,)) for n in column)


def _column(text: str) -> Column:
    names = re.findall(_NAME, text.strip())
    return tuple(n[1:-1].replace("``", "`") if n.startswith("`") else n for n in names)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")  # noqa: PLR2004
