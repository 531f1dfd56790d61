"""Where each column of a product comes from, told by its SQL alone.

The columns of products are known; those of topics are not, since nobody is asked. So a column without the
name of its table, beside several topics, is left out: rather no answer than a wrong one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, build_scope, walk_in_scope

from tableflow_assets.base.sql_names import quoted
from tableflow_assets.product import flink
from tableflow_assets.product.products import Product

# An input's name in the SQL, and a column of it.
Origin = tuple[str, str]


def column_lineage(
    product: Product, columns_of_inputs: Mapping[str, Collection[str]] | None = None
) -> dict[str, tuple[Origin, ...]]:
    """By column of the product, all that its value is made of; ``columns_of_inputs``: where known."""
    sources = {one.name: one.source(quoted(one.name)) for one in product.inputs}
    statement = flink.parse(flink.in_spark(product.definition.statement, sources))
    scope = build_scope(statement)
    known = {one.name: set(one.product.definition.columns) for one in product.inputs if one.product}
    known |= {name: set(columns) for name, columns in (columns_of_inputs or {}).items()}
    origins = _Origins(known)
    return {
        column: tuple(dict.fromkeys(origins.of_output(scope, column))) if scope else ()
        for column in product.definition.columns
    }


@dataclass(frozen=True)
class _Origins:
    known: Mapping[str, Collection[str]]

    def of_output(self, scope: Scope, column: str) -> Iterator[Origin]:
        """Of a column that a query gives."""
        if scope.set_operation_scopes:
            names = [_lower(one) for one in _query(scope.set_operation_scopes[0]).named_selects]
            for part in scope.set_operation_scopes if _lower(column) in names else ():
                nth = _query(part).named_selects[names.index(_lower(column))]
                yield from self.of_output(part, nth)
            return
        for projection in _query(scope).selects:
            if _lower(projection.alias_or_name) == _lower(column):
                yield from self._of_expression(scope, projection)
                return
        for projection in _query(scope).selects:
            if projection.is_star:
                yield from self._of_name(scope, _star_of(projection), column)

    def _of_expression(self, scope: Scope, expression: exp.Expr) -> Iterator[Origin]:
        inner = {id(one.expression): one for one in scope.subquery_scopes}
        for node in walk_in_scope(expression):
            if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                first, *rest = (part.name for part in node.parts)
                # What is no source before a dot is a column, and what follows a field of it.
                is_qualified = bool(rest) and _lower(first) in _sources(scope)
                yield from self._of_name(
                    scope, *((first, rest[0]) if is_qualified else ("", first))
                )
            elif (query := inner.get(id(node))) is not None:
                for projection in _query(query).selects:
                    yield from self._of_expression(query, projection)

    def _of_name(self, scope: Scope, source: str, column: str) -> Iterator[Origin]:
        """``source``: as the query calls it; "" where it does not say."""
        among = _sources(scope)
        chosen = [among[_lower(source)]] if source else list(among.values())
        if len(chosen) > 1:
            sure = [one for one in chosen if self._has(one, column)]
            chosen = sure or [one for one in chosen if self._has(one, column) is None]
        if len(chosen) != 1:
            return
        (found,) = chosen
        if isinstance(found, Scope):
            yield from self.of_output(found, column)
        elif isinstance(found, exp.Table) and self._has(found, column) is not False:
            yield found.name, column

    def _has(self, source: Any, column: str) -> bool | None:
        """None: that is not known."""
        if isinstance(source, exp.Table):
            known = self.known.get(source.name)
            return None if known is None else _lower(column) in map(_lower, known)
        scope = source.set_operation_scopes[0] if source.set_operation_scopes else source
        if _lower(column) in map(_lower, _query(scope).named_selects):
            return True
        within = [
            self._has(one, column)
            for projection in _query(scope).selects
            if projection.is_star
            for name, one in _sources(scope).items()
            if _star_of(projection) in ("", name)
        ]
        return True if True in within else None if None in within else False


def _query(scope: Scope) -> exp.Query:
    """A scope may be that of a function as well; those have no columns of ours."""
    return scope.expression if isinstance(scope.expression, exp.Query) else exp.Select()


def _sources(scope: Scope) -> dict[str, Any]:
    """What stands in FROM and JOIN; of a query within another, the other's as well."""
    outer = _sources(scope.parent) if scope.is_correlated_subquery and scope.parent else {}
    return outer | {_lower(name): one for name, (_, one) in scope.selected_sources.items()}


def _star_of(projection: exp.Expr) -> str:
    return _lower(projection.table) if isinstance(projection, exp.Column) else ""


def _lower(name: str) -> str:
    """In Spark's SQL, as in Flink's tables, names that differ in case alone are the same."""
    return name.lower()
