"""Statements to Snowflake, one connection at a time, by key pair."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import (
    CatalogAway,
    CatalogRefused,
    ServerUnreachable,
    SettingsError,
)
from tableflow_assets.settings.snowflake import SnowflakeSettings

LOGIN_SECONDS = 10
TRIES = 2  # of one request; our callers retry as well
NOT_REACHED = 250001
NO_WAREHOUSE = 606
NO_RIGHT = 3001
EXISTS = 2002
ABSENT = (2003, 2043)  # Snowflake gives the same answer for what the role may not see
_LOGIN = range(390000, 391000)
_SERVERS_OWN = (603, 604, 630)  # internal error, canceled, timed out

Row = dict[str, Any]


class StatementRefused(CatalogRefused):
    """With Snowflake's own message and error code."""

    def __init__(self, code: int, problem: str, next_step: str = "") -> None:
        self.code = code
        super().__init__(problem, next_step)


class Session:
    """One connection. Statements are complete: it binds no parameters."""

    def __init__(self, name: str, connection: Any, cursor_class: Any) -> None:
        self._name = name
        self._connection = connection
        self._cursor_class = cursor_class

    def ask(self, statement: str) -> list[Row]:
        with (
            _translated_errors(self._name, "Snowflake"),
            closing(self._connection.cursor(self._cursor_class)) as cursor,
        ):
            cursor.execute(statement)
            return list(cursor.fetchall())

    def first(self, statement: str) -> Row | None:
        return next(iter(self.ask(statement)), None)


Connect = Callable[[str, SnowflakeSettings], AbstractContextManager[Session]]


@contextmanager
def connected(name: str, settings: SnowflakeSettings) -> Iterator[Session]:
    """A session that ends with the block. The key is read each time: it may have been rotated."""
    # Otherwise it queries the cloud's metadata service, and waits where there is none.
    os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
    connector = _connector()
    key = _private_key(name, settings)
    where = settings.endpoint or f"the account {settings.account}"
    with _translated_errors(name, f"Snowflake, {where},"):
        connection = connector.connect(**_options(settings, key))
    with closing(connection):
        yield Session(name, connection, connector.DictCursor)


def _options(settings: SnowflakeSettings, key: bytes) -> dict[str, Any]:
    options = {
        "account": settings.account,
        "user": settings.user,
        "authenticator": "SNOWFLAKE_JWT",
        "private_key": key,
        "role": settings.role,
        "warehouse": settings.warehouse,
        "login_timeout": LOGIN_SECONDS,
        "request_timeout": LOGIN_SECONDS,
        "query_timeout": settings.statement_seconds,
        "retry_max_attempts": TRIES,
        "enable_server_session_keep_alive_auto_detection": False,
        "session_parameters": {
            "QUERY_TAG": "tableflow",
            "STATEMENT_TIMEOUT_IN_SECONDS": settings.statement_seconds,
        },
    }
    if settings.endpoint is not None:
        address = urlsplit(settings.endpoint)
        options |= {"host": address.hostname, "protocol": address.scheme}
        options |= {"port": address.port or (443 if address.scheme == "https" else 80)}
    return {key: value for key, value in options.items() if value is not None}


def _private_key(name: str, settings: SnowflakeSettings) -> bytes:
    """In the connector's encoding. Decoded here so that the error can say what is wrong with it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        text = settings.private_key.resolve()
        phrase = settings.private_key_passphrase
        password = phrase.resolve().encode() if phrase else None
    except SettingsError as error:
        raise CatalogRefused(f"{name}: {error.problem}", error.next_step) from None
    except ServerUnreachable as error:
        raise CatalogAway(f"{name}: {error.problem}", error.next_step) from None
    try:
        key = serialization.load_pem_private_key(text.encode(), password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Not chained: libraries tend to quote what they could not read.
        raise CatalogRefused(
            f"{name}: the private key in {settings.private_key} cannot be read: it is not PKCS 8 in PEM,"
            " or its passphrase is missing, unneeded or wrong.",
            "Create one: openssl genrsa 2048 | openssl pkcs8 -topk8 -inform PEM -nocrypt; and set"
            " `private_key_passphrase` for an encrypted one, and only for that.",
        ) from None
    return key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _connector() -> Any:
    try:
        import snowflake.connector
    except ImportError:
        raise CatalogRefused(
            "Snowflake's connector is not installed.",
            "pip install 'tableflow-assets[snowflake]'",
        ) from None
    return snowflake.connector


@contextmanager
def _translated_errors(name: str, server: str) -> Iterator[None]:
    """The connector's errors as ours. Not chained: theirs contain the statement, with its secrets."""
    from snowflake.connector import errors

    try:
        yield
    except errors.Error as error:
        raise _translated(name, server, error, isinstance(error, errors.OperationalError)) from None


def _translated(
    name: str, server: str, error: Any, is_operational: bool
) -> CatalogAway | CatalogRefused:
    code = int(error.errno or 0)
    message = " ".join(str(error.raw_msg or error).split())
    if is_operational or code == NOT_REACHED or code in _SERVERS_OWN:
        return CatalogAway(
            f"{name}: {server} does not answer: {message}",
            "It will be retried automatically. If it persists: are `account` and `endpoint` right, and"
            " does the network let us through?",
        )
    if code in _LOGIN:
        secrets.forget()  # the next session reads the key again
        return StatementRefused(
            code,
            f"{name}: {server} does not let us in: {message} ({code})",
            "Give the user the public key that belongs to `private_key`: ALTER USER … SET"
            " RSA_PUBLIC_KEY = '…'; and check `user` and `role`.",
        )
    if code == NO_WAREHOUSE:
        return StatementRefused(
            code,
            f"{name}: {server} has no warehouse to work with: {message}",
            "Set `warehouse`, and grant the role USAGE on it.",
        )
    return StatementRefused(code, f"{name}: {server} says: {message} ({code})")
