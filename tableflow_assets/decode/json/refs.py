"""Where a JSON Schema's `$ref` leads: within its document, or to one of the registry's references.

Nothing is ever fetched: what neither the document nor its references hold is not found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, specification_with

_REF_STANDS_ALONE = (DRAFT4, DRAFT6, DRAFT7)


class RefNotFound(Exception):
    """Neither the document nor its references hold what a `$ref` names."""


@dataclass(frozen=True)
class Place:
    """A schema within its document: what it says, and where its own `$ref`s count from."""

    schema: Any
    _resolver: Any
    _draft: Specification[Any]

    @property
    def ref_stands_alone(self) -> bool:
        """Beside a `$ref`, the drafts up to 7 ignore everything else."""
        return self._draft in _REF_STANDS_ALONE

    def within(self, schema: Any) -> Place:
        """A schema that is written inside this one."""
        inner = self._draft.create_resource(schema)
        resolver = self._resolver.in_subresource(inner) if _id_of(inner) else self._resolver
        return Place(schema, resolver, self._draft)

    def follow(self, ref: str) -> Place:
        try:
            found = self._resolver.lookup(ref)
        # The library takes for granted that documents are well-formed: not every registry checks.
        except (Unresolvable, LookupError, TypeError, ValueError, AttributeError) as error:
            raise RefNotFound(ref) from error
        if not isinstance(found.contents, dict | bool):
            raise RefNotFound(ref)
        return Place(found.contents, found.resolver, self._draft)


def root_of(text: str, references: Mapping[str, str]) -> Place:
    """The outermost schema of a document; ``references`` by the names that its `$ref`s use."""
    root = _document(text)
    others = {name: _document(other) for name, other in references.items()}
    named = Registry().with_resources(_by_every_spelling(root, others).items())
    resolver = named.with_resource(_id_of(root), root).resolver(_id_of(root))
    return Place(root.contents, resolver, _draft_of(root.contents))


def _document(text: str) -> Resource[Any]:
    contents = json.loads(text)
    return _draft_of(contents).create_resource(contents)


def _draft_of(contents: Any) -> Specification[Any]:
    """Draft 7 where the document does not say, as Confluent's registry reads it."""
    named = contents.get("$schema") if isinstance(contents, dict) else None
    old_drafts = str(named).replace(
        "https://json-schema.org/draft-0", "http://json-schema.org/draft-0"
    )
    return specification_with(old_drafts, default=DRAFT7)


def _id_of(document: Resource[Any]) -> str:
    contents = document.contents
    has_id = isinstance(contents, dict) and all(
        isinstance(contents.get(key, ""), str) for key in ("$id", "id")
    )
    return (document.id() or "") if has_id else ""


def _by_every_spelling(
    root: Resource[Any], others: Mapping[str, Resource[Any]]
) -> dict[str, Resource[Any]]:
    """A `$ref` is relative to the `$id` of the document it stands in, a reference's name is not."""
    ids = [_id_of(document) for document in (root, *others.values())]
    relative = {
        urljoin(base, name): document
        for base in (*others, *ids)
        for name, document in others.items()
    }
    return relative | dict(others)
