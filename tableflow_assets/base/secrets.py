"""Secrets are read at the moment of use, so that a rotated one needs no restart.

AWS Secrets Manager is asked at most once a minute per secret. A caller whose credentials are refused
calls `forget`, and the next read fetches the current value.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from tableflow_assets.base.errors import ServerUnreachable, SettingsError

MakeClient = Callable[[str | None], Any]  # takes a region; None: the machine's own
KEPT_SECONDS = 60
_kept: dict[tuple[str, str | None], tuple[float, str]] = {}
_lock = threading.Lock()
logger = logging.getLogger(__name__)


def from_environment(variable: str) -> str:
    if value := os.environ.get(variable):
        return value
    raise SettingsError(
        f"The environment variable {variable} is not set, or empty.",
        f"Set it where tableflow runs, for example: export {variable}=...",
    )


def from_aws(
    name: str, key: str | None, region: str | None, client: MakeClient | None = None
) -> str:
    region = region or _region_of(name)
    text = _text(name, region, client or _client)
    return text if key is None else _part(name, key, text)


def forget() -> None:
    """After a failed authentication: the cached values may no longer be valid."""
    with _lock:
        _kept.clear()


def _text(name: str, region: str | None, client: MakeClient) -> str:
    """One at a time: many threads starting at once would all ask."""
    with _lock:
        read_at, text = _kept.get((name, region), (0.0, ""))
        if text and time.monotonic() - read_at < KEPT_SECONDS:
            return text
        try:
            text = _ask(name, region, client)
        except ServerUnreachable as error:
            if not text:
                raise
            # It was valid a moment ago. If it no longer is, its user is refused and calls `forget`.
            logger.warning("%s Going on with what it said before.", error.problem)
        else:
            _kept[name, region] = (time.monotonic(), text)
        return text


def _ask(name: str, region: str | None, client: MakeClient) -> str:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

    try:
        answer = client(region).get_secret_value(SecretId=name)
    except ClientError as error:
        raise _refusal(name, region, error) from None
    except NoRegionError:
        raise SettingsError(
            f"The secret {name!r} is in AWS Secrets Manager, of no known region.",
            "Name it by its ARN, add `region:` beside `aws_secret:`, or set AWS_REGION.",
        ) from None
    except NoCredentialsError:
        raise SettingsError(
            f"There are no AWS credentials to read the secret {name!r} with.",
            "Run where a role is attached, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        ) from None
    except BotoCoreError as error:
        raise _away(region, f"{type(error).__name__}: {error}") from None
    if not (text := answer.get("SecretString")):
        raise SettingsError(
            f"The secret {name!r} in AWS Secrets Manager holds no text.",
            "Store it as a secret string, not as a binary.",
        )
    return str(text)


def _refusal(name: str, region: str | None, error: Any) -> Exception:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in ("ResourceNotFoundException", "InvalidRequestException"):
        problem = "does not exist" if code.startswith("Resource") else "is being deleted"
        return SettingsError(
            f"The secret {name!r} {problem} in AWS Secrets Manager (region {region or 'by default'}).",
            "Create it, or correct `aws_secret:` (and its `region:`) in tableflow.yaml.",
        )
    if code == "DecryptionFailure":
        return SettingsError(
            f"AWS Secrets Manager may not decrypt the secret {name!r} for us.",
            "Allow kms:Decrypt on the KMS key of the secret.",
        )
    if status >= 500 or "Throttl" in code:  # noqa: PLR2004  (the server's own errors)
        return _away(region, code)
    return SettingsError(
        f"AWS Secrets Manager does not let us read the secret {name!r}: {code}.",
        f"Allow secretsmanager:GetSecretValue on {_arn(name, region)} (and kms:Decrypt on its KMS"
        " key, if that is not AWS's own), or give credentials that may.",
    )


def _away(region: str | None, reason: str) -> ServerUnreachable:
    address = os.environ.get("AWS_ENDPOINT_URL_SECRETS_MANAGER") or os.environ.get(
        "AWS_ENDPOINT_URL", f"region {region or 'by default'}"
    )
    return ServerUnreachable(
        "AWS Secrets Manager", address, reason, "Check the network and the region, then run again."
    )


def _part(name: str, key: str, text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise SettingsError(
            f"The secret {name!r} is no JSON object, so it has no key {key!r}.",
            "Leave `key:` out to use the whole text, or store key and value pairs.",
        )
    part = value.get(key)
    if isinstance(part, int | float) and not isinstance(part, bool):
        part = str(part)
    if not isinstance(part, str) or not part:
        problem = "has no text under" if key in value else "has no"
        raise SettingsError(
            f"The secret {name!r} {problem} key {key!r}.",
            "Add it to the secret, or correct `key:` in tableflow.yaml.",
        )
    return part


def _region_of(name: str) -> str | None:
    parts = name.split(":")
    return parts[3] if parts[0] == "arn" and len(parts) > 3 and parts[3] else None  # noqa: PLR2004


def _arn(name: str, region: str | None) -> str:
    # AWS appends six random characters to the name in the ARN.
    if name.startswith("arn:"):
        return name
    return f"arn:aws:secretsmanager:{region or '<region>'}:<account>:secret:{name}-??????"


def _client(region: str | None) -> Any:
    import boto3  # slow to load, and most processes never need it
    from botocore.config import Config

    patience = Config(
        connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3}
    )
    # A new session: boto3's default one keeps the first credentials it found.
    return boto3.Session().client("secretsmanager", region_name=region, config=patience)
