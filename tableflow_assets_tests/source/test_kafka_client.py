"""One description of the access, for Python's client and for Java's: no broker is needed here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.base.masking import remember
from tableflow_assets.settings.security import KafkaSecurity
from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.refusals import LONGEST_REASON, readable
from tableflow_assets_tests.source.certificate_authority import Authority
from tableflow_assets_tests.source.java_client import JavaClient, java_client

HOSTILE = [
    "plain",
    'a"b',
    "a'b",
    "back\\slash",
    'ends with \\',
    '\\"',
    '\\\\""\\',
    "semi;colon",
    '"; org.evil.Module required x="',
    "sp ace = sign",
    "${env:HOME} %s {0}",
    "/* comment */ // too",
    "\\n\\t\\061\\u0041",
    "ümlaut-\u4e2d\u6587-\U0001f511",
]  # fmt: skip
AUTHORITY = Authority("tests")


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClient]:
    with java_client() as client:
        yield client


def access(**security: Any) -> KafkaAccess:
    return KafkaAccess("broker:9093", KafkaSecurity.model_validate(security))


def scram() -> KafkaAccess:
    user = {"username": {"env": "USER_NAME"}, "password": {"env": "PASS_WORD"}}
    return access(protocol="sasl_ssl", mechanism="scram-sha-512", **user)


def test_without_security_the_address_is_all() -> None:
    open_to_all = KafkaAccess("broker:9092")
    assert open_to_all.client_config() == {"bootstrap.servers": "broker:9092"}
    assert open_to_all.spark_options() == {"kafka.bootstrap.servers": "broker:9092"}


def test_java_reads_every_password_as_it_was_meant(
    java: JavaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user, password in zip(HOSTILE, reversed(HOSTILE), strict=True):
        monkeypatch.setenv("USER_NAME", user)
        monkeypatch.setenv("PASS_WORD", password)
        assert java.login(scram().spark_options()) == {
            "module": "org.apache.kafka.common.security.scram.ScramLoginModule",
            "username": user,
            "password": password,
        }
        config = scram().client_config()
        assert (config["sasl.username"], config["sasl.password"]) == (user, password)


def test_java_reads_a_client_of_oauth_as_it_was_meant(
    java: JavaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = {"client_id": {"env": "CLIENT"}, "client_secret": {"env": "SECRET"}}
    oauth = {"token_endpoint": "https://id.example/token", "scope": 'a "b" c', **client}
    oauthbearer = access(protocol="sasl_ssl", mechanism="oauthbearer", oauth=oauth)
    monkeypatch.setenv("CLIENT", "cli;ent")
    monkeypatch.setenv("SECRET", 'se"cr\\et')
    assert java.login(oauthbearer.spark_options()) == {
        "module": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
        "clientId": "cli;ent",
        "clientSecret": 'se"cr\\et',
        "scope": 'a "b" c',
    }


@pytest.mark.parametrize("broken", ["new\nline", "at the end\n", "ret\rurn", "ze\x01ro", "\x7f"])
@pytest.mark.parametrize("variable", ["USER_NAME", "PASS_WORD"])
def test_what_java_could_not_read_is_refused_for_both(
    monkeypatch: pytest.MonkeyPatch, broken: str, variable: str
) -> None:
    monkeypatch.setenv("USER_NAME", "somebody")
    monkeypatch.setenv("PASS_WORD", "something")
    monkeypatch.setenv(variable, broken)
    for make in (scram().spark_options, scram().client_config):
        with pytest.raises(SettingsError, match="line break") as caught:
            make()
        assert f"env:{variable}" in caught.value.next_step
        assert broken not in str(caught.value)


def test_a_new_password_is_used_at_the_next_use(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = scram()
    monkeypatch.setenv("USER_NAME", "somebody")
    for password in ("the old one", "the new one"):
        monkeypatch.setenv("PASS_WORD", password)
        assert kafka.client_config()["sasl.password"] == password
        assert f'password="{password}"' in kafka.spark_options()["kafka.sasl.jaas.config"]


def test_without_its_variable_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_NAME", "somebody")
    monkeypatch.delenv("PASS_WORD", raising=False)
    with pytest.raises(SettingsError, match="PASS_WORD is not set"):
        scram().client_config()


def test_the_host_is_checked_unless_told_otherwise() -> None:
    name = "ssl.endpoint.identification.algorithm"
    for is_checked, librdkafka, javas in ((True, "https", "https"), (False, "none", "")):
        kafka = access(protocol="ssl", check_hostname=is_checked)
        assert kafka.client_config()[name] == librdkafka
        assert kafka.spark_options()[f"kafka.{name}"] == javas


def mutual(folder: Path, chain: str, key: str, **more: Any) -> KafkaAccess:
    for name, text in (("ca", AUTHORITY.pem), ("chain", chain), ("key", key)):
        (folder / f"{name}.pem").write_text(text)
    files = {
        "ca_file": str(folder / "ca.pem"),
        "client_certificate_file": str(folder / "chain.pem"),
        "client_key_file": str(folder / "key.pem"),
    }
    return access(protocol="ssl", **files, **more)


def test_any_form_of_key_becomes_the_one_that_java_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_PASSWORD", "opens it")
    issued = AUTHORITY.issue("me")
    password = {"client_key_password": {"env": "KEY_PASSWORD"}}
    for key, more in (
        (issued.key, {}),
        (issued.traditional_key, {}),
        (issued.encrypted_key("opens it"), password),
    ):
        kafka = mutual(tmp_path, issued.chain, key, **more)
        config, options = kafka.client_config(), kafka.spark_options()
        assert config["ssl.ca.pem"] == options["kafka.ssl.truststore.certificates"] == AUTHORITY.pem
        assert config["ssl.certificate.pem"] == options["kafka.ssl.keystore.certificate.chain"]
        assert config["ssl.key.pem"] == options["kafka.ssl.keystore.key"] == issued.key
        assert {options[f"kafka.ssl.{kind}store.type"] for kind in ("trust", "key")} == {"PEM"}


def test_certificates_may_be_secrets_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    issued = AUTHORITY.issue("me")
    for name, pem in (("CA", AUTHORITY.pem), ("CHAIN", issued.chain), ("KEY", issued.key)):
        monkeypatch.setenv(name, pem.replace("\n", "\\n") if name == "CHAIN" else pem)
    names = {"ca": "CA", "client_certificate": "CHAIN", "client_key": "KEY"}
    kafka = access(protocol="ssl", **{key: {"env": name} for key, name in names.items()})
    config = kafka.client_config()
    assert (config["ssl.ca.pem"], config["ssl.certificate.pem"]) == (AUTHORITY.pem, issued.chain)
    assert config["ssl.key.pem"] == issued.key
    assert issued.key.splitlines()[1] not in repr(kafka)


def test_unusable_certificates_and_keys_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_PASSWORD", "wrong one")
    issued, other = AUTHORITY.issue("me"), AUTHORITY.issue("other")
    old = AUTHORITY.issue("me", days=-1)
    password = {"client_key_password": {"env": "KEY_PASSWORD"}}
    locked = issued.encrypted_key("opens it")
    cases: list[tuple[str, str, dict[str, Any], str]] = [
        (issued.chain, other.key, {}, "does not belong to the first certificate"),
        (issued.chain, locked, {}, "is encrypted"),
        (issued.chain, locked, password, "does not open it"),
        (issued.chain, issued.key, password, "is not encrypted"),
        (issued.chain, issued.chain, {}, "holds no private key"),
        ("nothing", issued.key, {}, "client_certificate_file holds no certificates"),
        (old.chain, old.key, {}, "has expired"),
    ]
    for chain, key, more, why in cases:
        kafka = mutual(tmp_path, chain, key, **more)
        for make in (kafka.client_config, kafka.spark_options):
            with pytest.raises(SettingsError, match=why) as caught:
                make()
            assert "kafka.security.client" in caught.value.problem
            assert not any(line in str(caught.value) for line in _lines(key))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing_file = str(tmp_path / "gone.pem")
    with pytest.raises(
        SettingsError, match=r"kafka\.security\.ca_file: the file .*gone\.pem cannot"
    ):
        access(protocol="ssl", ca_file=missing_file).client_config()
    (tmp_path / "gone.pem").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not text"):
        access(protocol="ssl", ca_file=missing_file).client_config()


def test_a_secret_that_a_server_echoes_is_not_shown_by_halves() -> None:
    remember("a-secret-of-ours")
    text = readable("y" * (LONGEST_REASON - 5) + "a-secret-of-ours")
    assert text.startswith("yyy")
    assert "a-se" not in text


def _lines(pem: str) -> Iterator[str]:
    return itertools.islice((line for line in pem.splitlines() if len(line) > 30), 3)
