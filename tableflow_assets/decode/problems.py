"""The classes of problems that a record can have, with an explanation of each.

A dead letter has the class in `error` and the explanation in `message`. A problem with the key has
the same class with `key_` before it.
"""

from __future__ import annotations

KEY_PREFIX = "key_"

EXPLAINED = {
    "null_value": (
        "The record has no value. In mode append every record is a row, and there is nothing to put"
        " into one; `mode: upsert` would read it as a deletion."
    ),
    "null_key": "The record has no key, and this table has one row per key.",
    "empty": "It has no bytes at all: not even the header of a schema.",
    "not_confluent_framed": (
        "It does not begin with a zero byte and a schema id, so it was not written by a serializer"
        " that uses the registry."
    ),
    "unknown_schema_id": (
        "The registry has no schema with the id in its header. Register the schema, then replay."
    ),
    "schema_of_another_subject": (
        "The schema id in its header is registered, but not under the subject of this topic."
    ),
    "refused_schema_version": (
        "It was written with a version of the schema that does not fit the table (see `tableflow"
        " plan`) and that a later version has replaced."
    ),
    "wrong_message_index": (
        "Its message index names no message of the schema, or another one than this table's."
    ),
    "malformed_avro": (
        "Its bytes are not a value of the Avro schema that its header names: cut off, too long,"
        " damaged, or written with another schema."
    ),
    "malformed_protobuf": (
        "Its bytes are not a message of the Protobuf schema that its header names: cut off, damaged,"
        " or written with another schema."
    ),
    "number_out_of_range": "A number in it is out of the range of its type, such as a time.",
    "too_many_values": (
        "It is small, but it would unpack to so many values that no worker has the memory for them."
    ),
    "malformed_json": (
        "It is not JSON, there is something after it, it is nested over 1,000 levels deep, or a number in"
        " it has over 1,000 digits."
    ),
    "json_does_not_fit_schema": (
        "It is JSON, but a value in it has another type than its column, or is out of its range."
    ),
    "invalid_utf8": "A string in it is not valid UTF-8, so no engine could read it as text.",
    "unknown_cdc_operation": "The envelope's `op` is none of c, u, r and d.",
    "cdc_write_without_after": "The envelope's `op` is a write, but `after` has no row.",
}


def explanation(error: str) -> str:
    """What to tell a person about a class of problems."""
    if error in EXPLAINED:
        return EXPLAINED[error]
    key_problem = EXPLAINED.get(error.removeprefix(KEY_PREFIX), "")
    return f"The record's key cannot be read. {key_problem}".strip()
