"""What a serialization has to say for itself: its leaves, its schema texts, its real serializer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.serialization import SerializationContext
from hypothesis import strategies as st

from tableflow_assets_tests.support.drawn.shapes import (
    Array,
    Field,
    Leaf,
    Map,
    Maybe,
    Record,
    Rules,
    Shape,
)

Values = st.SearchStrategy[Any]
Write = Callable[[Any, SerializationContext], bytes]

# Said, because the serializers would ask the registry for one, which not every registry answers.
BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}
# Of a collection: few, so that an example stays within what hypothesis can draw.
MOST_ELEMENTS = 2
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)


@dataclass(frozen=True)
class Kind:
    """One leaf: how a schema says it, what may be sent, and what the table must then have."""

    schema: Any
    values: Values
    expected: Callable[[Any], Any] = lambda value: value


class Format(ABC):
    """A value is, for every format, made of dictionaries, lists and what its leaves take."""

    rules: ClassVar[Rules]
    kinds: ClassVar[Mapping[str, Kind]]

    @abstractmethod
    def write(self, record: Record, registry: SchemaRegistryClient) -> Write:
        """The format's own serializer, which also registers the record's schema."""

    def column(self, field: Field) -> str:
        return field.name

    def values(self, shape: Shape) -> Values:
        match shape:
            case Leaf(kind):
                return self.kinds[kind].values
            case Maybe(inner):
                return st.none() | self.values(inner)
            case Array(element):
                return st.lists(self.values(element), max_size=MOST_ELEMENTS)
            case Map(key, value):
                return st.dictionaries(
                    self.kinds[key].values, self.values(value), max_size=MOST_ELEMENTS
                )
            case Record():
                return st.fixed_dictionaries(
                    {field.name: self.field_values(field.shape) for field in shape.fields}
                )

    def field_values(self, shape: Shape) -> Values:
        return self.values(shape)

    def expected(self, shape: Shape, value: Any) -> Any:
        """Maps as dictionaries; see ``is_same``."""
        match shape:
            case Maybe(inner):
                return None if value is None else self.expected(inner, value)
            case Leaf(kind):
                return self.kinds[kind].expected(value)
            case Array(element):
                return [self.expected(element, each) for each in value]
            case Map(key, inner):
                of_key = self.kinds[key].expected
                return {of_key(k): self.expected(inner, v) for k, v in value.items()}
            case Record():
                return {
                    self.column(field): self.expected_field(field.shape, value.get(field.name))
                    for field in shape.fields
                }

    def expected_field(self, shape: Shape, value: Any) -> Any:
        return self.expected(shape, value)
