"""Which statements the Snowflake stub takes for real ones.

What sqlglot knows of Snowflake's dialect is parsed by it, and an opaque `Command` does not count. Where it
has no node, Snowflake's own client decides: `snowflake.core` has models of external volumes and catalog
integrations. What that has no model of either is held against the options in Snowflake's documentation.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import sqlglot
from pydantic import BaseModel
from snowflake.core.catalog_integration import CatalogIntegration, Glue, OAuth, ObjectStore
from snowflake.core.external_volume import ExternalVolume, StorageLocationS3
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

# sqlglot says by itself what it falls back on; here that is an error, or a statement of our own below.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

S3_COMPATIBLE = {"NAME", "STORAGE_PROVIDER", "STORAGE_BASE_URL", "STORAGE_ENDPOINT", "CREDENTIALS"}
REST_CONFIG = {
    "CATALOG_URI",
    "PREFIX",
    "CATALOG_NAME",
    "CATALOG_API_TYPE",
    "ACCESS_DELEGATION_MODE",
}
REST_AUTHENTICATION = {
    "OAUTH": {"OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_ALLOWED_SCOPES", "OAUTH_TOKEN_URI"},
    "BEARER": {"BEARER_TOKEN"},
    "SIGV4": {"SIGV4_IAM_ROLE", "SIGV4_SIGNING_REGION", "SIGV4_EXTERNAL_ID"},
}
GRANTED_ON = ("EXTERNAL VOLUME", "INTEGRATION", "ICEBERG TABLE")
Options = dict[str, Any]


class NoStatement(Exception):
    """Not something that Snowflake would run."""


@dataclass(frozen=True)
class Refresh:
    table: tuple[str, ...]
    path: str | None


@dataclass(frozen=True)
class MakeVolume:
    name: str
    locations: list[Options]


@dataclass(frozen=True)
class MakeIntegration:
    name: str
    source: str


@dataclass(frozen=True)
class GrantOn:
    kind: str


def parsed(statement: str) -> Any:
    """One of the above, or sqlglot's node."""
    for words, read in _READERS.items():
        reader = _Reader(sqlglot.tokenize(statement, read="snowflake"))
        if reader.has(words) and (statement_node := read(reader)) is not None:
            reader.end()
            return statement_node
    if "OR REPLACE" in statement.upper().partition("(")[0].partition("'")[0]:
        raise NoStatement("OR REPLACE could take away what is not ours")
    try:
        statements = sqlglot.parse(statement, read="snowflake")
    except SqlglotError as error:
        raise NoStatement(str(error)) from error
    if len(statements) != 1 or isinstance(statements[0], exp.Command | None):
        raise NoStatement(f"not one statement that sqlglot knows: {statement}")
    return statements[0]


class _Reader:
    """Of what sqlglot has no node for."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def has(self, words: str) -> bool:
        count = len(words.split())
        ahead = self._tokens[self._at : self._at + count]
        if " ".join(token.text.upper() for token in ahead) != words:
            return False
        self._at += count
        return True

    @property
    def is_done(self) -> bool:
        return self._at == len(self._tokens)

    def take(self, *kinds: TokenType) -> str:
        token = self._tokens[self._at] if not self.is_done else None
        if token is None or (kinds and token.token_type not in kinds):
            raise NoStatement(f"expected {kinds}, got {token}")
        self._at += 1
        return token.text

    def peek(self) -> TokenType | None:
        return None if self.is_done else self._tokens[self._at].token_type

    def name(self) -> tuple[str, ...]:
        """All of it quoted: an unquoted part is one that we forgot."""
        parts = [self.take(TokenType.IDENTIFIER)]
        while self.peek() == TokenType.DOT:
            self.take(TokenType.DOT)
            parts.append(self.take(TokenType.IDENTIFIER))
        return tuple(parts)

    def options(self) -> Options:
        options: Options = {}
        while self.peek() not in (None, TokenType.R_PAREN):
            key = self.take()
            self.take(TokenType.EQ)
            if key in options:
                raise NoStatement(f"{key} twice")
            options[key] = self._value()
        return options

    def _value(self) -> Any:
        if self.peek() != TokenType.L_PAREN:
            return self.take()
        self.take(TokenType.L_PAREN)
        if self.peek() not in (TokenType.STRING, TokenType.L_PAREN):
            value: Any = self.options()
        else:
            value = [self._value()]
            while self.peek() == TokenType.COMMA:
                self.take(TokenType.COMMA)
                value.append(self._value())
        self.take(TokenType.R_PAREN)
        return value

    def end(self) -> None:
        if not self.is_done:
            raise NoStatement(f"more than one statement: {self._tokens[self._at :]}")


def _refresh(reader: _Reader) -> Refresh | None:
    table = reader.name()
    if not reader.has("REFRESH"):
        return None  # what else there is to alter, sqlglot knows
    return Refresh(table, None if reader.is_done else reader.take(TokenType.STRING))


def _volume(reader: _Reader) -> MakeVolume:
    if not reader.has("IF NOT EXISTS"):
        raise NoStatement("a volume that is there would be an error")
    (name,) = reader.name()
    options = reader.options()
    locations = options.pop("STORAGE_LOCATIONS")
    models = [_location(dict(location)) for location in locations]
    allowed = _truth(options.pop("ALLOW_WRITES"))
    _nothing_else(options)
    if all(models):
        ExternalVolume(name=_quoted(name), storage_locations=models, allow_writes=allowed)
    return MakeVolume(name, locations)


def _location(options: Options) -> StorageLocationS3 | None:
    if options["STORAGE_PROVIDER"] == "S3COMPAT":
        _nothing_else({key: value for key, value in options.items() if key not in S3_COMPATIBLE})
        if set(options["CREDENTIALS"]) != {"AWS_KEY_ID", "AWS_SECRET_KEY"}:
            raise NoStatement(
                f"other credentials than a store takes: {set(options['CREDENTIALS'])}"
            )
        if not options["STORAGE_BASE_URL"].startswith("s3compat://"):
            raise NoStatement(options["STORAGE_BASE_URL"])
        return None
    if options.pop("STORAGE_PROVIDER") != "S3":
        raise NoStatement("no such provider here")
    return _model(StorageLocationS3, options)


def _integration(reader: _Reader) -> MakeIntegration:
    if not reader.has("IF NOT EXISTS"):
        raise NoStatement("an integration that is there would be an error")
    (name,) = reader.name()
    options = reader.options()
    source, table_format = options.pop("CATALOG_SOURCE"), options.pop("TABLE_FORMAT")
    enabled = _truth(options.pop("ENABLED"))
    catalog: Any = ObjectStore()
    if source == "GLUE":
        catalog = _model(Glue, options)
    elif source == "ICEBERG_REST":
        _rest(options)
    elif source == "OBJECT_STORE":
        _nothing_else(options)
    else:
        raise NoStatement(f"no such source: {source}")
    CatalogIntegration(
        name=_quoted(name), catalog=catalog, table_format=table_format, enabled=enabled
    )
    return MakeIntegration(name, source)


def _rest(options: Options) -> None:
    config, how = options.pop("REST_CONFIG"), options.pop("REST_AUTHENTICATION")
    options.pop("CATALOG_NAMESPACE", None)
    _nothing_else(options)
    _nothing_else({key: value for key, value in config.items() if key not in REST_CONFIG})
    if "CATALOG_URI" not in config:
        raise NoStatement("no address")
    kind = how.pop("TYPE")
    _nothing_else(
        {key: value for key, value in how.items() if key not in REST_AUTHENTICATION[kind]}
    )
    if kind == "OAUTH":
        how.pop("OAUTH_TOKEN_URI", None)
        _model(OAuth, how)


def _grant(reader: _Reader) -> GrantOn | None:
    kind = next((kind for kind in GRANTED_ON if reader.has(kind)), None)
    if kind is None:
        return None  # sqlglot knows the others: on databases, schemas and warehouses
    reader.name()
    if not reader.has("TO ROLE"):
        raise NoStatement("a grant to whom?")
    reader.name()
    return GrantOn(kind)


def _model(model: type[BaseModel], options: Options) -> Any:
    """Of Snowflake's own client; it would leave out silently what it does not know."""
    fields = {key.lower(): value for key, value in options.items()}
    if unknown := set(fields) - set(model.model_fields):
        raise NoStatement(f"{model.__name__} has no {unknown}")
    return model(**fields)


def _nothing_else(options: Options) -> None:
    if options:
        raise NoStatement(f"options that Snowflake does not have there: {sorted(options)}")


def _truth(word: str) -> bool:
    return {"TRUE": True, "FALSE": False}[word.upper()]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_READERS = {
    "ALTER ICEBERG TABLE": _refresh,
    "CREATE EXTERNAL VOLUME": _volume,
    "CREATE CATALOG INTEGRATION": _integration,
    "GRANT USAGE ON": _grant,
    "GRANT OWNERSHIP ON": _grant,
}
