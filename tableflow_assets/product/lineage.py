"""Where each column of a product comes from, derived from its SQL alone.

The columns of products are known; those of topics are not, since no server is asked. So an unqualified
column of a statement that reads several topics is left out: no answer is better than a wrong one.
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
    """By column of the product, all columns its value comes from; ``columns_of_inputs``: where known."""
    sources = {
        source_input.name: source_input.source(quoted(source_input.name))
        for source_input in product.inputs
    }
    statement = flink.parse(flink.in_spark(product.definition.statement, sources))
    scope = build_scope(statement)
    known_columns = {
        source_input.name: set(source_input.product.definition.columns)
        for source_input in product.inputs
        if source_input.product
    }
    known_columns |= {name: set(columns) for name, columns in (columns_of_inputs or {}).items()}
    origins = _Origins(known_columns)
    return {
        column: tuple(dict.fromkeys(origins.of_output(scope, column))) if scope else ()
        for column in product.definition.columns
    }


@dataclass(frozen=True)
class _Origins:
    columns: Mapping[str, Collection[str]]  # by input, where known

    def of_output(self, scope: Scope, column: str) -> Iterator[Origin]:
        """The origins of a column that a query returns."""
        if scope.set_operation_scopes:
            names = [_lower(name) for name in _query(scope.set_operation_scopes[0]).named_selects]
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
        inner = {id(subquery.expression): subquery for subquery in scope.subquery_scopes}
        for node in walk_in_scope(expression):
            if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                first, *fields = (part.name for part in node.parts)
                # If the name before the dot is not a source, it is a column, and a field of it follows.
                is_qualified = bool(fields) and _lower(first) in _sources(scope)
                yield from self._of_name(
                    scope, *((first, fields[0]) if is_qualified else ("", first))
                )
            elif (query := inner.get(id(node))) is not None:
                for projection in _query(query).selects:
                    yield from self._of_expression(query, projection)

    def _of_name(self, scope: Scope, source: str, column: str) -> Iterator[Origin]:
        """``source``: the name that the query uses; "" for an unqualified column."""
        among = _sources(scope)
        candidates = [among[_lower(source)]] if source else list(among.values())
        if len(candidates) > 1:
            certain = [candidate for candidate in candidates if self._has(candidate, column)]
            candidates = certain or [
                candidate for candidate in candidates if self._has(candidate, column) is None
            ]
        if len(candidates) != 1:
            return
        (origin,) = candidates
        if isinstance(origin, Scope):
            yield from self.of_output(origin, column)
        elif isinstance(origin, exp.Table) and self._has(origin, column) is not False:
            yield origin.name, column

    def _has(self, source: Any, column: str) -> bool | None:
        """None: unknown."""
        if isinstance(source, exp.Table):
            columns = self.columns.get(source.name)
            return None if columns is None else _lower(column) in map(_lower, columns)
        scope = source.set_operation_scopes[0] if source.set_operation_scopes else source
        if _lower(column) in map(_lower, _query(scope).named_selects):
            return True
        within = [
            self._has(inner, column)
            for projection in _query(scope).selects
            if projection.is_star
            for name, inner in _sources(scope).items()
            if _star_of(projection) in ("", name)
        ]
        return True if True in within else None if None in within else False


def _query(scope: Scope) -> exp.Query:
    """A scope may also be that of a function, which has no columns of ours."""
    return scope.expression if isinstance(scope.expression, exp.Query) else exp.Select()


def _sources(scope: Scope) -> dict[str, Any]:
    """The sources in FROM and JOIN; for a correlated subquery, those of the outer query as well."""
    outer = _sources(scope.parent) if scope.is_correlated_subquery and scope.parent else {}
    return outer | {_lower(name): source for name, (_, source) in scope.selected_sources.items()}


def _star_of(projection: exp.Expr) -> str:
    return _lower(projection.table) if isinstance(projection, exp.Column) else ""


def _lower(name: str) -> str:
    """Names are case-insensitive in Spark SQL, as in Flink's tables."""
    return name.lower()
