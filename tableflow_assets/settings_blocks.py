"""The values and blocks of tableflow.yaml: each says for itself what it accepts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Literal, Self

import pydantic
from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from tableflow_assets.errors import SettingsError
from tableflow_assets.settings_file import shown
from tableflow_assets.settings_terms import (
    compaction,
    partition_term,
    sort_term,
    written_terms,
)
from tableflow_assets.settings_values import age, age_text, cron, file_bytes, usable_age


def _refused(why: str) -> PydanticCustomError:
    return PydanticCustomError("refused", why)


def _shaped(pattern: str, expected: str, *, quiet: bool = False) -> AfterValidator:
    """Text of one shape. `quiet`: the error does not repeat a value that may hold a password."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value):
            return value
        if quiet and set(value) & set("@?;="):
            raise _refused(f"must be {expected} (the value is not repeated: it may hold a secret)")
        raise PydanticCustomError("mismatch", f"must be {expected}")

    return AfterValidator(check)


def _meaning(parse: Callable[[str], object]) -> AfterValidator:
    """Text that stays text, and that somebody else will take apart."""

    def check(value: str) -> str:
        with _refusing():
            parse(value)
        return value

    return AfterValidator(check)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise _refused(str(error)) from None


def _age_of(value: object) -> object:
    """Text becomes an age; an age that was inherited stays one."""
    with _refusing():
        if isinstance(value, timedelta):
            return usable_age(value)
        if isinstance(value, str):
            return usable_age(age(value))
    raise _refused(f"must be text such as 90 days; got {shown(value)}")


def _not_empty(values: tuple[str, ...]) -> tuple[str, ...]:
    # Not `min_length`: that would also complain when the only item is wrong, a second time.
    if not values:
        raise _refused("must have at least one item; leave the key out for the default")
    return values


def _not_twice(values: tuple[str, ...]) -> tuple[str, ...]:
    if twice := sorted({value for value in values if values.count(value) > 1}):
        raise _refused(f"names {twice[0]!r} twice")
    return values


NOT_EMPTY = AfterValidator(_not_empty)
NOT_TWICE = AfterValidator(_not_twice)
_SERVER = r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):\d{1,5}"
_HTTP = r"https?://[^\s/@?#]+(/[^\s@?#]*)?"
_SPARK = r"sc://[^\s/;@]+(/(;(use_ssl|user_id|user_agent)=[^\s;]*)*)?"
_SPARK_HELP = "sc://host:15002 (a token goes into SPARK_CONNECT_AUTHENTICATE_TOKEN)"
_EMAIL = r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}"

Line = Annotated[str, _shaped(r"[^\x00-\x20\x7f][^\x00-\x1f\x7f]*", "one line of text")]
Word = Annotated[str, _shaped(r"[A-Za-z0-9_]+", "letters, digits and underscores")]
Identifier = Annotated[str, _shaped(r"[A-Za-z][A-Za-z0-9_]*", "a letter, then letters, digits, _")]
Namespace = Annotated[str, _shaped(r"[a-z0-9][a-z0-9_]{0,254}", "lower-case letters, digits, _")]
Owner = Annotated[str, _shaped(rf"team:.+|{_EMAIL}", "team:name or an email address")]
HttpUrl = Annotated[str, _shaped(_HTTP, "http(s)://host, no password, no query", quiet=True)]
Servers = Annotated[str, _shaped(rf"{_SERVER}(,{_SERVER})*", "host:port,host:port", quiet=True)]
S3Url = Annotated[str, _shaped(r"s3://[a-z0-9.-]+(/[^\s@?#]*)?", "s3://bucket/path", quiet=True)]
SparkUrl = Annotated[str, _shaped(_SPARK, _SPARK_HELP, quiet=True)]
Mode = Literal["append", "upsert", "cdc", "cdc_history"]
Format = Literal["iceberg", "delta"]
TERMS = BeforeValidator(written_terms)
PartitionTerm = Annotated[str, _meaning(partition_term)]
SortTerm = Annotated[str, _meaning(sort_term)]
Compaction = Annotated[str, _meaning(compaction)]
FileSize = Annotated[str, _meaning(file_bytes)]
Cron = Annotated[str, _meaning(cron)]
Age = Annotated[
    timedelta, BeforeValidator(_age_of), PlainSerializer(age_text, str, when_used="json")
]


class Block(pydantic.BaseModel):
    """Strict: "5" is no integer. Only lists are converted: to tuples, so that they are frozen."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True
    )


def both_or_neither(block: Block, first: str, second: str) -> None:
    """For a block's validator."""
    if (getattr(block, first) is None) != (getattr(block, second) is None):
        raise _refused(f"needs both {first} and {second}, or neither")


class SecretRef(Block):
    """The name of an environment variable. The secret itself is read when used, and never kept."""

    env: str

    @model_validator(mode="before")
    @classmethod
    def _is_reference(cls, value: object) -> object:
        if isinstance(value, dict | SecretRef):
            return value
        raise _refused(
            "a secret must not stand in this file: put it into an environment variable "
            "and write {env: NAME_OF_THE_VARIABLE}"
        )

    @field_validator("env", mode="before")
    @classmethod
    def _is_variable(cls, value: object) -> object:
        if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            return value
        raise _refused("must be the name of an environment variable, not the secret itself")

    def resolve(self) -> str:
        value = os.environ.get(self.env)
        if value:
            return value
        raise SettingsError(
            f"The environment variable {self.env} is not set, or empty.",
            f"Set it where tableflow runs, for example: export {self.env}=...",
        )

    @pydantic.model_serializer
    def show(self) -> str:
        return f"{self} ({'set' if os.environ.get(self.env) else 'not set'})"

    def __str__(self) -> str:
        return f"env:{self.env}"

    def __repr__(self) -> str:
        return f"SecretRef({self})"


class Kafka(Block):
    bootstrap_servers: Servers


class Registry(Block):
    url: HttpUrl


class Warehouse(Block):
    """Object storage. Without keys, the machine's own S3 credentials are used."""

    location: S3Url
    endpoint: HttpUrl | None = None
    region: Line = "us-east-1"
    path_style: bool = False
    access_key: SecretRef | None = None
    secret_key: SecretRef | None = None

    @model_validator(mode="after")
    def _keys_come_in_pairs(self) -> Self:
        both_or_neither(self, "access_key", "secret_key")
        return self


class Catalog(Block):
    """An Iceberg REST catalog. Without a client, it is asked without authentication."""

    uri: HttpUrl
    oauth2_server_uri: HttpUrl | None = None
    scope: Line = "catalog"
    client_id: SecretRef | None = None
    client_secret: SecretRef | None = None

    @model_validator(mode="after")
    def _credentials_come_in_pairs(self) -> Self:
        both_or_neither(self, "client_id", "client_secret")
        return self


class Spark(Block):
    remote: SparkUrl
    catalog: Identifier = "lake"


class Dagster(Block):
    webserver_url: HttpUrl | None = None
