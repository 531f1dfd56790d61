"""Seeded records for the labs' topics, and a producer that sends them to Kafka.

Read in this order: ``record`` and ``clock`` (what a record is, and where its time comes from),
``shift_left`` and ``river_hotels`` (the two shops), ``stream`` (both as one stream),
``setup_topics`` and ``producer`` (into Kafka).
"""

from tableflow_assets.labs.producer import DeliveryFailed, produce
from tableflow_assets.labs.record import LabRecord
from tableflow_assets.labs.setup_topics import ensure_topics
from tableflow_assets.labs.stream import (
    DEFAULT_START,
    LAB_TOPICS,
    generate,
    generate_live,
    records,
)

__all__ = [
    "DEFAULT_START",
    "LAB_TOPICS",
    "DeliveryFailed",
    "LabRecord",
    "ensure_topics",
    "generate",
    "generate_live",
    "produce",
    "records",
]
