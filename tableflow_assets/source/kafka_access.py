"""How to connect to a Kafka cluster, for the clients in Python and in Spark's JVMs alike.

Holds references to secrets and reads them at each use, so that a new password needs no restart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.base.masking import remember_basic
from tableflow_assets.base.secrets import MakeClient
from tableflow_assets.settings.secret_ref import SecretRef
from tableflow_assets.settings.security import KafkaSecurity, OAuth
from tableflow_assets.source.certificates import authorities, client_certificate

BLOCK = "kafka.security"
_MODULES = "org.apache.kafka.common.security"
LOGIN_MODULES = {
    "plain": f"{_MODULES}.plain.PlainLoginModule",
    "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule",
    "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule",
    "oauthbearer": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
}
TOKEN_FETCHER = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True)
class KafkaAccess:
    bootstrap_servers: str
    security: KafkaSecurity | None = None
    # Makes clients of AWS Secrets Manager, unless the machine's own defaults will do.
    aws: MakeClient | None = field(default=None, repr=False, compare=False)

    def client_config(self) -> dict[str, str]:
        """For confluent-kafka. Contains secrets: pass it to a client and nowhere else."""
        config = {"bootstrap.servers": self.bootstrap_servers}
        if (security := self.security) is None:
            return config
        config["security.protocol"] = security.protocol
        if security.mechanism is not None:
            config["sasl.mechanism"] = security.mechanism.upper()
        if security.oauth:
            oauth = security.oauth
            config |= {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": oauth.token_endpoint,
                "sasl.oauthbearer.client.id": self._name(oauth.client_id, "oauth.client_id"),
                "sasl.oauthbearer.client.secret": self._client_secret(oauth),
                **({"sasl.oauthbearer.scope": oauth.scope} if oauth.scope else {}),
            }
        elif security.username and security.password:
            config["sasl.username"] = self._name(security.username, "username")
            config["sasl.password"] = self._secret(security.password, "password")
        if security.has_tls:
            config |= self._tls_config(security)
        return config

    def spark_options(self) -> dict[str, str]:
        """For a Kafka source in Spark, which passes them to Java's client. Contains secrets, too.

        Certificates are passed inline, because the machines of a cluster do not have our files.
        """
        config = {"bootstrap.servers": self.bootstrap_servers}
        if (security := self.security) is not None:
            config["security.protocol"] = security.protocol.upper()
            if security.mechanism is not None:
                config["sasl.mechanism"] = security.mechanism.upper()
                config["sasl.jaas.config"] = self._jaas(security)
            if security.oauth:
                config["sasl.login.callback.handler.class"] = TOKEN_FETCHER
                config["sasl.oauthbearer.token.endpoint.url"] = security.oauth.token_endpoint
            if security.has_tls:
                config |= self._java_tls_config(security)
        return {f"kafka.{key}": value for key, value in config.items()}

    def _tls_config(self, security: KafkaSecurity) -> dict[str, str]:
        check = "https" if security.check_hostname else "none"
        config = {"ssl.endpoint.identification.algorithm": check}
        if authority_pem := authorities(security, BLOCK, self.aws):
            config["ssl.ca.pem"] = authority_pem
        if certificate := client_certificate(security, BLOCK, self.aws):
            config |= {"ssl.certificate.pem": certificate.chain, "ssl.key.pem": certificate.key}
        return config

    def _java_tls_config(self, security: KafkaSecurity) -> dict[str, str]:
        check = "https" if security.check_hostname else ""
        config = {"ssl.endpoint.identification.algorithm": check}
        if authority_pem := authorities(security, BLOCK, self.aws):
            config |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority_pem}
        if certificate := client_certificate(security, BLOCK, self.aws):
            config |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": certificate.chain,
                "ssl.keystore.key": certificate.key,
            }
        return config

    def _jaas(self, security: KafkaSecurity) -> str:
        """The login, as a line in Java's JAAS language."""
        options: dict[str, str] = {}
        if oauth := security.oauth:
            options["clientId"] = self._name(oauth.client_id, "oauth.client_id")
            options["clientSecret"] = self._client_secret(oauth)
            options |= {"scope": oauth.scope} if oauth.scope else {}
        elif security.username and security.password:
            options["username"] = self._name(security.username, "username")
            options["password"] = self._secret(security.password, "password")
        module = LOGIN_MODULES[security.mechanism or ""]
        arguments = " ".join(f"{key}={_quoted(value)}" for key, value in options.items())
        return f"{module} required {arguments};"

    def _client_secret(self, oauth: OAuth) -> str:
        name = self._name(oauth.client_id, "oauth.client_id")
        secret = self._secret(oauth.client_secret, "oauth.client_secret")
        remember_basic(name, secret)  # the form in which it goes to the token endpoint
        return secret

    def _secret(self, reference: SecretRef, key: str) -> str:
        return _one_line(reference.resolve(self.aws), reference, key)

    def _name(self, reference: SecretRef, key: str) -> str:
        return _one_line(reference.resolve_name(self.aws), reference, key)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _one_line(value: str, reference: SecretRef, key: str) -> str:
    # JAAS has no escape for these: the end of a line ends a quoted value.
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise SettingsError(
            f"The value of {BLOCK}.{key} contains a line break or another control character.",
            f"Remove it from {reference}; often it is at the very end.",
        )
    return value
