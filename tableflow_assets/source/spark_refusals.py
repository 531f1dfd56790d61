"""Errors for a broker that refuses Spark access, recognised in the stack trace of Java's client."""

from __future__ import annotations

import re

from tableflow_assets.base.errors import AccessRefused, TableflowError, TopicRefused
from tableflow_assets.source.kafka_access import BLOCK
from tableflow_assets.source.refusals import next_step, readable

WHERE = "the address that Spark has of it"
REFUSED = (
    r"errors\.((?:Sasl|Ssl)Authentication\w*|(?:Cluster|Group)Authorization\w*)Exception: (.*)"
)
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def spark_refusal(text: str) -> TableflowError | None:
    if ALLOWED_URLS in text:
        return AccessRefused(
            "Kafka",
            WHERE,
            "Java's client may not ask the token endpoint for a token",
            f"Start Spark's driver and executors with -D{ALLOWED_URLS}=<token_endpoint>; "
            "see docs/security.md.",
        )
    if "TopicAuthorizationException" in text:
        match = re.search(r"access topics: \[([^\]]+)\]", text)
        topic = f" {match[1]!r}" if match else ""
        return TopicRefused(
            f"Kafka does not let Spark read the topic{topic}.",
            f"Grant Read on the topic{topic} to the user of `{BLOCK}`; see docs/security.md.",
        )
    if match := re.search(REFUSED, text):
        causes = re.findall(
            r"^Caused by: \S*\.(?:Cert\w+|SSL\w+)Exception: (.*)", text, re.MULTILINE
        )
        reason = readable(": ".join([match[2], *causes[-1:]]))
        step = next_step(reason, BLOCK)
        if match[1].startswith("Ssl") and not causes:
            step = (
                f"Check the certificates of `{BLOCK}`, and that Spark's machines reach the "
                "broker by the name in its certificate; see docs/security.md."
            )
        return AccessRefused("Kafka", WHERE, reason, step)
    return None
