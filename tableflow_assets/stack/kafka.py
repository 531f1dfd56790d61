"""Apache Kafka: one node, KRaft, tiered storage on."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from tableflow_assets.base.errors import StackError
from tableflow_assets.jvm.jars import jars_of
from tableflow_assets.jvm.java import java_command
from tableflow_assets.stack.server import LOOK_SECONDS, Server


class KafkaServer(Server):
    name = "kafka"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.state.ports['kafka']}"

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "tiered").mkdir(exist_ok=True)
        self._properties_file.write_text(self._properties())
        (self.folder / "log4j2.properties").write_text(_LOG4J)
        self._format_storage()

    def command(self) -> list[str]:
        return [*self._java("-Xms128m", "-Xmx384m"), "kafka.Kafka", str(self._properties_file)]

    def check(self) -> None:
        self._describe_cluster(within=3)

    def look(self) -> None:
        self._describe_cluster(within=LOOK_SECONDS)

    def _describe_cluster(self, within: float) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        admin.describe_cluster(request_timeout=within).result(timeout=within + 2)

    @property
    def _properties_file(self) -> Path:
        return self.folder / "server.properties"

    def _java(self, *options: str) -> list[str]:
        classpath = ":".join(str(jar) for jar in jars_of("kafka"))
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        # A client compiler and the serial collector: starts faster, and one node needs no more.
        tuning = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return [*java_command(), *options, *tuning, logging, "-cp", classpath]

    def _format_storage(self) -> None:
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ("kafka.tools.StorageTool", "format", "--ignore-formatted", "--standalone")
        # One argument: an id in 64 begins with a dash, and would be taken for an option.
        id_option = f"--cluster-id={cluster_id}"
        command = [*self._java(), *tool, id_option, "-c", str(self._properties_file)]
        if (self.folder / "data" / "meta.properties").exists():
            return
        formatted = subprocess.run(command, capture_output=True, text=True, check=False)
        if formatted.returncode != 0:
            raise StackError(
                f"Kafka's storage folder could not be formatted: {formatted.stderr.strip()}",
                f"Look at {self.folder}; if it holds nothing of value, remove it and start again.",
            )

    def _properties(self) -> str:
        port, controller = self.state.ports["kafka"], self.state.ports["kafka_controller"]
        return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={self.folder / "data"}
num.partitions=3
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage
remote.log.metadata.manager.listener.name=PLAINTEXT
rlmm.config.remote.log.metadata.topic.replication.factor=1
rlmm.config.remote.log.metadata.topic.num.partitions=1
rsm.config.dir={self.folder / "tiered"}
"""


_LOG4J = """\
appender.console.type=Console
appender.console.name=stdout
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=stdout
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
"""
