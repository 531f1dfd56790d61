"""The values and blocks of tableflow.yaml: each type says what it accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from tableflow_assets.settings.block import Block, both_or_neither, refused
from tableflow_assets.settings.document import shown
from tableflow_assets.settings.layout_terms import (
    compaction,
    partition_term,
    sort_term,
    written_terms,
)
from tableflow_assets.settings.secret_ref import SecretRef
from tableflow_assets.settings.values import (
    age,
    age_text,
    cron,
    disk_bytes,
    file_bytes,
    gathered_bytes,
    span,
    span_text,
    usable_age,
)

# Exported from here as well, for the modules that define blocks.
__all__ = ["Block", "SecretRef", "both_or_neither"]


def _shaped(pattern: str, expected: str, *, quiet: bool = False) -> AfterValidator:
    """Text of one shape. `quiet`: the error does not repeat a value that may hold a password."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value):
            return value
        if quiet and set(value) & set("@?;="):
            raise refused(f"must be {expected} (the value is not repeated: it may hold a secret)")
        raise PydanticCustomError("mismatch", f"must be {expected}")

    return AfterValidator(check)


def _meaning(parse: Callable[[str], object]) -> AfterValidator:
    """Text that stays text, but must parse."""

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
        raise refused(str(error)) from None


def _age_of(value: object) -> object:
    """Text is parsed; an age inherited from the defaults is parsed already."""
    with _refusing():
        if isinstance(value, timedelta):
            return usable_age(value)
        if isinstance(value, str):
            return usable_age(age(value))
    raise refused(f"must be text such as 90 days; got {shown(value)}")


def _span_of(value: object) -> object:
    if isinstance(value, timedelta):  # inherited from the defaults
        return value
    if not isinstance(value, str):
        raise refused(f"must be text such as 15m; got {shown(value)}")
    with _refusing():
        return span(value)


def _not_nothing(value: timedelta) -> timedelta:
    if not value:
        raise refused("must be 1s or more")
    return value


def _not_empty(values: tuple[str, ...]) -> tuple[str, ...]:
    # Not `min_length`, which would complain a second time if the only item is invalid.
    if not values:
        raise refused("must have at least one item; leave the key out for the default")
    return values


def _not_twice(values: tuple[str, ...]) -> tuple[str, ...]:
    if twice := sorted({value for value in values if values.count(value) > 1}):
        raise refused(f"names {twice[0]!r} twice")
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
RoleArn = Annotated[
    str,
    _shaped(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+", "arn:aws:iam::<account>:role/<name>"),
]
KmsKey = Annotated[
    str, _shaped(r"arn:aws[\w-]*:kms:[\w-]+:\d{12}:(key|alias)/[\w/-]+", "the ARN of a KMS key")
]
ExternalId = Annotated[
    str, _shaped(r"[\w+=,.@:/-]{2,1224}", "2 to 1224 of: letters, digits, +=,.@:/-")
]
Folder = Annotated[
    str,
    _shaped(
        r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._=/-]*)?",
        "s3://bucket/prefix, of letters, digits and . _ = -",
    ),
]
SparkUrl = Annotated[str, _shaped(_SPARK, _SPARK_HELP, quiet=True)]
Mode = Literal["append", "upsert", "cdc", "cdc_history"]
Format = Literal["iceberg", "delta"]
TERMS = BeforeValidator(written_terms)
PartitionTerm = Annotated[str, _meaning(partition_term)]
SortTerm = Annotated[str, _meaning(sort_term)]
Compaction = Annotated[str, _meaning(compaction)]
FileSize = Annotated[str, _meaning(file_bytes)]
DiskSize = Annotated[str, _meaning(disk_bytes)]
Cron = Annotated[str, _meaning(cron)]
Age = Annotated[
    timedelta, BeforeValidator(_age_of), PlainSerializer(age_text, str, when_used="json")
]

Span = Annotated[
    timedelta, BeforeValidator(_span_of), PlainSerializer(span_text, str, when_used="json")
]
Promise = Annotated[Span, AfterValidator(_not_nothing)]
GatheredSize = Annotated[str, _meaning(gathered_bytes)]


class Commit(Block):
    """When a topic's unread records are committed: once the oldest has waited, or enough have gathered."""

    # None: follows from the topic's `freshness`; without one, at once.
    every: Span | None = None
    or_bytes: GatheredSize = "250MB"


class Encryption(Block):
    """How the store should encrypt every object that we write."""

    type: Literal["s3", "kms"]
    # None: the account's AWS-managed key for S3.
    kms_key: KmsKey | None = None

    @model_validator(mode="after")
    def _key_is_for_kms(self) -> Self:
        if self.type != "kms" and self.kms_key is not None:
            raise refused("`kms_key` goes with `type: kms`")
        return self


class Warehouse(Block):
    """Object storage. Without keys, the machine's own S3 credentials are used.

    With a role, they only serve to assume it.
    """

    location: S3Url
    endpoint: HttpUrl | None = None
    region: Line = "us-east-1"
    path_style: bool = False
    access_key: SecretRef | None = None
    secret_key: SecretRef | None = None
    role_arn: RoleArn | None = None
    external_id: ExternalId | None = None
    sse: Encryption | None = None

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        both_or_neither(self, "access_key", "secret_key")
        if self.external_id is not None and self.role_arn is None:
            raise refused("`external_id` goes with `role_arn`")
        return self


class Spark(Block):
    remote: SparkUrl
    catalog: Identifier = "lake"


class Dagster(Block):
    webserver_url: HttpUrl | None = None
    # How long, and how many, of the runs that our sensors and schedules have launched. None: for ever.
    keep_runs: Age | None = timedelta(days=7)
    max_runs: Annotated[int, Field(ge=10, le=1_000_000)] = 2000
