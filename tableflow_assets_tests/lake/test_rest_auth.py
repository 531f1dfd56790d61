"""How REST catalogs let us in, and that a token's end is no run's end.

Behind the gate is Apache Iceberg's own server; the gate is a stub of the token endpoint and of the check of
tokens. Signatures are checked by SeaweedFS itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import certifi
import pytest
from pydantic import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tableflow_assets.base.errors import (
    AccessRefused,
    CatalogRefused,
    ServerUnreachable,
    SettingsError,
)
from tableflow_assets.lake import rest_client as rest_session
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.connection import CatalogConnection, Signing, catalog_of
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.publish.rest.rest import OtherRestCatalog
from tableflow_assets.settings.rest import Catalog, OtherRestSettings, RestTls
from tableflow_assets.stack.seaweed import REGION, SeaweedServer
from tableflow_assets_tests.publish.worlds.gate import Client, Gate
from tableflow_assets_tests.publish.worlds.rest import make_bucket
from tableflow_assets_tests.source.certificate_authority import Authority
from tableflow_assets_tests.support.seaweed import owner_of

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
SECRET = "very-quiet"


@pytest.fixture
def gate(rest_server: str, rest_storage: S3Connection) -> Iterator[Gate]:
    make_bucket(rest_storage)
    with Gate(rest_server, {"me": Client(SECRET)}) as gate:
        yield gate


def connection(gate: Gate, **more: str) -> CatalogConnection:
    keys = {"client_id": "me", "client_secret": SECRET} | more
    tokens = f"{gate.address}/v1/oauth/tokens"
    return CatalogConnection(gate.address, "shop", tokens, **keys)


@pytest.fixture
def owner(gate: Gate, rest_storage: S3Connection) -> RestCatalog:
    catalog = RestCatalog(connection(gate), rest_storage)
    catalog.ensure_namespace()
    return catalog


def a_table() -> tuple[str, str]:
    return ("shop", f"t_{uuid4().hex[:8]}")


def test_a_client_asks_for_one_token_with_all_that_is_known(
    gate: Gate, rest_storage: S3Connection
) -> None:
    access = connection(gate, scope="PRINCIPAL_ROLE:ALL", audience="lake", resource="urn:lake")
    RestCatalog(access, rest_storage).ensure_namespace()
    assert gate.grants == [
        {
            "grant_type": "client_credentials",
            "client_id": "me",
            "client_secret": SECRET,
            "scope": "PRINCIPAL_ROLE:ALL",
            "audience": "lake",
            "resource": "urn:lake",
        }
    ]


def test_without_an_address_of_its_own_the_token_comes_from_the_catalog(
    gate: Gate, rest_storage: S3Connection
) -> None:
    RestCatalog(replace(connection(gate), oauth2_server_uri=None), rest_storage).ensure_namespace()
    assert len(gate.grants) == 1


def test_a_token_that_is_withdrawn_in_mid_run_is_renewed(gate: Gate, owner: RestCatalog) -> None:
    name = a_table()
    table = owner.iceberg.create_table(name, SCHEMA)
    gate.withdraw_tokens()
    writes = gate.writes
    table.transaction().set_properties(a="1").commit_transaction()
    assert gate.writes == writes + 1  # sent twice, carried out once
    gate.withdraw_tokens()
    assert owner.find(name[1]) is not None
    gate.withdraw_tokens()
    assert owner.iceberg.namespace_exists("shop")
    assert (gate.refused, len(gate.grants)) == (3, 4)


def test_a_token_is_renewed_before_it_ends(
    gate: Gate, rest_storage: S3Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(rest_session, "time", clock)
    gate.token_seconds = 600
    owner = RestCatalog(connection(gate), rest_storage)
    owner.ensure_namespace()
    clock.now += 530
    owner.ensure_namespace()
    assert len(gate.grants) == 1
    clock.now += 20
    owner.ensure_namespace()
    assert (gate.refused, len(gate.grants)) == (0, 2)


def test_a_token_that_lives_shortly_is_still_used(
    gate: Gate, rest_storage: S3Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(rest_session, "time", clock)
    gate.token_seconds = 30
    owner = RestCatalog(connection(gate), rest_storage)
    for seconds, grants in ((0, 1), (20, 1), (5, 2)):
        clock.now += seconds
        owner.ensure_namespace()
        assert len(gate.grants) == grants


def test_a_token_of_unknown_life_is_kept_until_it_is_refused(
    gate: Gate, rest_storage: S3Connection
) -> None:
    gate.token_seconds = None
    owner = RestCatalog(connection(gate), rest_storage)
    for _ in range(3):
        owner.ensure_namespace()
    gate.withdraw_tokens()
    owner.ensure_namespace()
    assert (gate.refused, len(gate.grants)) == (1, 2)


def test_a_catalog_that_calls_an_ended_token_forbidden_gets_a_new_one_if_ours_is_old(
    gate: Gate, owner: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.refusal = 403
    gate.withdraw_tokens()
    with pytest.raises(AccessRefused):  # young: so it means what it says
        owner.find("anything")
    assert len(gate.grants) == 1
    monkeypatch.setattr(rest_session, "OLD", 0.0)
    assert owner.find("anything") is None
    assert len(gate.grants) == 2


def test_a_client_that_is_no_longer_known_is_refused_and_not_asked_for_ever(
    gate: Gate, owner: RestCatalog
) -> None:
    gate.clients["me"] = Client("changed")
    gate.withdraw_tokens()
    with pytest.raises(AccessRefused, match="invalid_client") as excinfo:
        owner.find("anything")
    assert "`catalog:`" in excinfo.value.next_step
    assert SECRET not in str(excinfo.value)
    assert len(gate.grants) <= 3


def test_a_secret_that_was_changed_is_read_anew(
    gate: Gate, rest_storage: S3Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ME", "me")
    monkeypatch.setenv("MINE", SECRET)
    other = OtherRestCatalog("other", settings(gate), rest_storage)
    other.probe()
    gate.clients["me"] = Client("changed")
    monkeypatch.setenv("MINE", "changed")
    gate.withdraw_tokens()
    other.probe()
    assert len(gate.grants) == 2


def settings(gate: Gate, **more: object) -> OtherRestSettings:
    keys = {"client_id": {"env": "ME"}, "client_secret": {"env": "MINE"}}
    return OtherRestSettings.model_validate({"type": "rest", "uri": gate.address, **keys, **more})


def test_a_token_that_was_given_is_used_as_it_is(gate: Gate, rest_storage: S3Connection) -> None:
    access = CatalogConnection(gate.address, "shop", token=gate.give_token("me"))
    owner = RestCatalog(access, rest_storage)
    owner.ensure_namespace()
    assert (owner.find("anything"), gate.grants) == (None, [])
    gate.withdraw_tokens()
    with pytest.raises(AccessRefused, match="gives no access") as excinfo:
        owner.find("anything")
    assert str(access.token) not in str(excinfo.value)


def test_without_credentials_none_are_sent(rest_server: str, rest_storage: S3Connection) -> None:
    nobody = CatalogConnection(rest_server, "shop")
    owner = RestCatalog(nobody, rest_storage)
    session = owner.iceberg._session  # type: ignore[attr-defined]
    assert "Authorization" not in session.get(f"{rest_server}/v1/config").request.headers


def test_requests_are_signed_as_aws_wants_it(seaweed: SeaweedServer) -> None:
    person = owner_of(seaweed)
    person.catalog.ensure_namespace()
    signing = Signing("s3tables", REGION, person.access_key, person.secret_key)
    signed = CatalogConnection(seaweed.catalog_address, "shop", sigv4=signing)
    assert ("shop",) in RestCatalog(signed, person.storage).iceberg.list_namespaces()
    wrong = replace(signed, sigv4=replace(signing, secret_key="wrong"))
    catalog = RestCatalog(wrong, person.storage)
    with pytest.raises(AccessRefused, match="signature"):
        catalog.ask(catalog.iceberg.list_namespaces)


class Certificates:
    def __init__(self, folder: Path) -> None:
        authority = Authority("the catalog's")
        self.folder = folder
        self.ca = self._file("ca.pem", authority.pem)
        server, client = authority.issue("catalog", ("127.0.0.1",)), authority.issue("me")
        self.server = (self._file("server.pem", server.chain), self._file("server.key", server.key))
        self.client = (self._file("client.pem", client.chain), self._file("client.key", client.key))

    def _file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)


def test_tls_needs_the_right_authority_and_our_certificate(
    rest_server: str,
    rest_storage: S3Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ME", "me")
    monkeypatch.setenv("MINE", SECRET)
    # What a company's machines often have; it must not win over what the settings say.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certifi.where())
    pem = Certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pem.ca)
    context.load_cert_chain(*pem.server)
    context.verify_mode = ssl.CERT_REQUIRED
    with Gate(rest_server, {"me": Client(SECRET)}, tls=context) as gate:
        certificate, key = pem.client
        ours = RestTls(ca_file=pem.ca, client_certificate_file=certificate, client_key_file=key)
        RestCatalog(replace(connection(gate), tls=ours), rest_storage).ensure_namespace()
        OtherRestCatalog("other", settings(gate, tls=ours.model_dump()), rest_storage).probe()
        untrusted = RestCatalog(connection(gate), rest_storage)
        with pytest.raises(AccessRefused, match="CERTIFICATE_VERIFY_FAILED") as excinfo:
            untrusted.find("anything")
        assert "`tls`" in excinfo.value.next_step
        with pytest.raises(CatalogRefused, match="CERTIFICATE_VERIFY_FAILED"):
            OtherRestCatalog("other", settings(gate), rest_storage).probe()
        nobody = replace(connection(gate), tls=RestTls(ca_file=pem.ca))
        with pytest.raises(ServerUnreachable, match=r"certificate required|reset|closed|EOF"):
            RestCatalog(nobody, rest_storage).find("anything")


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    secure = CatalogConnection("https://127.0.0.1", "shop", tls=RestTls(ca_file=missing))
    with pytest.raises(SettingsError, match=r"missing\.pem"):
        RestCatalog(secure, S3Connection("s3://lake/", "us-east-1")).find("anything")


def test_a_catalog_that_hangs_is_not_waited_for(
    gate: Gate, rest_storage: S3Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = RestCatalog(connection(gate), rest_storage)
    owner.ensure_namespace()
    gate.seconds = 5
    owner.iceberg._session.request.keywords["timeout"] = 0.3  # type: ignore[attr-defined]
    with pytest.raises(ServerUnreachable, match="timed out"):  # else there would be the answer
        owner.find("anything")
    assert rest_session.SECONDS[1] <= 60


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ({"client_id": {"env": "A"}}, "needs both client_id and client_secret"),
        ({"token": {"env": "A"}, "sigv4": {}}, "`token` and `sigv4` are two ways to log in"),
        (
            {"token": {"env": "A"}, "client_id": {"env": "A"}, "client_secret": {"env": "A"}},
            "`client_id` and `token` are two ways to log in",
        ),
        ({"audience": "lake"}, "`audience` goes with `client_id`"),
        ({"oauth2_server_uri": "http://there"}, "`oauth2_server_uri` goes with `client_id`"),
        ({"token": "in plain sight"}, "a secret must not be in this file"),
        ({"tls": {"ca_file": "/ca.pem"}}, "needs a `uri` that begins with https"),
        ({"uri": "https://there", "tls": {"ca_file": "ca.pem"}}, "must be an absolute path"),
        (
            {"uri": "https://there", "tls": {"client_key_file": "/key.pem"}},
            "needs both client_certificate_file and client_key_file",
        ),
        ({"sigv4": {"access_key": {"env": "A"}}}, "needs both access_key and secret_key"),
        ({"sigv4": {"name": "anything"}}, "glue"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(
    block: dict[str, object], why: str
) -> None:
    for kind, more in ((Catalog, {}), (OtherRestSettings, {"type": "rest"})):
        with pytest.raises(ValidationError) as excinfo:
            kind.model_validate({"uri": "http://there", **more, **block})
        assert why in str(excinfo.value)
        assert "in plain sight" not in str(excinfo.value)


def test_settings_become_a_connection_without_showing_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A", "an id")
    monkeypatch.setenv("B", SECRET)
    keys = {"access_key": {"env": "A"}, "secret_key": {"env": "B"}}
    block = {"uri": "https://there", "warehouse": "123456789012", "sigv4": {"region": "r", **keys}}
    signed = catalog_of(Catalog.model_validate(block), "shop")
    assert signed.sigv4 == Signing("glue", "r", "an id", SECRET)
    assert signed.warehouse == "123456789012"
    access = catalog_of(
        Catalog.model_validate({"uri": "https://there", "token": {"env": "B"}}), "shop"
    )
    assert access.token == SECRET
    assert SECRET not in repr(signed) + repr(access)


def test_the_catalogs_own_name_of_the_warehouse_is_what_it_is_asked_for(
    gate: Gate, rest_storage: S3Connection
) -> None:
    RestCatalog(connection(gate, warehouse="the lake"), rest_storage).ensure_namespace()
    RestCatalog(connection(gate), rest_storage).ensure_namespace()
    paths = [path for _, path in gate.requests if "/v1/config" in path]
    assert paths == [
        "/v1/config?warehouse=the+lake",
        "/v1/config?warehouse=s3%3A%2F%2Flake%2F",
    ]
