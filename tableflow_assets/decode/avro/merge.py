"""Several versions of an Avro schema, merged into one type that holds the values of them all.

A named type is merged with its namesakes in other versions, and with whatever the other versions have
in the same place, so a record may be renamed. The newest version decides the order and the docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tableflow_assets.decode.avro.types import NAMED, TEXT, AvroType, AvroVersion
from tableflow_assets.decode.columns import ColumnBuilder, Path

MEMBER = "member_"
NAMESPACE = "tableflow.value"  # of the merged types, whose names differ in every place

_NUMBERS = ("int", "long", "float", "double")  # each can be read as any of those after it

_Place = dict[int, AvroType]  # version number → the type it has there, newest first


def merged(versions: Sequence[AvroVersion], errors: ColumnBuilder) -> AvroType:
    """``versions``: oldest first."""
    newest_first = range(len(versions) - 1, -1, -1)
    return _Merge(versions, errors).at({n: versions[n].root for n in newest_first}, ())


def counterpart(writer: AvroType, merged: AvroType | None) -> AvroType | None:
    """The part of the merged type that holds values of the writer's type, which is not a union."""
    if merged is not None and merged.kind == "union":
        branches = merged.branches
        merged = branches[0] if len(branches) == 1 else merged.parts.get(writer.identity)
    return merged if merged is not None and merged.kind == writer.kind else None


class _Merge:
    def __init__(self, versions: Sequence[AvroVersion], errors: ColumnBuilder) -> None:
        self._versions = versions
        self._errors = errors
        self._contains_itself: dict[tuple[int, ...], bool] = {}

    def at(self, place: _Place, path: Path) -> AvroType:
        alternatives = self._alternatives(place)
        is_union = len(alternatives) > 1
        # The root becomes the table's columns; only what is below it can be text.
        if (path or is_union) and any(map(self._is_recursive, alternatives.values())):
            return AvroType(TEXT)
        branches = {}
        for identity, variants in alternatives.items():
            member = f"{MEMBER}{_newest(variants).simple_name}"
            branches[identity] = self._merge_type(variants, (*path, member) if is_union else path)
        if is_union and any(branch.holds_nothing for branch in branches.values()):
            return AvroType(TEXT)
        null = {"null": AvroType("null")} if any(map(_may_be_null, place.values())) else {}
        parts = null | branches
        kind = AvroType("union", parts=parts) if len(parts) > 1 else next(iter(parts.values()))
        if not is_union:
            self._refuse_a_change_that_no_column_shows(place, alternatives, kind, path)
        return kind

    def _refuse_a_change_that_no_column_shows(
        self, place: _Place, alternatives: dict[str, _Place], kind: AvroType, path: Path
    ) -> None:
        """A record of nothing has none, so nothing else would notice that it was, or becomes, a value."""
        variants = next(iter(alternatives.values()), {})
        others = {v: each for v, each in place.items() if each.branches and v not in variants}
        if others and (
            kind.holds_nothing
            or any(self.at({v: each}, path).holds_nothing for v, each in others.items())
        ):
            raise self._errors.unsupported(
                path, "it is a record in one version, and something else in another"
            )

    def _alternatives(self, place: _Place) -> dict[str, _Place]:
        branches = {version: kind.branches for version, kind in place.items() if kind.branches}
        alternatives: dict[str, _Place] = {}
        if any(len(kinds) > 1 for kinds in branches.values()):
            for version, kinds in branches.items():
                for kind in kinds:
                    alternatives.setdefault(kind.identity, {})[version] = kind
        elif branches:
            only = {version: kind for version, (kind,) in branches.items()}
            newest = _newest(only)
            alternatives[newest.identity] = {
                version: kind for version, kind in only.items() if _are_alike(kind, newest)
            }
        return {
            identity: self._with_namesakes(variants) for identity, variants in alternatives.items()
        }

    def _with_namesakes(self, variants: _Place) -> _Place:
        """Also the namesakes of versions that have nothing in this place."""
        if _newest(variants).kind not in NAMED:
            return variants
        place = dict(variants)
        for number, version in enumerate(self._versions):
            for kind in variants.values():
                namesake = version.named.get(kind.name)
                if number not in place and namesake is not None and namesake.kind == kind.kind:
                    place[number] = namesake
        return {number: place[number] for number in sorted(place, reverse=True)}

    def _merge_type(self, variants: _Place, path: Path) -> AvroType:
        newest = _newest(variants)
        docs: dict[str, str | None] = {}
        for kind in variants.values():
            docs = kind.docs | docs
        full_name = ".".join((NAMESPACE, *path, newest.simple_name))
        return AvroType(
            max(variants.values(), key=_width).kind,
            full_name if newest.name else "",
            self._attributes(variants, path),
            {
                name: self._part(newest.kind, place, (*path, name))
                for name, place in _parts(variants).items()
            },
            docs,
        )

    def _part(self, kind: str, place: _Place, path: Path) -> AvroType:
        """A record's field may be left out of the table, an element or a map's value may not."""
        part = self.at(place, path)
        has_column = kind == "record" or not part.branches or not part.holds_nothing
        return part if has_column else AvroType(TEXT)

    def _attributes(self, variants: _Place, path: Path) -> dict[str, Any]:
        symbols = [
            symbol for kind in variants.values() for symbol in kind.attributes.get("symbols", ())
        ]
        if symbols:
            return {"symbols": list(dict.fromkeys(symbols))}
        self._refuse_other_meanings(variants, path)
        attributes = dict(max(variants.values(), key=_width).attributes)
        precisions = [kind.attributes.get("precision") for kind in variants.values()]
        if "precision" in attributes and all(
            isinstance(precision, int | None) for precision in precisions
        ):
            attributes["precision"] = max(filter(None, precisions))
        return attributes

    def _refuse_other_meanings(self, variants: _Place, path: Path) -> None:
        """Avro would read a number as if it had the newest version's unit or scale."""
        logical = [kind for kind in variants.values() if kind.logical]
        meanings = {(kind.logical, str(kind.attributes.get("scale", 0))) for kind in logical}
        if len(meanings) > 1:
            meaning_list = " and ".join(sorted({kind.logical for kind in logical}))
            raise self._errors.unsupported(
                path, f"versions of the schema disagree on what its values mean ({meaning_list})"
            )

    def _is_recursive(self, variants: _Place) -> bool:
        if _newest(variants).kind != "record":
            return False
        start = _key(variants)
        if start not in self._contains_itself:
            self._contains_itself[start] = start in self._keys_below(variants)
        return self._contains_itself[start]

    def _keys_below(self, variants: _Place) -> set[tuple[int, ...]]:
        keys: set[tuple[int, ...]] = set()
        pending = [variants]
        while pending:
            for below in self._records_in(pending.pop()):
                if _key(below) not in keys:
                    keys.add(_key(below))
                    pending.append(below)
        return keys

    def _records_in(self, variants: _Place) -> Iterator[_Place]:
        """The nearest records below, but not those inside them."""
        for place in _parts(variants).values():
            for below in self._alternatives(place).values():
                if _newest(below).kind == "record":
                    yield below
                else:
                    yield from self._records_in(below)


def _newest(variants: _Place) -> AvroType:
    return next(iter(variants.values()))


def _key(variants: _Place) -> tuple[int, ...]:
    return tuple(id(kind) for kind in variants.values())


def _parts(variants: _Place) -> dict[str, _Place]:
    parts: dict[str, _Place] = {}
    for version, kind in variants.items():
        for name, part in kind.parts.items():
            parts.setdefault(name, {})[version] = part
    return parts


def _may_be_null(kind: AvroType) -> bool:
    return kind.kind == "null" or (kind.kind == "union" and "null" in kind.parts)


def _are_alike(kind: AvroType, newest: AvroType) -> bool:
    are_numbers = kind.kind in _NUMBERS and newest.kind in _NUMBERS
    return are_numbers or kind.kind == newest.kind


def _width(kind: AvroType) -> int:
    return _NUMBERS.index(kind.kind) if kind.kind in _NUMBERS else 0
