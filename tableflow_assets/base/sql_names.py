"""Names from outside, as Spark's SQL takes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
