"""Kafka's Java client, of the very jars that Spark has: what Spark's options mean to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tableflow_assets.jvm.jars import ensure_jars, jars_of, spark_folder
from tableflow_assets.jvm.java import java_command

SECURITY = "org.apache.kafka.common.security"


class JavaClient:
    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def login(self, options: Mapping[str, str]) -> dict[str, str]:
        """What Java makes of the JAAS line: the only module's name, and its options."""
        password = self._jvm.org.apache.kafka.common.config.types.Password
        configs = self._jvm.java.util.HashMap()
        configs.put("sasl.jaas.config", password(options["kafka.sasl.jaas.config"]))
        context = self._jvm.org.apache.kafka.common.security.JaasContext
        (entry,) = context.loadClientContext(configs).configurationEntries()
        return {"module": entry.getLoginModuleName(), **dict(entry.getOptions())}

    def topic_names(self, options: Mapping[str, str]) -> set[str]:
        configs = self._jvm.java.util.HashMap()
        for key, value in options.items():
            configs.put(key.removeprefix("kafka."), value)
        configs.put("default.api.timeout.ms", "10000")
        configs.put("request.timeout.ms", "5000")
        admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(configs)
        try:
            return set(admin.listTopics().names().get())
        finally:
            admin.close()


@contextlib.contextmanager
def java_client() -> Iterator[JavaClient]:
    ensure_jars()
    jars = [*spark_folder().glob("*.jar"), *jars_of("spark")]
    port, token = launch_gateway(
        classpath=":".join(str(jar) for jar in jars),
        java_path=java_command()[0],
        javaopts=["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        enable_auth=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        yield JavaClient(gateway.jvm)
    finally:
        gateway.shutdown()
