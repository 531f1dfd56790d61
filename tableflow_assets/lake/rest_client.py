"""pyiceberg's client of a REST catalog, with three things that it lacks.

The token is renewed before it expires, and once more if the catalog still refuses it; requests time out;
and a catalog that needs no credentials is sent none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.exceptions import OAuthError
from requests import PreparedRequest, Response, Session
from requests.auth import AuthBase

from tableflow_assets.base import masking, secrets
from tableflow_assets.base.errors import SettingsError
from tableflow_assets.lake.connection import CatalogConnection

SECONDS = (5.0, 60.0)  # to connect, and between two reads
TOKEN_SECONDS = (5.0, 20.0)
RENEW_BEFORE = 60.0  # seconds; for a short-lived token, a fifth of its life
REFUSED = (401, 419)  # by the protocol
# Some servers answer this for an expired token. It may also be meant, so only an old token is renewed.
FORBIDDEN = 403
OLD = 30.0


class RestClient(RestCatalog):
    def __init__(
        self,
        name: str,
        connect: Callable[[], CatalogConnection],
        properties: dict[str, str],
        seconds: tuple[float, float] = SECONDS,
    ) -> None:
        """``connect`` is called again for every new token: a secret may have changed."""
        self._seconds = seconds
        access = access_properties(connect)
        super().__init__(name, **properties, **access)

    def _create_session(self) -> Session:
        session = super()._create_session()
        options: dict[str, Any] = {"timeout": self._seconds}
        if isinstance(session.verify, str):
            # Passed with every request, or REQUESTS_CA_BUNDLE of the environment would win.
            options["verify"] = session.verify
        session.request = partial(session.request, **options)  # type: ignore[method-assign]
        if isinstance(self._auth_manager, Bearer):
            session.auth = _RenewedToken(self._auth_manager)
        return session


def access_properties(connect: Callable[[], CatalogConnection]) -> dict[str, Any]:
    """The properties that let pyiceberg log in."""
    connection = connect()
    properties: dict[str, Any] = {"auth": {"type": "noop"}}
    if connection.client_id is not None or connection.token is not None:
        ways = {"bearer": Bearer(connect)}
        name = f"{__name__}.{_identity.__name__}"
        properties["auth"] = {"type": "custom", "impl": name, "custom": ways}
    if (signing := connection.sigv4) is not None:
        signing_properties = {
            "rest.sigv4-enabled": "true",
            "rest.signing-name": signing.name,
            "rest.signing-region": signing.region,
            "rest.sigv4.max-retries": "2",
            "client.region": signing.region,
            "client.access-key-id": signing.access_key,
            "client.secret-access-key": signing.secret_key,
        }
        properties |= {key: value for key, value in signing_properties.items() if value is not None}
    tls = verification(connection)
    if "verify" in tls:
        properties["ssl"] = {"cabundle": tls["verify"]}
    if "cert" in tls:
        certificate, key = tls["cert"]
        ours = {"client": {"cert": certificate, "key": key}}
        properties["ssl"] = properties.get("ssl", {}) | ours
    return properties


def verification(connection: CatalogConnection) -> dict[str, Any]:
    """The same for `requests`: the authority to trust, and our certificate."""
    if (tls := connection.tls) is None:
        return {}
    options: dict[str, Any] = {}
    if tls.ca_file:
        options["verify"] = _readable(tls.ca_file)
    if tls.client_certificate_file and tls.client_key_file:
        options["cert"] = (_readable(tls.client_certificate_file), _readable(tls.client_key_file))
    return options


def _readable(file: str) -> str:
    path = Path(file).expanduser()
    try:
        path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"The file {path} of a REST catalog's `tls` cannot be read: {error.strerror}.",
            "Give the path of a PEM file that the user running tableflow may read.",
        ) from None
    return str(path)


class Bearer(AuthManager):
    """The current token: one from the settings, or one exchanged for a client's secret."""

    def __init__(self, connect: Callable[[], CatalogConnection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._token = ""
        self._asked_at = 0.0
        self._good_until: float | None = 0.0

    def auth_header(self) -> str:
        with self._lock:
            is_over = self._good_until is not None and time.monotonic() >= self._good_until
            return f"Bearer {self._new() if is_over else self._token}"

    def instead_of(self, header: str, *, only_if_old: bool) -> str:
        """The header to use after ``header`` was refused; the same one if there is no other."""
        with self._lock:
            is_newest = header == f"Bearer {self._token}"
            is_young = time.monotonic() - self._asked_at < OLD
            if is_newest and not (only_if_old and is_young):
                secrets.forget()
                self._new()
            return f"Bearer {self._token}"

    def _new(self) -> str:
        connection = self._connect()
        self._asked_at = time.monotonic()
        if connection.token is not None:
            self._token, self._good_until = connection.token, None
            return self._token
        answer = _token_for(connection)
        self._token = masking.remember(str(answer["access_token"]))
        life = answer.get("expires_in")
        self._good_until = None
        if isinstance(life, int | float) and life > 0:
            self._good_until = self._asked_at + life - min(RENEW_BEFORE, life / 5)
        return self._token


class _RenewedToken(AuthBase):
    """Sends a request again, once, with a new token if the old one was refused.

    A refused request was not carried out, so that is safe for commits, too.
    """

    def __init__(self, bearer: Bearer) -> None:
        self.auth_manager = bearer  # where pyiceberg looks for it

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = self.auth_manager.auth_header()
        request.register_hook("response", self._retry)
        return request

    def _retry(self, response: Response, **options: Any) -> Response:
        if response.status_code not in (*REFUSED, FORBIDDEN):
            return response
        header = str(response.request.headers["Authorization"])
        is_forbidden = response.status_code == FORBIDDEN
        renewed = self.auth_manager.instead_of(header, only_if_old=is_forbidden)
        if renewed == header:
            return response
        response.content  # noqa: B018  (read to the end: the connection is used again)
        response.close()
        retry = response.request.copy()
        retry.headers["Authorization"] = renewed
        answer: Response = response.connection.send(retry, **options)
        answer.history.append(response)
        return answer


def _identity(bearer: Bearer) -> Bearer:
    """pyiceberg insists on constructing the auth manager, and would make two; it gets ours instead."""
    return bearer


def _token_for(connection: CatalogConnection) -> dict[str, Any]:
    grant = {
        "grant_type": "client_credentials",
        "client_id": connection.client_id,
        "client_secret": connection.client_secret,
        "scope": connection.scope,
        "audience": connection.audience,
        "resource": connection.resource,
    }
    address = connection.oauth2_server_uri or f"{connection.uri.rstrip('/')}/v1/oauth/tokens"
    form = {key: value for key, value in grant.items() if value is not None}
    answer = requests.post(address, data=form, timeout=TOKEN_SECONDS, **verification(connection))
    if answer.status_code in (400, 401, 403):
        raise OAuthError(_reason(answer))
    answer.raise_for_status()
    try:
        body = answer.json()
    except requests.exceptions.JSONDecodeError:
        body = None
    if not isinstance(body, dict) or not body.get("access_token"):
        raise OAuthError(f"{address} answers, but with no token: is it a token endpoint?")
    return body


def _reason(answer: Response) -> str:
    """OAuth2's error fields, and no more: a page of HTML helps nobody."""
    try:
        body = answer.json()
    except requests.exceptions.JSONDecodeError:
        body = None
    body = body if isinstance(body, dict) else {}
    parts = [body.get("error"), body.get("error_description")]
    text = ": ".join(part for part in parts if isinstance(part, str))
    return text or f"HTTP {answer.status_code}"
