"""Several versions of an Avro schema, merged into one type that holds the values of them all.

A named type is merged with its namesakes of other versions, and with what the other versions have in
the same place: a renamed record stays one. The newest version decides on the order and the docs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tableflow_assets.decode.avro.types import NAMED, TEXT, AvroType, AvroVersion
from tableflow_assets.decode.columns import ColumnBuilder, Path

MEMBER = "member_"
NAMESPACE = "tableflow.value"  # of the merged types: each has a name of its own in every place

_NUMBERS = ("int", "long", "float", "double")  # each can be read as any that follows

_Place = dict[int, AvroType]  # what the versions have there, newest first


def merged(versions: Sequence[AvroVersion], errors: ColumnBuilder) -> AvroType:
    """``versions``: oldest first."""
    newest_first = range(len(versions) - 1, -1, -1)
    return _Merge(versions, errors).at({n: versions[n].root for n in newest_first}, ())


def counterpart(writer: AvroType, merged: AvroType | None) -> AvroType | None:
    """The part of the merged type that takes a value of this writer's; not of a union's."""
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
        # The columns of a table need a root; only what is below it can be text.
        if (path or is_union) and any(map(self._is_recursive, alternatives.values())):
            return AvroType(TEXT)
        branches = {}
        for identity, same in alternatives.items():
            member = f"{MEMBER}{_newest(same).simple_name}"
            branches[identity] = self._one(same, (*path, member) if is_union else path)
        null = {"null": AvroType("null")} if any(map(_may_be_null, place.values())) else {}
        parts = null | branches
        return AvroType("union", parts=parts) if len(parts) > 1 else next(iter(parts.values()))

    def _alternatives(self, place: _Place) -> dict[str, _Place]:
        branches = {version: kind.branches for version, kind in place.items() if kind.branches}
        found: dict[str, _Place] = {}
        if any(len(several) > 1 for several in branches.values()):
            for version, several in branches.items():
                for kind in several:
                    found.setdefault(kind.identity, {})[version] = kind
        elif branches:
            only = {version: one for version, (one,) in branches.items()}
            newest = _newest(only)
            found[newest.identity] = {
                version: kind for version, kind in only.items() if _are_alike(kind, newest)
            }
        return {identity: self._with_namesakes(same) for identity, same in found.items()}

    def _with_namesakes(self, same: _Place) -> _Place:
        """At most one type of each version: what is in the same place comes first."""
        if _newest(same).kind not in NAMED:
            return same
        found = dict(same)
        for number, version in enumerate(self._versions):
            for kind in same.values():
                namesake = version.named.get(kind.name)
                if number not in found and namesake is not None and namesake.kind == kind.kind:
                    found[number] = namesake
        return {number: found[number] for number in sorted(found, reverse=True)}

    def _one(self, same: _Place, path: Path) -> AvroType:
        newest = _newest(same)
        docs: dict[str, str | None] = {}
        for kind in same.values():
            docs = kind.docs | docs
        whole = ".".join((NAMESPACE, *path, newest.simple_name))
        return AvroType(
            max(same.values(), key=_width).kind,
            whole if newest.name else "",
            self._attributes(same, path),
            {name: self.at(place, (*path, name)) for name, place in _parts(same).items()},
            docs,
        )

    def _attributes(self, same: _Place, path: Path) -> dict[str, Any]:
        symbols = [
            symbol for kind in same.values() for symbol in kind.attributes.get("symbols", ())
        ]
        if symbols:
            return {"symbols": list(dict.fromkeys(symbols))}
        self._refuse_other_meanings(same, path)
        attributes = dict(max(same.values(), key=_width).attributes)
        precisions = [kind.attributes.get("precision") for kind in same.values()]
        if "precision" in attributes and all(isinstance(each, int | None) for each in precisions):
            attributes["precision"] = max(filter(None, precisions))
        return attributes

    def _refuse_other_meanings(self, same: _Place, path: Path) -> None:
        """Avro would read the number of another unit or scale as if it were of the newest's."""
        logical = [kind for kind in same.values() if kind.logical]
        meanings = {(kind.logical, str(kind.attributes.get("scale", 0))) for kind in logical}
        if len(meanings) > 1:
            told = " and ".join(sorted({kind.logical for kind in logical}))
            raise self._errors.unsupported(
                path, f"versions of the schema disagree on what its values mean ({told})"
            )

    def _is_recursive(self, same: _Place) -> bool:
        if _newest(same).kind != "record":
            return False
        start = _key(same)
        if start not in self._contains_itself:
            self._contains_itself[start] = start in self._keys_below(same)
        return self._contains_itself[start]

    def _keys_below(self, same: _Place) -> set[tuple[int, ...]]:
        found: set[tuple[int, ...]] = set()
        left = [same]
        while left:
            for below in self._records_in(left.pop()):
                if _key(below) not in found:
                    found.add(_key(below))
                    left.append(below)
        return found

    def _records_in(self, same: _Place) -> Iterator[_Place]:
        """Those that one enters next: not the ones inside of these."""
        for place in _parts(same).values():
            for below in self._alternatives(place).values():
                if _newest(below).kind == "record":
                    yield below
                else:
                    yield from self._records_in(below)


def _newest(same: _Place) -> AvroType:
    return next(iter(same.values()))


def _key(same: _Place) -> tuple[int, ...]:
    return tuple(id(kind) for kind in same.values())


def _parts(same: _Place) -> dict[str, _Place]:
    found: dict[str, _Place] = {}
    for version, kind in same.items():
        for name, part in kind.parts.items():
            found.setdefault(name, {})[version] = part
    return found


def _may_be_null(kind: AvroType) -> bool:
    return kind.kind == "null" or (kind.kind == "union" and "null" in kind.parts)


def _are_alike(kind: AvroType, newest: AvroType) -> bool:
    are_numbers = kind.kind in _NUMBERS and newest.kind in _NUMBERS
    return are_numbers or kind.kind == newest.kind


def _width(kind: AvroType) -> int:
    return _NUMBERS.index(kind.kind) if kind.kind in _NUMBERS else 0
