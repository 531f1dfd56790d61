"""Where a JSON Schema's `$ref` leads: within its document, or to one of the registry's references.

Nothing is ever fetched: a target must be in the document or in its references.
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
    """Neither the document nor its references hold the target of a `$ref`."""


@dataclass(frozen=True)
class SchemaNode:
    """A schema within its document, and what its own `$ref`s are relative to."""

    schema: Any
    _resolver: Any
    _draft: Specification[Any]

    @property
    def ref_stands_alone(self) -> bool:
        """Beside a `$ref`, the drafts up to 7 ignore everything else."""
        return self._draft in _REF_STANDS_ALONE

    def within(self, schema: Any) -> SchemaNode:
        """A schema written inside this one."""
        inner = self._draft.create_resource(schema)
        resolver = self._resolver.in_subresource(inner) if _id_of(inner) else self._resolver
        return SchemaNode(schema, resolver, self._draft)

    def follow(self, ref: str) -> SchemaNode:
        try:
            target = self._resolver.lookup(ref)
        # The library assumes well-formed documents, which not every registry checks.
        except (Unresolvable, LookupError, TypeError, ValueError, AttributeError) as error:
            raise RefNotFound(ref) from error
        if not isinstance(target.contents, dict | bool):
            raise RefNotFound(ref)
        return SchemaNode(target.contents, target.resolver, self._draft)


def root_of(text: str, references: Mapping[str, str]) -> SchemaNode:
    """The outermost schema of a document; ``references`` by the names that its `$ref`s use."""
    root = _document(text)
    referenced = {name: _document(reference) for name, reference in references.items()}
    registry = Registry().with_resources(_by_every_uri(root, referenced).items())
    resolver = registry.with_resource(_id_of(root), root).resolver(_id_of(root))
    return SchemaNode(root.contents, resolver, _draft_of(root.contents))


def _document(text: str) -> Resource[Any]:
    contents = json.loads(text)
    return _draft_of(contents).create_resource(contents)


def _draft_of(contents: Any) -> Specification[Any]:
    """Draft 7 if the document does not say, as Confluent's registry has it."""
    uri = contents.get("$schema") if isinstance(contents, dict) else None
    # The official URIs of the old drafts begin with http, but https is often seen.
    uri = str(uri).replace("https://json-schema.org/draft-0", "http://json-schema.org/draft-0")
    return specification_with(uri, default=DRAFT7)


def _id_of(document: Resource[Any]) -> str:
    contents = document.contents
    has_id = isinstance(contents, dict) and all(
        isinstance(contents.get(key, ""), str) for key in ("$id", "id")
    )
    return (document.id() or "") if has_id else ""


def _by_every_uri(
    root: Resource[Any], referenced: Mapping[str, Resource[Any]]
) -> dict[str, Resource[Any]]:
    """A `$ref` is relative to the `$id` of its document, a reference's name in the registry is not."""
    ids = [_id_of(document) for document in (root, *referenced.values())]
    relative = {
        urljoin(base, name): document
        for base in (*referenced, *ids)
        for name, document in referenced.items()
    }
    return relative | dict(referenced)
