"""A real Kafka broker that asks who we are: SASL over TLS, client certificates, access lists.

Each listener is one situation: a good certificate, an expired one, one of another host.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tableflow_assets.jvm.jars import ensure_jars, jars_of
from tableflow_assets.jvm.java import java_command
from tableflow_assets_tests.source.certificate_authority import Authority, Issued
from tableflow_assets_tests.source.token_issuer import ISSUER, TokenIssuer

HOST = "127.0.0.1"
# Name of the listener → its protocol. `inside` is the tests' own way in, for preparations.
LISTENERS = {
    "inside": "PLAINTEXT",
    "controller": "PLAINTEXT",
    "sasl": "SASL_SSL",
    "bare": "SASL_PLAINTEXT",
    "mutual": "SSL",
    "expired": "SSL",
    "elsewhere": "SSL",
}
SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
START_SECONDS = 60
RIGHTS = ("READ", "DESCRIBE_CONFIGS")  # what docs/security.md says that we need


class SecureBroker:
    def __init__(self, folder: Path, issuer: TokenIssuer) -> None:
        self.folder = folder
        self.issuer = issuer
        self.authority = Authority("tests")
        self.plain_users = {"plain-reader": uuid.uuid4().hex, "nobody": uuid.uuid4().hex}
        self._ports = dict(zip(LISTENERS, _free_ports(len(LISTENERS)), strict=True))
        self._process: subprocess.Popen[bytes] | None = None

    def address(self, listener: str) -> str:
        return f"{HOST}:{self._ports[listener]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[SecureBroker]:
        ensure_jars()
        try:
            self._start()
            yield self
        finally:
            self._stop()

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address("inside"), "log_level": 0})

    def add_user(self, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        credentials = ScramCredentialInfo(SCRAM[mechanism], 4096)
        upsertion = UserScramCredentialUpsertion(name, credentials, password.encode())
        admin = self.admin
        admin.alter_user_scram_credentials([upsertion])[name].result(timeout=10)

    def make_topic(self, records: int = 0, partitions: int = 1) -> str:
        name = f"secured-{uuid.uuid4().hex[:8]}"
        admin = self.admin
        admin.create_topics([NewTopic(name, partitions)])[name].result(timeout=10)
        producer = Producer({"bootstrap.servers": self.address("inside"), "log_level": 0})
        for number in range(records):
            producer.produce(name, value=f"record {number}", key=str(number))
        assert producer.flush(10) == 0
        return name

    def allow(self, user: str, topic: str, rights: tuple[str, ...] = RIGHTS) -> None:
        bindings = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                AclOperation[right],
                AclPermissionType.ALLOW,
            )
            for right in rights
        ]
        admin = self.admin
        for future in admin.create_acls(bindings).values():
            future.result(timeout=10)

    def _start(self) -> None:
        self._prepare()
        log = (self.folder / "broker.log").open("wb")
        command = [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")]
        self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                admin = self.admin
                admin.describe_cluster(request_timeout=2).result(timeout=3)
                return
            except (KafkaException, TimeoutError):
                output = (self.folder / "broker.log").read_text()
                assert self._process.poll() is None, output[-3000:]
                assert time.monotonic() < deadline, output[-3000:]

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _prepare(self) -> None:
        self._write_store("good", self.authority.issue("broker", (HOST, "localhost")))
        self._write_store("expired", self.authority.issue("broker", (HOST,), days=-1))
        self._write_store("elsewhere", self.authority.issue("broker", ("elsewhere.example",)))
        (self.folder / "ca.pem").write_text(self.authority.pem)
        (self.folder / "jwks.json").write_text(self.issuer.public_keys)
        (self.folder / "log4j2.properties").write_text(_LOG4J)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._properties().items()))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ("kafka.tools.StorageTool", "format", "--standalone", f"--cluster-id={cluster}")
        command = [*self._java(), *tool, "-c", str(properties)]
        subprocess.run(command, check=True, capture_output=True)

    def _write_store(self, name: str, issued: Issued) -> None:
        (self.folder / f"{name}.pem").write_text(issued.key + issued.chain)

    def _java(self) -> list[str]:
        return [
            *java_command(),
            *("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._public_keys}",
            *("-cp", ":".join(str(jar) for jar in jars_of("kafka"))),
        ]

    @property
    def _public_keys(self) -> str:
        return (self.folder / "jwks.json").as_uri()

    def _properties(self) -> dict[str, object]:
        listeners = ",".join(f"{n.upper()}://{self.address(n)}" for n in LISTENERS)
        advertised = ",".join(
            f"{n.upper()}://{self.address(n)}" for n in LISTENERS if n != "controller"
        )
        users = " ".join(f'user_{name}="{word}"' for name, word in self.plain_users.items())
        modules = "org.apache.kafka.common.security"
        sasl = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {users};",
            "scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            "scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            "oauthbearer.sasl.jaas.config": f"{modules}.oauthbearer.OAuthBearerLoginModule required;",
            "oauthbearer.sasl.server.callback.handler.class": (
                f"{modules}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        }
        stores = {"sasl": "good", "mutual": "good", "expired": "expired", "elsewhere": "elsewhere"}
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": self.address("controller"),
            "listeners": listeners,
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(
                f"{name.upper()}:{protocol}" for name, protocol in LISTENERS.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "INSIDE",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # who comes by the listener inside
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.folder / "ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "sasl.oauthbearer.jwks.endpoint.url": self._public_keys,
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "listener.name.mutual.ssl.client.auth": "required",
            **{
                f"listener.name.{name}.ssl.keystore.location": self.folder / f"{store}.pem"
                for name, store in stores.items()
            },
            **{
                f"listener.name.{name}.{key}": value
                for name in ("sasl", "bare")
                for key, value in sasl.items()
            },
        }


def _free_ports(count: int) -> list[int]:
    """Below those that outgoing connections get; all held until all are chosen."""
    sockets: list[socket.socket] = []
    try:
        for port in random.sample(range(20_000, 32_000), 1000):
            with contextlib.suppress(OSError):
                sockets.append(socket.create_server((HOST, port)))
            if len(sockets) == count:
                break
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


_LOG4J = """\
appender.console.type=Console
appender.console.name=stdout
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=stdout
"""
