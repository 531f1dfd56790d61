"""The policies are enough, and no more than that: judged by moto's IAM, call by call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError

from tableflow_assets.base.errors import CatalogRefused
from tableflow_assets.publish.glue.glue import GlueCatalog
from tableflow_assets.publish.glue.policy import (
    Scope,
    caller_policy,
    reader_policy,
    trust_policy,
    writer_policy,
)
from tableflow_assets.publish.publish import publish, unpublish
from tableflow_assets_tests.commands.conftest import Command, command
from tableflow_assets_tests.publish.sources import a_source, after_a_commit
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.publish.worlds.moto_with_glues_lock import ACCOUNT, REGION

__all__ = ["command"]  # a fixture

SCOPE = Scope(REGION, ACCOUNT, "shop", ("s3://lake/tables/",))
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/abcd"


@pytest.fixture
def world() -> Iterator[GlueWorld]:
    with GlueWorld() as running:
        yield running


def catalog_of(world: GlueWorld, policy: dict[str, Any], database: str = "shop") -> GlueCatalog:
    name = f"u{world.server.address[-5:]}{len(json.dumps(policy))}"
    world.keys("POLICY", *world.server.user(name, policy))
    return GlueCatalog("lake", world.settings("POLICY", database=database))


def actions(policy: dict[str, Any], service: str) -> set[str]:
    actions = [action for statement in policy["Statement"] for action in statement["Action"]]
    return {action.split(":")[1] for action in actions if action.startswith(f"{service}:")}


def test_the_writers_policy_allows_exactly_what_publishing_asks_for(world: GlueWorld) -> None:
    catalog, source = catalog_of(world, writer_policy(SCOPE)), a_source()
    publish(catalog, lambda: source)
    newer = after_a_commit(source)
    assert publish(catalog, lambda: newer) == "replaced"
    catalog.probe()
    assert unpublish(catalog, newer)
    assert set(world.server.asked) == actions(writer_policy(SCOPE), "glue")


def test_the_writers_policy_ends_at_its_database(world: GlueWorld) -> None:
    other = catalog_of(world, writer_policy(SCOPE), database="other")
    with pytest.raises(CatalogRefused, match="other"):
        publish(other, a_source)
    with pytest.raises(CatalogRefused):
        other.probe()


def test_readers_see_and_cannot_change(world: GlueWorld) -> None:
    source, newer = a_source(), None
    publish(world.catalog(database="shop"), lambda: source)
    reader = catalog_of(world, reader_policy(SCOPE))
    assert reader.find(source) == reader.listing_for(source)
    newer = after_a_commit(source)
    for change in (
        lambda: publish(reader, lambda: newer),
        lambda: publish(reader, a_source),
        lambda: unpublish(reader, source),
    ):
        with pytest.raises(CatalogRefused, match="not authorized"):
            change()
    assert reader.find(source) == reader.listing_for(source)


@pytest.mark.parametrize("kind", ["writer", "reader"])
def test_files_are_those_of_the_prefix_and_no_others(world: GlueWorld, kind: str) -> None:
    bucket = f"lake-{uuid4().hex[:8]}"
    scope = replace(SCOPE, locations=(f"s3://{bucket}/tables/",))
    world.client("s3").create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    for key in ("tables/a", "private/a", "tables-of-others/a"):
        world.client("s3").put_object(Bucket=bucket, Key=key, Body=b"x")
    policy = writer_policy(scope) if kind == "writer" else reader_policy(scope)
    key, secret = world.server.user(kind + "_of_files", policy)
    s3 = boto3.client(
        "s3",
        region_name=REGION,
        endpoint_url=world.server.address,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )

    def may(operation: str, **arguments: Any) -> bool:
        try:
            getattr(s3, operation)(Bucket=bucket, **arguments)
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 403
            return False
        return True

    is_writer = kind == "writer"
    assert may("get_object", Key="tables/a")
    assert not may("get_object", Key="private/a")
    assert not may("get_object", Key="tables-of-others/a")
    assert may("put_object", Key="tables/b", Body=b"x") == is_writer
    assert not may("put_object", Key="private/b", Body=b"x")
    assert may("delete_object", Key="tables/a") == is_writer
    assert not may("delete_object", Key="private/a")
    assert may("get_bucket_location")


def test_lists_are_of_the_prefix() -> None:
    """By reading: moto does not judge by conditions on what is asked."""
    for policy in (writer_policy(SCOPE), reader_policy(SCOPE)):
        statements = policy["Statement"]
        (statement,) = (s for s in statements if "s3:ListBucket" in s["Action"])
        assert statement["Resource"] == ["arn:aws:s3:::lake"]
        assert statement["Condition"] == {"StringLike": {"s3:prefix": ["tables", "tables/*"]}}


@pytest.mark.parametrize(
    ("locations", "files", "lists"),
    [
        (("s3://lake/",), ["lake/*"], [None]),
        (("s3://lake",), ["lake/*"], [None]),
        (("s3://lake/a", "s3://lake/b/"), ["lake/a/*", "lake/b/*"], [["a", "a/*", "b", "b/*"]]),
        (("s3://x/a", "s3://y"), ["x/a/*", "y/*"], [["a", "a/*"], None]),
        (("s3://x/a", "s3://x/"), ["x/a/*", "x/*"], [None]),
        # What would be a pattern stands for itself.
        (("s3://x/a*$b",), ["x/a${*}${$}b/*"], [["a${*}${$}b", "a${*}${$}b/*"]]),
    ],
)
def test_each_location_is_named(
    locations: tuple[str, ...], files: list[str], lists: list[list[str] | None]
) -> None:
    policy = reader_policy(Scope(REGION, ACCOUNT, "shop", locations))
    (of_files,) = (
        statement for statement in policy["Statement"] if statement["Sid"] == "ReadFiles"
    )
    assert of_files["Resource"] == [f"arn:aws:s3:::{path}" for path in files]
    of_lists = [
        statement for statement in policy["Statement"] if statement["Sid"].startswith("ListFiles")
    ]
    conditions = [
        statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        for statement in of_lists
    ]
    assert conditions == lists
    sids = [statement["Sid"] for statement in policy["Statement"]]
    assert len(set(sids)) == len(sids)  # as IAM asks for


@pytest.mark.parametrize(
    ("region", "partition"),
    [("eu-central-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_every_arn_is_of_the_regions_part_of_aws(region: str, partition: str) -> None:
    policy = writer_policy(Scope(region, ACCOUNT, "shop", ("s3://lake",)))
    arns = [arn for statement in policy["Statement"] for arn in statement["Resource"]]
    assert {arn.split(":")[1] for arn in arns} == {partition}
    assert f"arn:{partition}:glue:{region}:{ACCOUNT}:table/shop/*" in arns
    assert "*" not in arns


def test_a_key_is_named_only_where_there_is_one() -> None:
    assert not actions(writer_policy(SCOPE), "kms")
    with_key = Scope(REGION, ACCOUNT, "shop", ("s3://lake",), KEY)
    assert actions(writer_policy(with_key), "kms") == {"Decrypt", "GenerateDataKey"}
    assert actions(reader_policy(with_key), "kms") == {"Decrypt"}
    assert reader_policy(with_key)["Statement"][-1]["Resource"] == [KEY]
    alias = KEY.replace("key/abcd", "alias/lake")
    by_alias = reader_policy(Scope(REGION, ACCOUNT, "shop", ("s3://lake",), alias))["Statement"][-1]
    assert by_alias["Resource"] == [KEY.replace("abcd", "*")]
    assert by_alias["Condition"] == {
        "ForAnyValue:StringEquals": {"kms:ResourceAliases": ["alias/lake"]}
    }


# ---- the command ----

ROLE = f"arn:aws:iam::{ACCOUNT}:role/publisher"
GLUE = f"""
catalog: {{uri: "http://127.0.0.1:8181"}}
warehouse: {{location: s3://lake/tables}}
topics: {{payments: {{location: s3://vault/payments}}}}
catalogs:
  athena: {{type: glue, region: {REGION}, database: shop}}
"""
WITH_ROLE = GLUE.replace("shop}", f"shop, role_arn: '{ROLE}', external_id: handshake}}")


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        file = tmp_path / "tableflow.yaml"
        file.write_text(text)
        return str(file)

    return write


def test_the_command_prints_the_policy_of_the_settings(command: Command, settings: Any) -> None:
    file = settings(GLUE)
    scope = Scope(REGION, ACCOUNT, "shop", ("s3://lake/tables", "s3://vault/payments"))
    printed = command("--config", file, "aws", "policy", "--account", ACCOUNT, "--json")
    assert printed.json == writer_policy(scope)
    read = command("--config", file, "aws", "policy", "--reader", "--account", ACCOUNT)
    assert read.json == reader_policy(scope)  # what is for people goes elsewhere
    assert "Athena" in read.err


def test_the_command_knows_the_account_of_a_role(command: Command, settings: Any) -> None:
    file = settings(WITH_ROLE)
    assert f":{ACCOUNT}:table/shop/*" in command("--config", file, "aws", "policy").out
    assert command("--config", file, "aws", "policy", "--caller", "--json").json == (
        caller_policy(ROLE)
    )
    me = f"arn:aws:iam::{ACCOUNT}:user/me"
    trusted = command("--config", file, "aws", "policy", "--trust", me, "--json").json
    assert trusted == trust_policy(me, "handshake")
    (statement,) = trusted["Statement"]
    assert statement["Condition"] == {"StringEquals": {"sts:ExternalId": "handshake"}}


def test_the_command_encrypts_where_the_warehouse_does(command: Command, settings: Any) -> None:
    file = settings(
        WITH_ROLE.replace("tables}", f"tables, sse: {{type: kms, kms_key: '{KEY}'}}}}", 1)
    )
    policy = command("--config", file, "aws", "policy", "--json").json
    assert actions(policy, "kms") == {"Decrypt", "GenerateDataKey"}


@pytest.mark.parametrize(
    ("text", "arguments", "code", "message"),
    [
        ("{}", ["--account", ACCOUNT], 1, "no Glue catalog"),
        (GLUE, [], 2, "--account ID"),
        (GLUE, ["--account", "me"], 2, "12 digits"),
        (GLUE, ["--catalog", "nosuch", "--account", ACCOUNT], 2, "--catalog athena"),
        (GLUE, ["--caller"], 1, "role_arn"),
        (GLUE + "  more: {type: glue}\n", ["--account", ACCOUNT], 2, "athena | more"),
        (GLUE.replace(", database: shop", ""), ["--account", ACCOUNT], 1, "database:"),
    ],
)
def test_the_command_says_what_it_misses(
    command: Command, settings: Any, text: str, arguments: list[str], code: int, message: str
) -> None:
    answer = command("--config", settings(text), "aws", "policy", *arguments)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
