"""How to connect to the schema registry. Holds references to secrets and reads them at each use."""

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
    # Makes clients of AWS Secrets Manager, unless the machine's own defaults will do.
    aws: MakeClient | None = field(default=None, repr=False, compare=False)

    def fingerprint(self) -> str:
        """Changes as soon as any secret or certificate does."""
        return hashlib.sha256(repr((self._login(), self._pems())).encode()).hexdigest()

    def client(self, options: dict[str, Any]) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        with ExitStack() as cleanup:
            config = {"url": self.url, **self._login(), **options}
            for key, pem in self._pems().items():
                # The client takes only files, and reads them in its constructor.
                folder = cleanup.enter_context(tempfile.TemporaryDirectory())
                path = Path(folder) / "pem"
                path.touch(mode=0o600)
                path.write_text(pem)
                config[key] = str(path)
            return SchemaRegistryClient(config)

    def error(self, reason: str, status: int | None = None) -> ServerUnreachable:
        """The error for a question that got no answer, or was refused with this HTTP status."""
        reason = readable(reason)
        if status in REFUSED:
            status_text = REFUSED[HTTPStatus(status)]
            step = next_step(status_text, BLOCK)
            secrets.forget()  # the store may have newer ones by now
            if status == HTTPStatus.FORBIDDEN:
                step = f"Grant the user of `{BLOCK}` the right to read subjects and schemas."
            return AccessRefused(NAME, self.url, f"{status_text}: {reason}", step)
        if "SSL" in reason or "certificate" in reason:
            return AccessRefused(NAME, self.url, reason, next_step(reason, BLOCK))
        return ServerUnreachable(NAME, self.url, reason)

    def _login(self) -> dict[str, str]:
        settings = self.settings
        if settings is None:
            return {}
        if settings.token:
            return {
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": _header_text(settings.token.resolve(self.aws), "token"),
                # The client requires it, though only Confluent's cloud has one.
                "bearer.auth.logical.cluster": settings.logical_cluster or "",
            }
        if settings.username and settings.password:
            user = settings.username.resolve_name(self.aws)
            password = settings.password.resolve(self.aws)
            if ":" in user:
                raise SettingsError(
                    f"The user name of `{BLOCK}.username` contains a colon.",
                    "Basic authentication does not allow that: use another user, or a token.",
                )
            remember_basic(user, password)
            return {"basic.auth.user.info": f"{user}:{password}"}
        return {}

    def _pems(self) -> dict[str, str]:
        if self.settings is None:
            return {}
        pems = {}
        if authority_pem := authorities(self.settings, BLOCK, self.aws):
            pems["ssl.ca.location"] = authority_pem
        if certificate := client_certificate(self.settings, BLOCK, self.aws):
            pems |= {
                "ssl.certificate.location": certificate.chain,
                "ssl.key.location": certificate.key,
            }
        return pems


def _header_text(value: str, key: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise SettingsError(
            f"The secret of `{BLOCK}.{key}` contains characters that an HTTP header cannot have.",
            "Often it is a line break at the very end: remove it.",
        )
    return value
