"""Iceberg REST catalogs in tableflow.yaml, the owner of the tables and others: how to log in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from tableflow_assets.settings.block import Block, both_or_neither, refused
from tableflow_assets.settings.blocks import HttpUrl, Identifier, Line
from tableflow_assets.settings.secret_ref import SecretRef

# Only for the server that issues tokens.
FOR_TOKENS = ("oauth2_server_uri", "audience", "resource")


def _whole_path(path: str) -> str:
    if not path.startswith(("/", "~/")):
        raise refused("must be an absolute path: it is read from other folders, too")
    return path


WholePath = Annotated[Line, AfterValidator(_whole_path)]


class SigV4(Block):
    """Requests are signed as AWS requires; without keys, with the machine's own credentials."""

    name: Literal["glue", "s3tables", "execute-api"] = "glue"
    region: Line = "us-east-1"
    access_key: SecretRef | None = None
    secret_key: SecretRef | None = None

    @model_validator(mode="after")
    def _keys_come_in_pairs(self) -> Self:
        both_or_neither(self, "access_key", "secret_key")
        return self


class RestTls(Block):
    """The authority to trust, if not the machine's; and our certificate, for servers that ask for one."""

    ca_file: WholePath | None = None
    client_certificate_file: WholePath | None = None
    client_key_file: WholePath | None = None

    @model_validator(mode="after")
    def _certificate_has_a_key(self) -> Self:
        both_or_neither(self, "client_certificate_file", "client_key_file")
        return self


class RestAccess(Block):
    """At most one way to log in: an OAuth2 client, a token, or AWS's signatures."""

    uri: HttpUrl
    # The catalog's name for its warehouse: a name, an account, an ARN. None: the storage's location.
    warehouse: Line | None = None
    oauth2_server_uri: HttpUrl | None = None
    scope: Line = "catalog"
    audience: Line | None = None
    resource: Line | None = None
    client_id: SecretRef | None = None
    client_secret: SecretRef | None = None
    token: SecretRef | None = None
    sigv4: SigV4 | None = None
    tls: RestTls | None = None

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        both_or_neither(self, "client_id", "client_secret")
        if problems := list(self._problems()):
            raise refused("; ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        ways = [way for way in ("client_id", "token", "sigv4") if getattr(self, way) is not None]
        if len(ways) > 1:
            yield f"`{ways[0]}` and `{ways[1]}` are two ways to log in: keep one"
        for key in FOR_TOKENS:
            if getattr(self, key) is not None and self.client_id is None:
                yield f"`{key}` goes with `client_id` and `client_secret`"
        if self.tls is not None and not self.uri.startswith("https://"):
            yield "`tls` needs a `uri` that begins with https://"


class Catalog(RestAccess):
    """The Iceberg REST catalog that owns the tables."""


class OtherRestSettings(RestAccess):
    """Another Iceberg REST catalog: Polaris, Nessie, Lakekeeper, Glue's or Unity's own endpoint."""

    type: Literal["rest"]
    namespace: Identifier | None = None
