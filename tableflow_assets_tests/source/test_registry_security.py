"""The registry's doors: basic authentication, a token, TLS, a certificate of ours."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tableflow_assets.base.errors import AccessRefused, SettingsError
from tableflow_assets.settings.security import Registry as RegistrySettings
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.registry_access import RegistryAccess
from tableflow_assets_tests.source.certificate_authority import Authority
from tableflow_assets_tests.source.registry_stub import SUBJECT, RegistryStub

AUTHORITY, STRANGER = Authority("tests"), Authority("stranger")
USER = {"username": {"env": "REGISTRY_USER"}, "password": {"env": "REGISTRY_PASSWORD"}}


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[RegistryStub]:
    with RegistryStub().running(tmp_path) as running:
        yield running


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_USER", "reader")
    monkeypatch.setenv("REGISTRY_PASSWORD", "pass:word€")
    monkeypatch.setenv("REGISTRY_TOKEN", "a-token-of-ours")


def registry(stub: RegistryStub, cache: Path | None = None, **options: Any) -> Registry:
    settings = RegistrySettings.model_validate({"url": stub.url, **options})
    return Registry(RegistryAccess(stub.url, settings), cache)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def refused(client: Registry) -> AccessRefused:
    began = time.monotonic()
    with pytest.raises(AccessRefused) as caught:
        client.subject(SUBJECT)
    assert time.monotonic() - began < 20
    assert caught.value.server == "The schema registry"
    assert caught.value.address == client.url
    return caught.value


def test_a_user_with_a_password_gets_in_and_a_new_password_is_used_at_once(
    stub: RegistryStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.may_enter = lambda headers: headers.get("Authorization") == basic("reader", "pass:word€")
    client = registry(stub, **USER)
    assert client.subject(SUBJECT).versions[0].schema_id == 7
    stub.may_enter = lambda headers: headers.get("Authorization") == basic("reader", "the-next-one")
    assert "401" in refused(client).problem
    monkeypatch.setenv("REGISTRY_PASSWORD", "the-next-one")
    assert client.latest_version(SUBJECT) == 1


def test_a_token_is_sent_as_it_is(stub: RegistryStub, monkeypatch: pytest.MonkeyPatch) -> None:
    sent_headers: dict[str, str] = {}

    def may_enter(headers: dict[str, str]) -> bool:
        sent_headers.update(headers)
        return headers.get("Authorization") == "Bearer a-token-of-ours"

    stub.may_enter = may_enter
    client = registry(stub, token={"env": "REGISTRY_TOKEN"}, logical_cluster="lsrc-1")
    assert client.subject(SUBJECT).versions
    assert sent_headers["target-sr-cluster"] == "lsrc-1"
    assert registry(stub, token={"env": "REGISTRY_TOKEN"}).subject(SUBJECT).versions
    monkeypatch.setenv("REGISTRY_TOKEN", "expired-token")
    assert "token" in refused(client).next_step
    monkeypatch.setenv("REGISTRY_TOKEN", "with-a-line-break\n")
    with pytest.raises(SettingsError, match=r"registry\.token"):
        client.subject(SUBJECT)


@pytest.mark.parametrize(("status", "step"), [(401, "password"), (403, "Grant")])
def test_a_refusal_is_named_without_the_secret_and_not_papered_over_by_the_cache(
    stub: RegistryStub, tmp_path: Path, status: int, step: str
) -> None:
    client = registry(stub, tmp_path / "cache", **USER)
    assert client.subject(SUBJECT).versions
    stub.may_enter = lambda _: False
    stub.refusal, stub.echo = status, "pass:word€ " + basic("reader", "pass:word€")
    error = refused(client)
    assert str(status) in error.problem and "not you" in error.problem
    assert step in error.next_step
    text = f"{error!r}"
    assert "pass:word" not in text and basic("reader", "pass:word€")[6:] not in text
    with pytest.raises(AccessRefused):
        client.find_subject(SUBJECT)


def test_a_user_name_that_no_header_can_have_is_refused(
    stub: RegistryStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_USER", "rea:der")
    with pytest.raises(SettingsError, match="colon"):
        registry(stub, **USER).subject(SUBJECT)


def test_https_is_trusted_by_the_authority_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CA", AUTHORITY.pem)
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    (tmp_path / "stranger.pem").write_text(STRANGER.pem)
    with RegistryStub().running(tmp_path, AUTHORITY.issue("registry", ("127.0.0.1",))) as stub:
        for authority in ({"ca_file": str(tmp_path / "ca.pem")}, {"ca": {"env": "CA"}}):
            assert registry(stub, **authority).subject(SUBJECT).versions
        for authority in ({"ca_file": str(tmp_path / "stranger.pem")}, {}):
            assert "registry.ca_file" in refused(registry(stub, **authority)).next_step


@pytest.mark.parametrize(
    ("hosts", "days", "reason", "step"),
    [
        (("127.0.0.1",), -1, "certificate has expired", "renew"),
        (("elsewhere.example",), 30, "mismatch", "name that its certificate has"),
    ],
)
def test_a_certificate_that_does_not_fit_is_named(
    tmp_path: Path, hosts: tuple[str, ...], days: int, reason: str, step: str
) -> None:
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    with RegistryStub().running(tmp_path, AUTHORITY.issue("registry", hosts, days)) as stub:
        error = refused(registry(stub, ca_file=str(tmp_path / "ca.pem")))
    assert reason in error.problem
    assert step in error.next_step


def test_a_certificate_of_ours_opens_and_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    issued = AUTHORITY.issue("us")
    for name, text in (("CHAIN", issued.chain), ("KEY", issued.encrypted_key("of the key"))):
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("KEY_PASSWORD", "of the key")
    certificate = {
        "client_certificate": {"env": "CHAIN"},
        "client_key": {"env": "KEY"},
        "client_key_password": {"env": "KEY_PASSWORD"},
    }
    server = AUTHORITY.issue("registry", ("127.0.0.1",))
    with RegistryStub().running(tmp_path, server, AUTHORITY) as stub:
        ca = {"ca_file": str(tmp_path / "ca.pem")}
        assert registry(stub, **ca, **certificate).subject(SUBJECT).versions
        assert "client_certificate_file" in refused(registry(stub, **ca)).next_step
    assert list(scratch.iterdir()) == []
