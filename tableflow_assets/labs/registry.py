"""Registering the labs' schemas, and what can go wrong with it."""

from __future__ import annotations

import httpx
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tableflow_assets.base.errors import IncompatibleSchema, ServerUnreachable
from tableflow_assets.labs.avro_schemas import schema_text

SECONDS_TO_ANSWER = 10
HTTP_CONFLICT = 409


class LabRegistry:
    def __init__(self, url: str) -> None:
        self._url = url
        self._client = SchemaRegistryClient(
            {
                "url": url,
                # By default the client waits for an answer forever.
                "timeout": SECONDS_TO_ANSWER,
                "retries.wait.ms": 200,
            }
        )

    def register(self, topic: str) -> int:
        """The id of the topic's value schema; registering it again changes nothing."""
        subject = f"{topic}-value"
        try:
            return self._client.register_schema(subject, Schema(schema_text(topic), "AVRO"))
        except SchemaRegistryError as refusal:
            if refusal.http_status_code == HTTP_CONFLICT:
                raise IncompatibleSchema(
                    f"The registry at {self._url} holds another schema for {subject}: {refusal}",
                    f"Delete the subject {subject}, or use a topic without records of others.",
                ) from refusal
            raise ServerUnreachable("Schema registry", self._url, str(refusal)) from refusal
        except httpx.HTTPError as failure:
            raise ServerUnreachable("Schema registry", self._url, str(failure)) from failure
