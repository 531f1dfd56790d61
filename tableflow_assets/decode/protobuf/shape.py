"""What a Protobuf message looks like as a row: plain data, which can be sent to Spark's workers.

| Protobuf                                | kind      | Iceberg        |
|-----------------------------------------|-----------|----------------|
| double, float, bool                     | the same  | the same       |
| int32, sint32, sfixed32                 | int       | int            |
| int64, sint64, sfixed64                 | long      | long           |
| uint32, fixed32                         | long      | long           |
| uint64, fixed64                         | unsigned  | decimal(20, 0) |
| string, enum (its name)                 | string    | string         |
| bytes                                   | binary    | binary         |
| google.protobuf.Timestamp               | timestamp | timestamptz    |
| google.protobuf.Duration                | duration  | long           |
| google.protobuf.Int64Value and the like | of value  | of value       |
| google.type.Date                        | date      | date           |
| Struct, Value, ListValue, Any           | json      | string         |
| a message that can contain itself       | json      | string         |
| a message without fields                | Struct    | boolean        |
| any other message                       | Struct    | struct         |
| repeated, map                           | ListOf, … | list, map      |

A Duration is a number of microseconds, which can be added up and compared; no engine's interval type
can be stored in a table. A message without fields is true if it is present. An enum's number that the
schema does not have becomes text. A Date that is not a day of the calendar is NULL. A Timestamp outside
the years 1 to 9999, or a Duration of more than 10,000 years, is an error.

A field without presence (proto3's plain scalars) that is not in the record has its default value, as for
every Protobuf reader. One with presence is NULL. A default in a proto2 schema is not applied: it says
what a reader may assume, not what was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Leaf:
    kind: str
    wire: int  # the field's type as Protobuf numbers them
    message: str = ""  # its full name, if the value is a message
    names: tuple[tuple[str, int], ...] = ()  # of an enum's values


@dataclass(frozen=True)
class ListOf:
    element: Shape


@dataclass(frozen=True)
class MapOf:
    key: Leaf
    value: Shape


@dataclass(frozen=True)
class Field:
    name: str
    number: int
    shape: Shape
    default: Any = None  # if the record does not have the field
    doc: str | None = None


@dataclass(frozen=True)
class Struct:
    message: str
    fields: tuple[Field, ...]


Shape = Leaf | ListOf | MapOf | Struct
