"""Secrets by reference: read when used, renewed without a restart, and never told."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from tableflow_assets.base import masking, secrets
from tableflow_assets.base.errors import ServerUnreachable, SettingsError
from tableflow_assets.settings.secret_ref import SecretRef
from tableflow_assets_tests.support.moto_aws import REGION, Aws, running_aws

PASSWORD = "correct-horse-battery"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that other tests have read, and nothing left for them."""
    monkeypatch.setattr(masking, "_secrets", masking._Secrets())
    secrets.forget()
    yield
    secrets.forget()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with running_aws(monkeypatch) as running:
        yield running


@pytest.fixture
def stored(aws: Aws) -> Any:
    manager = aws.client("secretsmanager")
    text = json.dumps({"user": "writer", "password": PASSWORD, "port": 5432, "empty": ""})
    manager.create_secret(Name="lake/writer", SecretString=text)
    manager.create_secret(Name="plain", SecretString=PASSWORD)
    manager.create_secret(Name="bytes", SecretBinary=b"\x00\x01")
    return manager


def asked(aws: Aws) -> int:
    target = "secretsmanager.GetSecretValue"
    return sum(one.headers.get("x-amz-target") == target for one in aws.requests)


def test_a_secret_is_the_whole_text_or_a_key_of_its_json(stored: Any) -> None:
    assert SecretRef(aws_secret="plain").resolve() == PASSWORD
    assert SecretRef(aws_secret="lake/writer", key="password").resolve() == PASSWORD
    assert SecretRef(aws_secret="lake/writer", key="port").resolve() == "5432"
    assert json.loads(SecretRef(aws_secret="lake/writer").resolve())["user"] == "writer"


def test_the_region_is_that_of_the_arn_or_the_one_given(
    aws: Aws, stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    arn = stored.describe_secret(SecretId="plain")["ARN"]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")  # where it is not
    with pytest.raises(SettingsError, match="does not exist"):
        SecretRef(aws_secret="plain").resolve()
    assert SecretRef(aws_secret=arn).resolve() == PASSWORD
    assert SecretRef(aws_secret="plain", region=REGION).resolve() == PASSWORD


def test_keys_of_one_secret_are_one_question(aws: Aws, stored: Any) -> None:
    for key in ("user", "password", "user", "port"):
        SecretRef(aws_secret="lake/writer", key=key).resolve_name()
    assert asked(aws) == 1


def test_a_rotated_secret_is_seen_after_a_minute_or_at_once_after_a_refusal(
    aws: Aws, stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(secrets.time, "monotonic", lambda: now[0])
    reference = SecretRef(aws_secret="plain")
    assert reference.resolve() == PASSWORD
    stored.put_secret_value(SecretId="plain", SecretString="second-password")
    now[0] += secrets.KEPT_SECONDS - 1
    assert reference.resolve() == PASSWORD
    now[0] += 2
    assert reference.resolve() == "second-password"
    stored.put_secret_value(SecretId="plain", SecretString="third-password")
    secrets.forget()
    assert reference.resolve() == "third-password"


def test_while_secrets_manager_is_away_the_last_answer_is_used_until_it_is_refused(
    stored: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr(secrets.time, "monotonic", lambda: now[0])
    reference = SecretRef(aws_secret="plain")
    assert reference.resolve() == PASSWORD
    now[0] += secrets.KEPT_SECONDS + 1
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", nobody())
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with caplog.at_level(logging.WARNING):
        assert reference.resolve() == PASSWORD
    assert "Going on with what it said before" in caplog.text
    secrets.forget()
    with pytest.raises(ServerUnreachable, match=r"AWS Secrets Manager at http://127\.0\.0\.1"):
        reference.resolve()


def nobody() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize(
    ("reference", "told", "step"),
    [
        ({"aws_secret": "nowhere"}, "'nowhere' does not exist", "Create it"),
        ({"aws_secret": "lake/writer", "key": "token"}, "has no key 'token'", "correct `key:`"),
        ({"aws_secret": "lake/writer", "key": "empty"}, "no text under key 'empty'", "`key:`"),
        ({"aws_secret": "plain", "key": "password"}, "is no JSON object", "Leave `key:` out"),
        ({"aws_secret": "bytes"}, "holds no text", "as a secret string"),
        ({"env": "TABLEFLOW_NOT_SET"}, "TABLEFLOW_NOT_SET is not set", "export TABLEFLOW_NOT_SET="),
    ],
)
def test_what_is_missing_is_named_and_the_rest_is_not_told(
    stored: Any, reference: dict[str, str], told: str, step: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        SecretRef.model_validate(reference).resolve()
    assert told in caught.value.problem
    assert step in caught.value.next_step
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None  # whose text is not ours


def test_without_the_right_to_read_it_the_action_and_the_arn_are_named(aws: Aws) -> None:
    class Denying:
        def get_secret_value(self, SecretId: str) -> None:
            from botocore.exceptions import ClientError

            answer: Any = {
                "Error": {"Code": "AccessDeniedException", "Message": "no"},
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }
            raise ClientError(answer, "GetSecretValue")

    with pytest.raises(SettingsError) as caught:
        SecretRef(aws_secret="lake/writer", region=REGION).resolve(lambda _: Denying())
    assert "secretsmanager:GetSecretValue on arn:aws:secretsmanager:eu-west-1:" in str(caught.value)
    assert "secret:lake/writer-??????" in str(caught.value)


def test_without_credentials_or_region_that_is_what_is_said(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    with pytest.raises(SettingsError, match="no AWS credentials"):
        SecretRef(aws_secret="plain", region=REGION).resolve()
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(SettingsError, match="of no known region"):
        SecretRef(aws_secret="plain").resolve()


def test_a_reference_is_shown_without_asking_aws(aws: Aws) -> None:
    reference = SecretRef(aws_secret="lake/writer", key="password", region=REGION)
    assert reference.show() == str(reference) == "aws:lake/writer#password"
    assert repr(reference) == "SecretRef(aws:lake/writer#password)"
    assert SecretRef(aws_secret="plain").show() == "aws:plain"
    assert asked(aws) == 0
    again = SecretRef.model_validate(reference.as_data())
    assert again == reference


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"env": "A", "aws_secret": "b"},
        {"env": "A", "key": "b"},
        {"key": "b"},
        {"aws_secret": "two words"},
        {"aws_secret": "a'b"},
        {"aws_secret": "a", "key": "x y"},
        {"aws_secret": "a", "region": "eu west"},
        "hunter2-in-the-file",
    ],
)
def test_what_is_no_reference_is_refused_and_not_repeated(given: object) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        SecretRef.model_validate(given)
    assert "hunter2" not in str(caught.value)
