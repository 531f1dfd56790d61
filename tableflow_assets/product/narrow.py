"""Which inputs a run needs only in part, because they join an input that it reads in part.

In ``FROM item JOIN LAST_ROW(orders, orderid) ord ON ord.orderid = item.orderid`` with few items, only the
orders of these items matter. This never affects the result, only the time it takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from tableflow_assets.product import flink


@dataclass(frozen=True)
class Narrowing:
    """Of ``name``, the rows whose ``column`` is among the ``by_column`` of the input ``by``."""

    name: str
    column: str
    by: str
    by_column: str


def narrowings(
    statement: exp.Query, in_part: Collection[str], versions: Mapping[str, Collection[str]]
) -> list[Narrowing]:
    """Ordered so that each only depends on those before it.

    ``in_part``: the inputs to start from. ``versions``: by input that keeps all versions, the key.
    """
    tables = _tables(statement)
    names = {alias: flink.table_name(table) for alias, table in tables.items()}
    reads = Counter(flink.table_name(table) for table in statement.find_all(exp.Table))
    narrowed = set(in_part)
    result: list[Narrowing] = []
    for join in statement.args.get("joins") or ():
        alias = str(join.this.alias_or_name)
        name = names.get(alias, "")
        # If it is read elsewhere as well, its other rows may matter there.
        if not name or name in narrowed or reads[name] > 1 or join.side not in ("", "LEFT"):
            continue
        for column, by_alias, by_column in _equalities(join, alias):
            by = names.get(by_alias, "")
            # Rows that are evaluated together must stay together.
            together = flink.key_of(tables[alias]) or versions.get(name) or (column,)
            if by in narrowed and reads[by] == 1 and column in together:
                result.append(Narrowing(name, column, by, by_column))
                narrowed.add(name)
                break
    return result


def _tables(statement: exp.Query) -> dict[str, exp.Table]:
    """The tables of the outermost FROM by alias, without those that the statement defines itself."""
    ctes = {cte.alias for cte in statement.find_all(exp.CTE)}
    parts = [statement.args.get("from_") or statement.args.get("from")]
    parts += statement.args.get("joins") or []
    tables = [part.this for part in parts if part is not None and isinstance(part.this, exp.Table)]
    return {
        str(table.alias_or_name): table for table in tables if flink.table_name(table) not in ctes
    }


def _equalities(join: exp.Join, alias: str) -> list[tuple[str, str, str]]:
    """(column of the joined table, alias of another table, its column) of each equality that must hold."""
    condition = join.args.get("on")
    equalities: list[tuple[str, str, str]] = []
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        if not isinstance(part, exp.EQ):
            continue
        sides = [side for side in (part.left, part.right) if isinstance(side, exp.Column)]
        for own, other in (sides, sides[::-1]) if len(sides) == len(("left", "right")) else ():
            if own.table == alias and other.table != alias:
                equalities.append((str(own.name), str(other.table), str(other.name)))
    return equalities
