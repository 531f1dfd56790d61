"""IAM policies: the rights on Glue and S3 that publishing and reading need, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Policy = dict[str, Any]
Statement = dict[str, Any]
VERSION = "2012-10-17"  # of the policy language; older versions have no variables

# Exactly the calls `glue.py` makes. It never changes or deletes a database.
_WRITE_GLUE = (
    "CreateDatabase",
    "CreateTable",
    "DeleteTable",
    "GetDatabase",
    "GetTable",
    "UpdateTable",
)
_READ_GLUE = ("GetDatabase", "GetDatabases", "GetTable", "GetTables")
_WRITE_S3 = (
    "AbortMultipartUpload",
    "DeleteObject",  # maintenance: expired and orphaned files
    "GetObject",
    "ListMultipartUploadParts",
    "PutObject",
)


@dataclass(frozen=True)
class Scope:
    """What a policy covers: one Glue database, and the locations of its tables' files."""

    region: str
    account: str
    database: str
    locations: tuple[str, ...]  # s3://bucket/prefix
    kms_key: str | None = None  # ARN of the key (or alias) that encrypts the files

    @property
    def partition(self) -> str:
        return partition_of(self.region)


def writer_policy(scope: Scope) -> Policy:
    """For tableflow and its Spark: publish to the database, write and clean up the tables' files."""
    return _policy(
        _glue("PublishTables", _WRITE_GLUE, scope),
        *_buckets(scope, ("ListBucketMultipartUploads",)),
        _files("WriteFiles", _WRITE_S3, scope),
        *_key(scope, ("Decrypt", "GenerateDataKey")),
    )


def reader_policy(scope: Scope) -> Policy:
    """For Athena and other engines: read the catalog's entries and the files, change nothing."""
    return _policy(
        _glue("SeeTables", _READ_GLUE, scope),
        # Athena reads it before every query, whichever database the query uses.
        _allow(
            "SeeDefault", ["glue:GetDatabase"], _glue_arns(scope, "catalog", "database/default")
        ),
        *_buckets(scope, ()),
        _files("ReadFiles", ("GetObject",), scope),
        *_key(scope, ("Decrypt",)),
    )


def caller_policy(role_arn: str) -> Policy:
    """For the identity that assumes the writer's role."""
    return _policy(_allow("BecomeWriter", ["sts:AssumeRole"], [role_arn]))


def trust_policy(principal: str, external_id: str | None) -> Policy:
    """For the role: who may assume it."""
    statement: Statement = {
        "Effect": "Allow",
        "Principal": {"AWS": principal},
        "Action": "sts:AssumeRole",
    }
    if external_id is not None:
        statement["Condition"] = {"StringEquals": {"sts:ExternalId": external_id}}
    return _policy(statement)


def partition_of(region: str) -> str:
    """The AWS partition a region belongs to: the second part of its ARNs."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def _glue(sid: str, actions: Iterable[str], scope: Scope) -> Statement:
    name = scope.database
    arns = _glue_arns(scope, "catalog", f"database/{name}", f"table/{name}/*")
    return _allow(sid, [f"glue:{action}" for action in actions], arns)


def _glue_arns(scope: Scope, *paths: str) -> list[str]:
    start = f"arn:{scope.partition}:glue:{scope.region}:{scope.account}"
    return [f"{start}:{path}" for path in paths]


def _buckets(scope: Scope, more_lists: tuple[str, ...]) -> list[Statement]:
    """Rights on the buckets themselves. Listing is limited to the prefixes; the location is not secret."""
    prefixes: dict[str, list[str]] = {}
    for location in scope.locations:
        bucket, prefix = _parts(location)
        prefixes.setdefault(bucket, []).append(prefix)
    arns = {bucket: f"arn:{scope.partition}:s3:::{bucket}" for bucket in prefixes}
    lists = [f"s3:{action}" for action in ("ListBucket", *more_lists)]
    statements = [_allow("FindBuckets", ["s3:GetBucketLocation"], list(arns.values()))]
    for number, (bucket, bucket_prefixes) in enumerate(prefixes.items(), 1):
        statement = _allow(f"ListFiles{number}", lists, [arns[bucket]])
        if all(bucket_prefixes):
            patterns = [
                pattern for prefix in bucket_prefixes for pattern in (prefix, f"{prefix}/*")
            ]
            statement["Condition"] = {"StringLike": {"s3:prefix": patterns}}
        statements.append(statement)
    return statements


def _files(sid: str, actions: Iterable[str], scope: Scope) -> Statement:
    arns = []
    for location in scope.locations:
        bucket, prefix = _parts(location)
        path = f"{bucket}/{prefix}/*" if prefix else f"{bucket}/*"
        arns.append(f"arn:{scope.partition}:s3:::{path}")
    return _allow(sid, [f"s3:{action}" for action in actions], arns)


def _key(scope: Scope, actions: Iterable[str]) -> list[Statement]:
    if scope.kms_key is None:
        return []
    account, _, name = scope.kms_key.rpartition(":")
    is_alias = name.startswith("alias/")  # IAM ignores an alias among the resources
    arn = f"{account}:key/*" if is_alias else scope.kms_key
    statement = _allow("UseKey", [f"kms:{action}" for action in actions], [arn])
    if is_alias:
        statement["Condition"] = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": [name]}}
    return [statement]


def _parts(location: str) -> tuple[str, str]:
    """Bucket and prefix, with the characters that IAM reads as patterns escaped."""
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    return bucket, re.sub(r"[$*?]", lambda match: f"${{{match[0]}}}", prefix.strip("/"))


def _allow(sid: str, actions: list[str], resources: list[str]) -> Statement:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}


def _policy(*statements: Statement) -> Policy:
    return {"Version": VERSION, "Statement": list(statements)}
