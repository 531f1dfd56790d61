"""The ways into the secured broker, each with a user of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tableflow_assets.settings.security import KafkaSecurity
from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets_tests.source.certificate_authority import Authority
from tableflow_assets_tests.source.secure_broker import SecureBroker

PASSWORD = "p\"a\\s;s w'ord=€"


class Ways:
    """Each is access as a user would describe it, with its secrets in the environment."""

    def __init__(self, broker: SecureBroker, folder: Path, environment: pytest.MonkeyPatch) -> None:
        self._broker, self._folder, self._environment = broker, folder, environment
        self.ca_file = str(folder / "ca.pem")
        Path(self.ca_file).write_text(broker.authority.pem)

    def named(self, name: str) -> KafkaAccess:
        return cast(KafkaAccess, getattr(self, name.replace("-", "_"))())

    def scram(self, mechanism: str, password: str = PASSWORD) -> KafkaAccess:
        user = f"user-{mechanism}"
        self._broker.add_user(user, PASSWORD, mechanism.upper())
        return self.sasl("sasl", mechanism, user, password)

    def scram_sha_256(self) -> KafkaAccess:
        return self.scram("scram-sha-256")

    def scram_sha_512(self) -> KafkaAccess:
        return self.scram("scram-sha-512")

    def plain(self) -> KafkaAccess:
        return self.sasl("sasl", "plain", "plain-reader", self._broker.plain_users["plain-reader"])

    def plain_without_tls(self) -> KafkaAccess:
        word = self._broker.plain_users["plain-reader"]
        return self.sasl("bare", "plain", "plain-reader", word, protocol="sasl_plaintext")

    def oauthbearer(self, secret: str | None = None, endpoint: str = "") -> KafkaAccess:
        issuer = self._broker.issuer
        self._environment.setenv("CLIENT", "oauth-reader")
        self._environment.setenv("SECRET", secret or issuer.clients["oauth-reader"])
        oauth = {
            "token_endpoint": endpoint or issuer.endpoint,
            "client_id": {"env": "CLIENT"},
            "client_secret": {"env": "SECRET"},
            "scope": "kafka",
        }
        return self.at(
            "sasl", protocol="sasl_ssl", mechanism="oauthbearer", oauth=oauth, ca_file=self.ca_file
        )

    def mutual(self, authority: Authority | None = None) -> KafkaAccess:
        issued = (authority or self._broker.authority).issue("certified")
        self._environment.setenv("CHAIN", issued.chain)
        self._environment.setenv("KEY", issued.encrypted_key("of the key"))
        self._environment.setenv("KEY_PASSWORD", "of the key")
        certificate = {
            "client_certificate": {"env": "CHAIN"},
            "client_key": {"env": "KEY"},
            "client_key_password": {"env": "KEY_PASSWORD"},
        }
        return self.at("mutual", protocol="ssl", ca_file=self.ca_file, **certificate)

    def sasl(
        self, listener: str, mechanism: str, user: str, password: str, protocol: str = "sasl_ssl"
    ) -> KafkaAccess:
        self._environment.setenv("KAFKA_USER", user)
        self._environment.setenv("KAFKA_PASSWORD", password)
        tls = {"ca_file": self.ca_file} if protocol == "sasl_ssl" else {}
        return self.at(
            listener,
            protocol=protocol,
            mechanism=mechanism,
            username={"env": "KAFKA_USER"},
            password={"env": "KAFKA_PASSWORD"},
            **tls,
        )

    def at(self, listener: str, **security: Any) -> KafkaAccess:
        settings = KafkaSecurity.model_validate(security)
        return KafkaAccess(self._broker.address(listener), settings)


USERS = {
    "scram-sha-256": "user-scram-sha-256",
    "scram-sha-512": "user-scram-sha-512",
    "plain": "plain-reader",
    "plain-without-tls": "plain-reader",
    "oauthbearer": "oauth-reader",
    "mutual": "certified",
}
