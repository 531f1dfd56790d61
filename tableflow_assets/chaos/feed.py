"""Producers that keep going while everything else is being killed: one thread per topic, at a low rate."""

from __future__ import annotations

import logging
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.chaos.records import Messages
from tableflow_assets.chaos.topics import ChaosTopic

PAUSE_SECONDS = 0.3
RECORDS_A_ROUND = 4
LONGEST_TRANSACTION_SECONDS = 1.5
TRANSACTION_SECONDS = 60  # after that the broker aborts it
CALL_SECONDS = 10.0
STOP_SECONDS = 120.0

PRODUCER_SETTINGS: dict[str, str | int | bool] = {
    "enable.idempotence": True,
    # Longer than any server takes to come back: until then records wait and are retried.
    "delivery.timeout.ms": 300_000,
    "partitioner": "murmur2_random",
    "linger.ms": 20,
}
# A killed broker makes the client very chatty; what matters is raised as an error.
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Feed(ABC, threading.Thread):
    """Sends until stopped; a producer that cannot continue is replaced by a new one."""

    def __init__(self, topic: ChaosTopic, kafka: str, messages: Messages, seed: int) -> None:
        super().__init__(name=f"feed of {topic.name}", daemon=True)
        self.topic = topic
        self.bad_sent = 0  # the log has at most this many undecodable records, …
        self.bad_acknowledged = 0  # … and at least this many
        self.failure: Exception | None = None
        self.last_error = ""  # why a new producer was needed, for whoever reads the report
        self._settings = PRODUCER_SETTINGS | {"bootstrap.servers": kafka}
        self._messages = messages
        self._chance = random.Random(f"{seed}/feed/{topic.name}")  # noqa: S311
        self._bad_wanted = threading.Event()
        self._bad_arrived = threading.Event()
        self._stopping = threading.Event()
        self._producer: Producer | None = None

    def run(self) -> None:
        try:
            while not self._stopping.wait(PAUSE_SECONDS):
                self._go_on(self._round)
            while not self._go_on(self._finish):
                self._stopping.wait(PAUSE_SECONDS)
        except Exception as error:  # raised by check(), in the thread that waits for records
            self.failure = error

    def send_a_bad_record(self) -> None:
        """Make the next record one that cannot be decoded."""
        self._bad_arrived.clear()
        self._bad_wanted.set()

    @property
    def has_bad_arrived(self) -> bool:
        return self._bad_arrived.is_set()

    def check(self) -> None:
        if self.failure is not None:
            raise TableflowError(
                f"The producer of {self.topic.name} has ended: {self.failure!r}",
                "This is a fault of the harness, not of the table: run again.",
            ) from self.failure

    def stop(self) -> None:
        """Ask it to end without waiting for it."""
        self._stopping.set()

    def wait(self) -> None:
        """Wait until it has ended: everything sent is acknowledged, and no transaction is open."""
        self.join(STOP_SECONDS)
        self.check()
        if self.is_alive():
            raise TableflowError(
                f"The producer of {self.topic.name} could not finish within {STOP_SECONDS:.0f} s.",
                "Is Kafka there? Read its log in the state folder.",
            )

    @abstractmethod
    def _announce(self, producer: Producer) -> None: ...

    @abstractmethod
    def _round(self, producer: Producer) -> None: ...

    @abstractmethod
    def _finish(self, producer: Producer) -> None: ...

    def _go_on(self, step: Callable[[Producer], None]) -> bool:
        if is_new := self._producer is None:
            self._producer = Producer(self._settings, logger=_silent)
        try:
            if is_new:
                self._announce(self._producer)
            step(self._producer)
        except KafkaException as error:
            # Not retriable, or it would have been retried. The old producer's open transaction is
            # aborted when the new one announces itself; what it had not sent was never acknowledged.
            self._producer = None
            self.last_error = str(error)
            return False
        return True

    def _send_some(self, producer: Producer) -> None:
        for _ in range(RECORDS_A_ROUND):
            is_bad = self._bad_wanted.is_set()
            message = self._messages.bad() if is_bad else self._messages.good()
            note = self._note_bad if is_bad else None
            producer.produce(
                self.topic.name,
                message.value,
                message.key,
                on_delivery=note,
                timestamp=message.timestamp_ms,
            )
            if is_bad:
                self._bad_wanted.clear()
                self.bad_sent += 1
        producer.poll(0)

    def _note_bad(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self.bad_acknowledged += 1
            self._bad_arrived.set()


class PlainFeed(Feed):
    """An idempotent producer: retries neither repeat nor reorder records."""

    def _announce(self, producer: Producer) -> None:
        """Nothing to announce."""

    def _round(self, producer: Producer) -> None:
        self._send_some(producer)

    def _finish(self, producer: Producer) -> None:
        while producer.flush(CALL_SECONDS):
            pass


class TransactionalFeed(Feed):
    """Transactions that are committed or aborted; some stay open for a while."""

    def __init__(self, topic: ChaosTopic, kafka: str, messages: Messages, seed: int) -> None:
        super().__init__(topic, kafka, messages, seed)
        self._settings |= {
            "transactional.id": f"{topic.name}-producer",
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            "delivery.timeout.ms": TRANSACTION_SECONDS * 1000,
        }

    def _announce(self, producer: Producer) -> None:
        self._repeat(producer.init_transactions)

    def _round(self, producer: Producer) -> None:
        producer.begin_transaction()
        self._send_some(producer)
        self._stopping.wait(self._chance.uniform(0, LONGEST_TRANSACTION_SECONDS))
        is_aborted = self._chance.random() < self.topic.abort_share
        self._repeat(producer.abort_transaction if is_aborted else producer.commit_transaction)

    def _finish(self, producer: Producer) -> None:
        """Every round closes its own transaction; after a fault, the new producer closes the old one's."""

    @staticmethod
    def _repeat(call: Callable[[float], None]) -> None:
        """While the broker is down, the same call has to be repeated."""
        while True:
            try:
                return call(CALL_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise


FEEDS: dict[str, type[Feed]] = {"plain": PlainFeed, "transactional": TransactionalFeed}
