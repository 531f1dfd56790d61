"""Sending lab records to Kafka, at full speed or at a steady rate."""

from __future__ import annotations

import io
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

import fastavro
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tableflow_assets.base.errors import ServerUnreachable, SettingsError, TableflowError
from tableflow_assets.labs.avro_schemas import parsed_schema
from tableflow_assets.labs.record import LabRecord
from tableflow_assets.labs.registry import LabRegistry

SECONDS_TO_ANSWER = 10
SECONDS_BETWEEN_PROGRESS = 1.0

PRODUCER_SETTINGS: dict[str, str | int | bool] = {
    # Retries neither repeat nor reorder records.
    "enable.idempotence": True,
    # A broker that restarts is back within five minutes; until then records wait and are retried.
    "delivery.timeout.ms": 300_000,
    # A key lands on the same partition as with Kafka's Java producer.
    "partitioner": "murmur2_random",
    "linger.ms": 20,
    # While a broker is down the client logs every attempt to reconnect; what matters in the end is
    # raised as an error.
    "log_level": 2,
}


class DeliveryFailed(TableflowError):
    """Kafka did not take records that the lab producer sent."""


class LabEncoder:
    """Values in Confluent's framing: a zero byte, the schema's id in four bytes, the Avro data."""

    def __init__(self, registry: LabRegistry) -> None:
        self._registry = registry
        self._headers: dict[str, bytes] = {}

    def encode(self, record: LabRecord) -> bytes:
        header = self._headers.get(record.topic)
        if header is None:
            header = struct.pack(">bI", 0, self._registry.register(record.topic))
            self._headers[record.topic] = header
        data = io.BytesIO()
        data.write(header)
        fastavro.schemaless_writer(data, parsed_schema(record.topic), record.value, strict=True)
        return data.getvalue()


class DeliveryLog:
    """What became of the records: how many were acknowledged per topic, and why others were refused."""

    def __init__(self) -> None:
        self.acknowledged: Counter[str] = Counter()
        self.failures: list[str] = []

    def note(self, error: KafkaError | None, message: Message) -> None:
        topic = str(message.topic())
        if error is None:
            self.acknowledged[topic] += 1
        else:
            self.failures.append(f"{topic}: {error.str()}")

    def raise_failures(self) -> None:
        if self.failures:
            raise DeliveryFailed(
                f"Kafka did not take {len(self.failures)} lab records; the first: "
                f"{self.failures[0]} ({self.acknowledged.total()} were acknowledged)",
                "Check that the topics exist (`ensure_topics`) and that the records' timestamps do "
                "not lie in the future, which a broker refuses; then run again.",
            )


def produce(
    bootstrap_servers: str,
    registry_url: str,
    records: Iterable[LabRecord],
    rate: float | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
    stop: threading.Event | None = None,
) -> dict[str, int]:
    """Send the records and wait until Kafka has them; the acknowledged records per topic.

    ``rate`` is in records per second, all topics together. ``on_progress`` is told about once a
    second how many records were acknowledged. Setting ``stop`` ends an endless stream: what was
    sent is still waited for. For a live stream, pass ``generate_live(...)``.
    """
    if rate is not None and rate <= 0:
        raise SettingsError(f"A rate of {rate} records per second sends nothing", "Raise it.")
    stop = stop or threading.Event()
    report = _Progress(on_progress)
    encoder = LabEncoder(LabRegistry(registry_url))
    producer = _connected_producer(bootstrap_servers)
    log = DeliveryLog()
    began = time.monotonic()
    for number, record in enumerate(records, start=1):
        _send(producer, record, encoder.encode(record), log, stop)
        report.tell(log.acknowledged.total())
        # Wait here, before the next record is taken: a live stream stamps it when it is taken.
        if rate:
            _wait_until(began + number / rate, producer, stop)
        if log.failures or stop.is_set():
            break
    # In short turns, so that Ctrl-C gets through; the delivery timeout bounds their number.
    while producer.flush(0.5):
        report.tell(log.acknowledged.total())
    report.tell(log.acknowledged.total(), final=True)
    log.raise_failures()
    return dict(log.acknowledged)


def _connected_producer(bootstrap_servers: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap_servers, **PRODUCER_SETTINGS})
    try:
        # Without this call a wrong address would only show after the delivery timeout.
        producer.list_topics(timeout=SECONDS_TO_ANSWER)
    except KafkaException as failure:
        raise ServerUnreachable("Kafka", bootstrap_servers, str(failure)) from failure
    return producer


def _send(
    producer: Producer, record: LabRecord, value: bytes, log: DeliveryLog, stop: threading.Event
) -> None:
    """Hand one record to the producer, waiting while its queue is full, unless told to stop."""
    while not stop.is_set():
        try:
            producer.produce(
                record.topic,
                key=record.key.encode(),
                value=value,
                timestamp=record.timestamp_ms,
                on_delivery=log.note,
            )
        except BufferError:
            producer.poll(0.1)
        except KafkaException as refusal:
            log.failures.append(f"{record.topic}: {refusal}")
            return
        else:
            producer.poll(0)
            return


def _wait_until(moment: float, producer: Producer, stop: threading.Event) -> None:
    while (ahead := moment - time.monotonic()) > 0 and not stop.is_set():
        # Acknowledgements are noted only while the producer is polled.
        producer.poll(0)
        stop.wait(min(ahead, 0.1))


class _Progress:
    """Calls back about once a second, however often `tell` is called."""

    def __init__(self, callback: Callable[[int], None] | None) -> None:
        self._callback = callback
        self._next_call = time.monotonic() + SECONDS_BETWEEN_PROGRESS

    def tell(self, acknowledged: int, final: bool = False) -> None:
        if self._callback and (final or time.monotonic() >= self._next_call):
            self._next_call = time.monotonic() + SECONDS_BETWEEN_PROGRESS
            self._callback(acknowledged)
