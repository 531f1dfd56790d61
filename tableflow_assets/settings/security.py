"""The blocks `kafka` and `registry` of tableflow.yaml: their addresses, and how to log in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import model_validator

from tableflow_assets.settings.block import Block, both_or_neither, refused
from tableflow_assets.settings.blocks import HttpUrl, Line, Servers
from tableflow_assets.settings.rest import WholePath
from tableflow_assets.settings.secret_ref import SecretRef

Protocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Mechanism = Literal["plain", "scram-sha-256", "scram-sha-512", "oauthbearer"]
# The keys for TLS; each part is a file, or a secret that holds the PEM text.
AUTHORITY = ("ca_file", "ca")
CERTIFICATE = ("client_certificate_file", "client_certificate")
KEY = ("client_key_file", "client_key")
TLS_KEYS = (*AUTHORITY, *CERTIFICATE, *KEY, "client_key_password")


class Tls(Block):
    """The authority to trust (by default the machine's), and our own certificate."""

    ca_file: WholePath | None = None
    ca: SecretRef | None = None
    client_certificate_file: WholePath | None = None
    client_certificate: SecretRef | None = None
    client_key_file: WholePath | None = None
    client_key: SecretRef | None = None
    client_key_password: SecretRef | None = None

    def _set_keys(self, *keys: str) -> list[str]:
        return [key for key in keys if getattr(self, key) is not None]

    def _tls_problems(self) -> Iterator[str]:
        for pair in (AUTHORITY, CERTIFICATE, KEY):
            if len(self._set_keys(*pair)) > 1:
                yield f"`{pair[0]}` and `{pair[1]}` are two ways to say the same: keep one"
        if bool(self._set_keys(*CERTIFICATE)) != bool(self._set_keys(*KEY)):
            yield "a client certificate needs its key, and a key its certificate: give both"
        if self.client_key_password and not self._set_keys(*KEY):
            yield "`client_key_password` is that of a key: give `client_key_file` or `client_key`"


class OAuth(Block):
    """Where a client with a secret gets its tokens."""

    token_endpoint: HttpUrl
    client_id: SecretRef
    client_secret: SecretRef
    scope: Line | None = None


class KafkaSecurity(Tls):
    protocol: Protocol
    mechanism: Mechanism | None = None
    username: SecretRef | None = None
    password: SecretRef | None = None
    oauth: OAuth | None = None
    # Whether the broker's certificate has to be that of the host that we asked for.
    check_hostname: bool = True

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("ssl")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("sasl")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _refuse([*self._sasl_problems(), *self._tls_problems()])
        return self

    def _sasl_problems(self) -> Iterator[str]:
        if not self.has_sasl:
            for key in self._set_keys("mechanism", "username", "password", "oauth"):
                yield f"`{key}` is for SASL, and `protocol: {self.protocol}` has none"
        elif self.mechanism is None:
            yield f"`protocol: {self.protocol}` needs a `mechanism`, such as scram-sha-512"
        elif self.mechanism == "oauthbearer":
            if self.oauth is None:
                yield "`mechanism: oauthbearer` needs `oauth`: where to get a token"
            for key in self._set_keys("username", "password"):
                yield f"`{key}` is not for `mechanism: oauthbearer`, which has `oauth`"
        else:
            if len(self._set_keys("username", "password")) < 2:  # noqa: PLR2004  (both)
                yield f"`mechanism: {self.mechanism}` needs `username` and `password`"
            if self.oauth:
                yield f"`oauth` is for `mechanism: oauthbearer`, not for {self.mechanism}"

    def _tls_problems(self) -> Iterator[str]:
        if self.has_tls:
            yield from super()._tls_problems()
            return
        for key in self._set_keys(*TLS_KEYS):
            yield f"`{key}` is for TLS, and `protocol: {self.protocol}` has none"
        if not self.check_hostname:
            yield f"`check_hostname` is for TLS, and `protocol: {self.protocol}` has none"


class Kafka(Block):
    bootstrap_servers: Servers
    security: KafkaSecurity | None = None


class Registry(Tls):
    """A token, or a user and a password, or a client certificate; or nothing of all this."""

    url: HttpUrl
    username: SecretRef | None = None
    password: SecretRef | None = None
    token: SecretRef | None = None
    # For Confluent Cloud, where a token does not say which registry is meant.
    logical_cluster: Line | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        both_or_neither(self, "username", "password")
        _refuse([*self._access_problems(), *self._tls_problems()])
        return self

    def _access_problems(self) -> Iterator[str]:
        if self.token and self.username:
            yield "`token` and `username` are two ways to say who we are: keep one"
        if self.logical_cluster and not self.token:
            yield "`logical_cluster` goes with a `token`"
        if self.url.startswith("http://"):
            for key in self._set_keys(*TLS_KEYS):
                yield f"`{key}` is for TLS: the `url` must begin with https://"


def _refuse(problems: list[str]) -> None:
    if problems:
        raise refused("; ".join(problems))
