"""Tokens for Databricks: OAuth for machines, by the id and secret of a service principal.

`databricks-sdk` can request such tokens itself, but without a time limit, and it waits for as long as an
overloaded server tells it to.
"""

from __future__ import annotations

import threading
from typing import Any

import requests

from tableflow_assets.base import masking
from tableflow_assets.base.errors import CatalogAway
from tableflow_assets.publish.unity.errors import NOT_UNITY, UNAUTHORIZED, UnityAnswer
from tableflow_assets.settings.catalogs import UnitySettings

DISCOVERY = "/oidc/.well-known/oauth-authorization-server"
SCOPE = "all-apis"


class MachineTokens:
    """The token that requests carry; renewed before it expires, or when the server rejects it."""

    def __init__(self, settings: UnitySettings, seconds: float) -> None:
        self.settings = settings
        self.seconds = seconds
        self._endpoint: str | None = None
        self._token: Any = None  # of databricks-sdk, which is imported late
        self._lock = threading.Lock()

    def header(self) -> dict[str, str]:
        with self._lock:
            if self._token is None or not self._token.valid:
                self._token = self._new()
            return {"Authorization": f"Bearer {self._token.access_token}"}

    def forget(self) -> bool:
        """True if there was a token, so that a new one may work."""
        with self._lock:
            had, self._token = self._token is not None, None
            return had

    def _new(self) -> Any:
        from datetime import datetime, timedelta

        from databricks.sdk.oauth import Token

        # Both are read again for each token: a secret that was rotated needs no restart.
        client, secret = self.settings.client_id, self.settings.client_secret
        if client is None or secret is None:  # the settings rule this out
            raise UnityAnswer(UNAUTHORIZED, "", "no client_id and client_secret")
        user, password = client.resolve_name(), secret.resolve()
        masking.remember_basic(user, password)
        form = {"grant_type": "client_credentials", "scope": SCOPE}
        answer = self._ask("POST", self._find_endpoint(), data=form, auth=(user, password))
        try:
            token = masking.remember(str(answer["access_token"]))
            expiry = datetime.now() + timedelta(seconds=int(answer["expires_in"]))
        except (KeyError, ValueError, TypeError):
            raise UnityAnswer(UNAUTHORIZED, NOT_UNITY, "what came was no token") from None
        return Token(access_token=token, token_type="Bearer", expiry=expiry)  # noqa: S106

    def _find_endpoint(self) -> str:
        if self._endpoint is None:
            host = self.settings.host.rstrip("/")
            endpoint = str(self._ask("GET", host + DISCOVERY).get("token_endpoint", ""))
            if not endpoint.startswith(("https://", host + "/")):
                # The secret is sent there: only over HTTPS, or to the workspace itself.
                raise UnityAnswer(404, NOT_UNITY, f"it names no usable token endpoint: {endpoint}")
            self._endpoint = endpoint
        return self._endpoint

    def _ask(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        with requests.Session() as session:
            session.auth = (
                _no_auth  # otherwise requests takes a password for the host from ~/.netrc
            )
            try:
                response = session.request(
                    method, url, timeout=self.seconds, allow_redirects=False, **more
                )
            except requests.RequestException as error:
                raise away(self.settings.host, error) from None
        try:
            answer = response.json()
        except requests.exceptions.InvalidJSONError:
            answer = None
        if response.ok and isinstance(answer, dict):
            return answer
        body = answer if isinstance(answer, dict) else {}
        code = str(body.get("error") or body.get("error_code") or "")
        message = str(body.get("error_description") or body.get("message") or "")
        if response.status_code < 400:  # noqa: PLR2004  (it answers, but with something else)
            raise UnityAnswer(404, NOT_UNITY, f"{url} is not what it should be")
        raise UnityAnswer(response.status_code, code or NOT_UNITY, message)


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def away(host: str, error: Exception) -> CatalogAway:
    """Without the error's own message, which may repeat what was sent."""
    kind = type(error).__name__
    return CatalogAway(f"Unity Catalog at {host} does not answer ({kind}).")
