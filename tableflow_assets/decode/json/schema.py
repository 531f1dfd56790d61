"""All versions of a JSON Schema as the columns of one table.

| JSON Schema                                           | Iceberg                                  |
|-------------------------------------------------------|------------------------------------------|
| boolean                                               | boolean                                  |
| integer, number                                       | long, double                             |
| string                                                | string                                   |
| ... with `format` date / date-time                    | date / timestamptz                       |
| ... with `contentEncoding` base64                     | binary: what the writer had              |
| enum, const without a `type`                          | what all their values are                |
| array with one schema for its `items`                 | list; without any, of JSON text          |
| object with properties                                | struct                                   |
| ... and `additionalProperties`, a schema              | a map of strings in that struct          |
| object with only `additionalProperties`, a schema     | map of strings                           |
| allOf, `$ref`                                         | all that they say together               |
| oneOf, anyOf, several types                           | the narrowest that fits all (see below)  |
| null beside something else, in any spelling           | that something: every column may be NULL |
| anything else                                         | string with JSON text                    |

| Kafka Connect's converter                             | Iceberg                                  |
|-------------------------------------------------------|------------------------------------------|
| `connect.type` int8, int16, int32 / int64             | int / long                               |
| `connect.type` float32 / float64                      | float / double                           |
| `connect.type` bytes of a string                      | binary (it writes base64)                |
| title org.apache.kafka.connect.data.Date / Timestamp  | date / timestamptz (it writes integers)  |
| title org.apache.kafka.connect.data.Time              | int: milliseconds of the day             |
| title org.apache.kafka.connect.data.Decimal           | string with JSON text                    |

A Decimal stays text because its schema says "number", while the converter's default is to write base64.

"Anything else" means tuples, objects without any known property, types that contain themselves (from
their second occurrence on), whatever is nested more than eight levels deep, and schemas that allow
anything, or values of different types. The narrowest type that fits integers and numbers is number;
for strings of different formats it is string. Several objects become one struct with the properties of
all, which queries can use directly, unlike JSON text; a property that an object does not have is NULL.
Only a property whose types differ becomes JSON text itself.

No columns are made of properties that no schema names, unless `additionalProperties` gives them a type; of
`patternProperties`; of what only `if`, `then`, `else`, `not` or `dependentSchemas` name. Beside
`patternProperties`, and where one of several objects or versions allows any other property, those that are
kept may be anything: then the map's values are JSON text. Bounds, patterns and other formats do not change a
type: an integer of more than 64 bits is a value that does not fit its column.

A root that is not an object with properties becomes a single column, `value`.

Columns are named as `column_names` says. Refused: a `$ref` to what the registry does not hold (nothing
is fetched), names that differ only in case, subjects where some versions are objects with properties
and others are not, and schemas too large or too deep for a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from typing import NamedTuple

from pyiceberg.types import IcebergType

from tableflow_assets.base.errors import IncompatibleSchema
from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN, column_name
from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.json.keywords import (
    doc_of,
    implied_type,
    leaf_of,
    ordered_keys,
    shape_of_values,
)
from tableflow_assets.decode.json.refs import RefNotFound, SchemaNode, root_of
from tableflow_assets.decode.json.shape import (
    Leaf,
    ListOf,
    MapOf,
    Property,
    Shape,
    Struct,
    both,
    either,
    newest_of,
    to_depth,
    type_of,
)

# Schemas that refer to each other a lot can, written out, be larger than any table.
MOST_PARTS = 50_000
MOST_LEVELS = 64
MOST_COLUMN_LEVELS = 8  # Spark Connect's client cannot send the expressions for more than 10

_REFS = ("$ref", "$dynamicRef", "$recursiveRef")


class JsonSchemas:
    """All registered versions of a subject, oldest first.

    ``references`` has, for each version, the texts of the schemas it refers to, directly or through
    others, by their names in the registry.
    """

    def __init__(
        self, subject: str, texts: Sequence[str], references: Sequence[Mapping[str, str]]
    ) -> None:
        self.subject = subject
        self._versions = list(zip(texts, references, strict=True))

    @cached_property
    def shape(self) -> Shape:
        """For the reader: which JSON key becomes which column, and what its JSON looks like.

        It covers all versions: the newest's properties in their order, then those that only older
        versions have. A property has the newest's type; objects are merged property by property.
        """
        newest, *older = (
            _Version(self.subject).shape(text, references)
            for text, references in reversed(self._versions)
        )
        if newest is not Leaf.NULL:
            self._refuse_another_kind_of_table(newest, older)
        return to_depth(reduce(newest_of, older, newest), MOST_COLUMN_LEVELS)

    def _refuse_another_kind_of_table(self, newest: Shape, older: Iterable[Shape]) -> None:
        """Checked here because, unlike a changed column type, nothing else would notice it."""
        is_record = isinstance(newest, Struct)
        says_nothing = (Leaf.JSON, Leaf.NULL) if is_record else ()
        if any(
            isinstance(shape, Struct) != is_record and shape not in says_nothing for shape in older
        ):
            raise IncompatibleSchema(
                f"Some versions of {self.subject} are an object with properties, others are not, so"
                " they do not have the same columns.",
                "Use a new topic for the new kind of value.",
            )

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return type_of(self.shape, builder)


class _Documented(NamedTuple):
    shape: Shape
    doc: str | None = None


class _Version:
    """A single walk over one version.

    ``enclosing`` holds the ids of the schemas around the current one.
    """

    def __init__(self, subject: str) -> None:
        self._errors = ColumnBuilder(subject)
        self._parts = 0

    def shape(self, text: str, references: Mapping[str, str]) -> Shape:
        return self._read(root_of(text, references), (), frozenset()).shape

    def _read(self, node: SchemaNode, path: Path, enclosing: frozenset[int]) -> _Documented:
        schema = node.schema
        if not isinstance(schema, dict):
            return _Documented(Leaf.NULL if schema is False else Leaf.JSON)
        if id(schema) in enclosing:
            return _Documented(Leaf.JSON)
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise self._errors.unsupported((), f"written out, it has over {MOST_PARTS:,} parts")
        if len(enclosing) == MOST_LEVELS:
            raise self._errors.unsupported(path, f"it is nested in more than {MOST_LEVELS} others")
        enclosing |= {id(schema)}
        parts = [
            self._read(self._target(node, schema[key], path), path, enclosing)
            for key in _REFS
            if isinstance(schema.get(key), str)
        ]
        if not (parts and node.ref_stands_alone):
            parts = [
                _Documented(self._own(node, path, enclosing)),
                *parts,
                *(self._read(part, path, enclosing) for part in _subschemas(node, "allOf")),
                *(self._any(_subschemas(node, key), path, enclosing) for key in ("oneOf", "anyOf")),
            ]
        shape = reduce(both, (part.shape for part in parts))
        docs = (doc_of(schema), *(part.doc for part in parts))
        return _Documented(shape, next((doc for doc in docs if doc), None))

    def _target(self, node: SchemaNode, ref: str, path: Path) -> SchemaNode:
        try:
            return node.follow(ref)
        except RefNotFound:
            raise self._errors.unsupported(
                path, f"it refers to {ref!r}, which neither the schema nor its references hold"
            ) from None

    def _any(
        self, branches: Iterable[SchemaNode], path: Path, enclosing: frozenset[int]
    ) -> _Documented:
        readings = [self._read(branch, path, enclosing) for branch in branches]
        possible = [reading for reading in readings if reading.shape is not Leaf.NULL]
        if len(possible) == 1:
            return possible[0]
        if not possible:
            return _Documented(Leaf.NULL if readings else Leaf.JSON)
        return _Documented(reduce(either, (reading.shape for reading in possible)))

    def _own(self, node: SchemaNode, path: Path, enclosing: frozenset[int]) -> Shape:
        """What a schema says without its `$ref`s and combinations."""
        kinds = node.schema.get("type", implied_type(node.schema))
        if kinds is None:
            return shape_of_values(node.schema)
        shapes = [
            self._typed(kind, node, path, enclosing)
            for kind in (kinds if isinstance(kinds, list) else [kinds])
        ]
        return reduce(either, shapes) if shapes else Leaf.JSON

    def _typed(
        self, kind: object, node: SchemaNode, path: Path, enclosing: frozenset[int]
    ) -> Shape:
        if kind == "object":
            return self._object(node, path, enclosing)
        if kind == "array":
            return self._array(node, path, enclosing)
        return leaf_of(kind, node.schema)

    def _object(self, node: SchemaNode, path: Path, enclosing: frozenset[int]) -> Shape:
        schema, properties = node.schema, node.schema.get("properties")
        if isinstance(properties, dict) and properties:
            members = [
                self._property(key, node.within(properties[key]), path, enclosing)
                for key in ordered_keys(properties)
                if properties[key] is not False
            ]
            additional = self._additional(node, (*path, ADDITIONAL_COLUMN), enclosing)
            return Struct(tuple(members), additional) if members else Leaf.JSON
        value = self._additional(node, path, enclosing)
        if isinstance(value, bool) or "patternProperties" in schema:
            return Leaf.JSON
        return MapOf(value)

    def _additional(self, node: SchemaNode, path: Path, enclosing: frozenset[int]) -> Shape | bool:
        schema = node.schema.get("additionalProperties")
        if not isinstance(schema, dict) or not schema:
            return schema is not False
        if "patternProperties" in node.schema:
            return Leaf.JSON
        return self._read(node.within(schema), (*path, "value"), enclosing).shape

    def _property(
        self, key: str, node: SchemaNode, path: Path, enclosing: frozenset[int]
    ) -> Property:
        path = (*path, column_name(key))
        if any("\ud800" <= character <= "\udfff" for character in key):
            raise self._errors.unsupported(path, "its name is not valid Unicode")
        shape, doc = self._read(node, path, enclosing)
        return Property(key, shape, doc)

    def _array(self, node: SchemaNode, path: Path, enclosing: frozenset[int]) -> Shape:
        items = node.schema.get("items", True)
        if isinstance(items, list) or "prefixItems" in node.schema:
            return Leaf.JSON
        return ListOf(self._read(node.within(items), (*path, "element"), enclosing).shape)


def _subschemas(node: SchemaNode, key: str) -> list[SchemaNode]:
    schemas = node.schema.get(key)
    return [node.within(schema) for schema in schemas] if isinstance(schemas, list) else []
