"""Calls to AWS, always with current credentials.

Keys are read from where the settings point at every call, so that they can change while we run. botocore
keeps and renews those of an assumed role.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import (
    CatalogAway,
    CatalogRefused,
    ServerUnreachable,
    SettingsError,
)
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.lake.roles import role_credentials
from tableflow_assets.publish.glue.aws_errors import KeysRefused, answered, unanswered
from tableflow_assets.settings.catalogs import AwsAccess

# Kept low: publishing is retried anyway, and a hanging catalog must not hold up a run.
CONNECT_SECONDS = 3
ANSWER_SECONDS = 6
TRIES = 2
_ONE_AT_A_TIME = Lock()  # creating clients is not thread-safe


class Expected(Exception):
    """An error code that the caller said it expects."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


@dataclass(frozen=True)
class Keys:
    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


class Aws:
    """How one block of the settings reaches AWS. Safe to call from any thread."""

    def __init__(self, catalog: str, access: AwsAccess) -> None:
        self.catalog = catalog  # for errors
        self.access = access
        self._lock = Lock()
        self._clients: dict[str, tuple[Keys | None, Any]] = {}
        # The keys that the role was assumed with, and the role's credentials.
        self._role: tuple[Keys | None, Any] | None = None

    def call(
        self, service: str, operation: str, *, expected: tuple[str, ...] = (), **arguments: object
    ) -> dict[str, Any]:
        """One call. Raises `Expected` for the expected codes, else `CatalogAway` or `CatalogRefused`."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        def once() -> dict[str, Any]:
            try:
                answer: dict[str, Any] = getattr(self._client(service), operation)(**arguments)
            except ClientError as error:
                code, meaning = answered(self.catalog, self.access, service, error)
                if code in expected:
                    raise Expected(code) from error
                if isinstance(meaning, KeysRefused):
                    self._forget()  # there may be new ones by now
                raise meaning from error
            except (BotoCoreError, ResponseParserError) as error:
                raise unanswered(self.catalog, self.access, service, error) from error
            return answer

        return retry_after_pauses(once, (0.0,), KeysRefused)

    def _client(self, service: str) -> Any:
        with self._lock:
            keys = self._keys()
            entry = self._clients.get(service)
            if entry is None or entry[0] != keys:
                entry = keys, self._new_client(service, keys, self.access.endpoint)
                self._clients[service] = entry
            return entry[1]

    def _keys(self) -> Keys | None:
        """None: whatever the machine provides, which botocore renews by itself."""
        own_keys = self._own_keys()
        if self.access.role_arn is None:
            return own_keys
        if self._role is None or self._role[0] != own_keys:
            self._role = own_keys, self._assume(self.access.role_arn, own_keys)
        keys = self._role[1].get_frozen_credentials()
        return Keys(keys.access_key, keys.secret_key, keys.token)

    def _own_keys(self) -> Keys | None:
        if self.access.access_key is None or self.access.secret_key is None:
            return None
        try:
            key, secret = self.access.access_key.resolve_name(), self.access.secret_key.resolve()
        except SettingsError as error:
            raise CatalogRefused(f"{self.catalog}: {error.problem}", error.next_step) from error
        except ServerUnreachable as error:
            raise CatalogAway(f"{self.catalog}: {error.problem}", error.next_step) from error
        return Keys(key, secret)

    def _assume(self, role_arn: str, own_keys: Keys | None) -> Any:
        import boto3
        from botocore.exceptions import ClientError

        def own_session() -> Any:
            # Without `endpoint`, which is the catalog's. STS has its own in AWS_ENDPOINT_URL_STS.
            return boto3.Session(region_name=self.access.region, **_arguments(own_keys))

        def explain(error: Exception) -> Exception:
            if isinstance(error, ClientError):
                return answered(self.catalog, self.access, "sts", error)[1]
            return unanswered(self.catalog, self.access, "sts", error)

        return role_credentials(own_session, role_arn, self.access.external_id, _config(), explain)

    def _new_client(self, service: str, keys: Keys | None, endpoint: str | None) -> Any:
        with _ONE_AT_A_TIME:
            if keys is None:
                _session.cache_clear()  # it would never look for the machine's credentials again
            return _session().client(
                service,
                region_name=self.access.region,
                endpoint_url=endpoint,
                config=_config(),
                **_arguments(keys),
            )

    def _forget(self) -> None:
        """Make the next call start with new credentials."""
        secrets.forget()
        with self._lock:
            self._clients.clear()
            self._role = None


def _config() -> Any:
    from botocore.config import Config

    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        retries={"total_max_attempts": TRIES, "mode": "standard"},
    )


def _arguments(keys: Keys | None) -> dict[str, str | None]:
    if keys is None:
        return {}
    return {
        "aws_access_key_id": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_session_token": keys.token,
    }


@cache
def _session() -> Any:
    """Shared by all clients, so that the large descriptions of AWS's services are loaded once."""
    import boto3

    return boto3.Session()
