"""Which reader a topic's values and keys need, according to its settings and the registry."""

from __future__ import annotations

from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.subject import Subject
from tableflow_assets.verify.avro import Avro
from tableflow_assets.verify.json_schema import JsonWithSchema
from tableflow_assets.verify.plain import Json, Raw, Text
from tableflow_assets.verify.readers import Reader

_PLAIN: dict[str, type[Raw]] = {"json": Json, "string": Text, "raw": Raw}


def value_reader(topic: Topic, registry: Registry) -> Reader:
    if topic.value_subject is None:
        return _PLAIN[topic.value]()
    return reader_for(registry.subject(topic.value_subject), topic.record)


def key_reader(topic: Topic, registry: Registry) -> Reader:
    if topic.key_subject is None:
        return _PLAIN[topic.key]()
    subject = registry.find_subject(topic.key_subject)
    return Raw() if subject is None else reader_for(subject, topic.key_record)


def reader_for(subject: Subject, record: str | None = None) -> Reader:
    if subject.kind == "PROTOBUF":
        # Only these topics need Google's library.
        from tableflow_assets.verify.protobuf import Protobuf

        return Protobuf(subject, record)
    return Avro(subject) if subject.kind == "AVRO" else JsonWithSchema(subject)
