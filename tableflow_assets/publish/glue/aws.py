"""Calls to AWS, with the credentials of this moment.

Keys are read from where the settings say at each call, so that they can be changed while we run. Those of
an assumed role are kept until shortly before they expire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from threading import Lock
from typing import Any

from tableflow_assets.base import masking, secrets
from tableflow_assets.base.errors import (
    CatalogAway,
    CatalogRefused,
    ServerUnreachable,
    SettingsError,
)
from tableflow_assets.publish.glue.aws_errors import EXPIRED, UNKNOWN_KEYS, answered, unanswered
from tableflow_assets.settings.catalogs import AwsAccess

# No more: whoever publishes asks again by itself, and a catalog that hangs must not hold up a run.
CONNECT_SECONDS = 3
ANSWER_SECONDS = 6
TRIES = 2
BEFORE_EXPIRY = timedelta(minutes=5)
_ONE_AT_A_TIME = Lock()  # making clients is not for several threads at once


class Expected(Exception):
    """An answer that the caller has named beforehand, by its code."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


@dataclass(frozen=True)
class Keys:
    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


class Aws:
    """One block of the settings that says how AWS is reached. Its calls may come from any thread."""

    def __init__(self, catalog: str, access: AwsAccess) -> None:
        self.catalog = catalog  # for errors
        self.access = access
        self._lock = Lock()
        self._clients: dict[str, tuple[Keys | None, Any]] = {}
        self._assumed: tuple[Keys | None, Keys, datetime] | None = None

    def call(
        self, service: str, operation: str, *, expected: tuple[str, ...] = (), **arguments: object
    ) -> dict[str, Any]:
        """One call. Raises `Expected` for these codes, else `CatalogAway` or `CatalogRefused`."""
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        for is_last in (False, True):
            try:
                answer: dict[str, Any] = getattr(self._client(service), operation)(**arguments)
            except ClientError as error:
                code, meaning = answered(self.catalog, self.access, service, error)
                if code in expected:
                    raise Expected(code) from error
                if code in EXPIRED | UNKNOWN_KEYS:
                    self._forget()  # there may be new ones by now
                    if not is_last:
                        continue
                raise meaning from error
            except (BotoCoreError, ResponseParserError) as error:
                raise unanswered(self.catalog, self.access, service, error) from error
            return answer
        raise AssertionError("unreachable")

    def _client(self, service: str) -> Any:
        with self._lock:
            keys = self._keys()
            known = self._clients.get(service)
            if known is None or known[0] != keys:
                known = keys, self._made(service, keys, self.access.endpoint)
                self._clients[service] = known
            return known[1]

    def _keys(self) -> Keys | None:
        """None: whatever the machine has; botocore then renews them by itself."""
        own = self._own_keys()
        if self.access.role_arn is None:
            return own
        if self._assumed is not None:
            by, keys, expiry = self._assumed
            if by == own and datetime.now(UTC) < expiry - BEFORE_EXPIRY:
                return keys
        self._assumed = (own, *self._assume(own))
        return self._assumed[1]

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

    def _assume(self, own: Keys | None) -> tuple[Keys, datetime]:
        from botocore.exceptions import BotoCoreError, ClientError

        with_id = {"ExternalId": self.access.external_id} if self.access.external_id else {}
        # `endpoint` is that of the catalog's service. Another of STS goes into AWS_ENDPOINT_URL_STS.
        sts = self._made("sts", own, None)
        try:
            found = sts.assume_role(
                RoleArn=self.access.role_arn, RoleSessionName="tableflow", **with_id
            )["Credentials"]
        except ClientError as error:
            secrets.forget()
            raise answered(self.catalog, self.access, "sts", error)[1] from error
        except BotoCoreError as error:
            raise unanswered(self.catalog, self.access, "sts", error) from error
        secret, token = map(masking.remember, (found["SecretAccessKey"], found["SessionToken"]))
        keys = Keys(found["AccessKeyId"], secret, token)
        return keys, found["Expiration"]

    def _made(self, service: str, keys: Keys | None, endpoint: str | None) -> Any:
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
            retries={"total_max_attempts": TRIES, "mode": "standard"},
        )
        with _ONE_AT_A_TIME:
            if keys is None:
                _session.cache_clear()  # it would never look for the machine's credentials again
            return _session().client(
                service,
                region_name=self.access.region,
                endpoint_url=endpoint,
                aws_access_key_id=keys and keys.access_key,
                aws_secret_access_key=keys and keys.secret_key,
                aws_session_token=keys and keys.token,
                config=config,
            )

    def _forget(self) -> None:
        """So that the next call begins with new credentials."""
        secrets.forget()
        with self._lock:
            self._clients.clear()
            self._assumed = None


@cache
def _session() -> Any:
    """One for all clients: it reads the long descriptions of AWS's services once."""
    import boto3

    return boto3.Session()
