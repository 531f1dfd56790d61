"""How to get at the schema registry. Holds references to secrets, and reads them at each use."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import AccessRefused, ServerUnreachable, SettingsError
from tableflow_assets.base.masking import remember_basic
from tableflow_assets.base.secrets import MakeClient
from tableflow_assets.settings.security import Registry as RegistrySettings
from tableflow_assets.source.certificates import authorities, client_certificate
from tableflow_assets.source.refusals import next_step, readable

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

BLOCK = "registry"
NAME = "The schema registry"
REFUSED = {
    HTTPStatus.UNAUTHORIZED: "401 Unauthorized",
    HTTPStatus.FORBIDDEN: "403 Forbidden",
}


@dataclass(frozen=True)
class RegistryAccess:
    url: str
    settings: RegistrySettings | None = None
    # How AWS Secrets Manager is reached, where not as the machine is.
    aws: MakeClient | None = field(default=None, repr=False, compare=False)

    def fingerprint(self) -> str:
        """Another one as soon as any secret or certificate is another."""
        return hashlib.sha256(repr((self._login(), self._pems())).encode()).hexdigest()

    def client(self, options: dict[str, Any]) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        with ExitStack() as cleanup:
            config = {"url": self.url, **self._login(), **options}
            for key, pem in self._pems().items():
                # It takes files only, and reads them while it is made.
                folder = cleanup.enter_context(tempfile.TemporaryDirectory())
                path = Path(folder) / "pem"
                path.touch(mode=0o600)
                path.write_text(pem)
                config[key] = str(path)
            return SchemaRegistryClient(config)

    def named(self, reason: str, status: int | None = None) -> ServerUnreachable:
        """The error for a question that was not answered, or refused by this HTTP status."""
        reason = readable(reason)
        if status in REFUSED:
            said = REFUSED[HTTPStatus(status)]
            step = next_step(said, BLOCK)
            secrets.forget()  # there may be newer ones, where they are kept
            if status == HTTPStatus.FORBIDDEN:
                step = f"Grant the user of `{BLOCK}` to read subjects and schemas."
            return AccessRefused(NAME, self.url, f"{said}: {reason}", step)
        if "SSL" in reason or "certificate" in reason:
            return AccessRefused(NAME, self.url, reason, next_step(reason, BLOCK))
        return ServerUnreachable(NAME, self.url, reason)

    def _login(self) -> dict[str, str]:
        given = self.settings
        if given is None:
            return {}
        if given.token:
            return {
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": _header_text(given.token.resolve(self.aws), "token"),
                # Required by the client, and meant for Confluent's cloud.
                "bearer.auth.logical.cluster": given.logical_cluster or "",
            }
        if given.username and given.password:
            user = given.username.resolve_name(self.aws)
            password = given.password.resolve(self.aws)
            if ":" in user:
                raise SettingsError(
                    f"The user name of `{BLOCK}.username` has a colon in it.",
                    "Basic authentication cannot have that: take another user, or a token.",
                )
            remember_basic(user, password)
            return {"basic.auth.user.info": f"{user}:{password}"}
        return {}

    def _pems(self) -> dict[str, str]:
        if self.settings is None:
            return {}
        pems = {}
        if trusted := authorities(self.settings, BLOCK, self.aws):
            pems["ssl.ca.location"] = trusted
        if ours := client_certificate(self.settings, BLOCK, self.aws):
            pems |= {"ssl.certificate.location": ours.chain, "ssl.key.location": ours.key}
        return pems


def _header_text(value: str, key: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise SettingsError(
            f"The secret of `{BLOCK}.{key}` has characters that no HTTP header can have.",
            "Often it is a line break at the very end: write it without.",
        )
    return value
