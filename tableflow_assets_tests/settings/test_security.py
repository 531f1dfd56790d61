"""What `kafka.security` and `registry` may say, and what contradicts itself."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent

import pytest

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.settings.settings import Settings, load_settings
from tableflow_assets.stack import connections

USER = "username: {env: KAFKA_USER}\npassword: {env: KAFKA_PASSWORD}"
SCRAM = f"protocol: sasl_ssl\nmechanism: scram-sha-512\n{USER}"
CLIENT = "client_id: {env: A}, client_secret: {env: B}"
OAUTH = f"oauth: {{token_endpoint: 'https://id.example/token', {CLIENT}}}"
PAIR = "client_certificate: {env: CERT}\nclient_key: {env: KEY}"


def load(folder: Path, text: str) -> Settings:
    path = folder / "tableflow.yaml"
    path.write_text(text)
    return load_settings(path)


def with_security(folder: Path, text: str) -> Settings:
    head = "kafka:\n  bootstrap_servers: broker:9093\n  security:\n"
    return load(folder, head + indent(text, "    "))


@pytest.mark.parametrize(
    "text",
    [
        "protocol: plaintext",
        "protocol: ssl",
        f"protocol: ssl\nca_file: /etc/ca.pem\n{PAIR}\nclient_key_password: {{env: P}}",
        "protocol: ssl\nclient_certificate_file: /c.pem\nclient_key_file: ~/k.pem",
        SCRAM,
        f"{SCRAM}\nca: {{env: CA}}\ncheck_hostname: false",
        f"protocol: sasl_plaintext\nmechanism: plain\n{USER}",
        f"protocol: sasl_ssl\nmechanism: oauthbearer\n{OAUTH}",
    ],
)
def test_what_fits_together_is_taken(tmp_path: Path, text: str) -> None:
    settings = with_security(tmp_path, text)
    assert settings.kafka and settings.kafka.security
    access = connections.kafka_access(settings)
    assert (access.bootstrap_servers, access.security) == ("broker:9093", settings.kafka.security)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mechanism: plain", "protocol: missing"),
        ("protocol: tls", "allowed: plaintext, ssl, sasl_plaintext, sasl_ssl"),
        (f"protocol: sasl_ssl\n{USER}", "`protocol: sasl_ssl` needs a `mechanism`"),
        (f"protocol: sasl_ssl\nmechanism: SCRAM-SHA-512\n{USER}", "mean 'scram-sha-512'"),
        ("protocol: sasl_ssl\nmechanism: plain", "needs `username` and `password`"),
        (f"protocol: ssl\nmechanism: plain\n{USER}", "`password` is for SASL, and `protocol: ssl`"),
        (f"{SCRAM}\n{OAUTH}", "`oauth` is for `mechanism: oauthbearer`"),
        ("protocol: sasl_ssl\nmechanism: oauthbearer", "needs `oauth`"),
        (f"protocol: sasl_ssl\nmechanism: oauthbearer\n{OAUTH}\n{USER}", "`username` is not for"),
        ("protocol: plaintext\nca_file: /ca.pem", "`ca_file` is for TLS"),
        (
            f"protocol: sasl_plaintext\nmechanism: plain\n{USER}\ncheck_hostname: false",
            "`check_hostname` is for TLS",
        ),
        ("protocol: ssl\nca_file: /ca.pem\nca: {env: CA}", "`ca_file` and `ca` are two ways"),
        ("protocol: ssl\nclient_key: {env: KEY}", "needs its key, and a key its certificate"),
        ("protocol: ssl\nclient_certificate: {env: C}", "needs its key, and a key its certificate"),
        ("protocol: ssl\nclient_key_password: {env: P}", "`client_key_password` is that of a key"),
        ("protocol: ssl\nca_file: ca.pem", "must be an absolute path"),
        (f"{SCRAM}\nsasl: true", "unknown key"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        with_security(tmp_path, text)
    assert why in caught.value.problem
    assert "kafka.security" in caught.value.problem


def test_all_contradictions_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        with_security(tmp_path, "protocol: sasl_plaintext\nca_file: /ca.pem")
    assert "needs a `mechanism`" in caught.value.problem
    assert "`ca_file` is for TLS" in caught.value.problem


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("url: https://r\n  username: {env: A}", "needs both username and password"),
        (
            "url: https://r\n  token: {env: T}\n  username: {env: A}\n  password: {env: B}",
            "`token` and `username` are two ways",
        ),
        ("url: http://r\n  ca_file: /ca.pem", "the `url` must begin with https://"),
        ("url: https://r\n  client_key: {env: KEY}", "needs its key, and a key its certificate"),
        ("url: https://r\n  logical_cluster: lsrc-1", "goes with a `token`"),
    ],
)
def test_contradictions_of_the_registry_are_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f"registry:\n  {text}\n")
    assert why in caught.value.problem


@pytest.mark.parametrize("key", ["username", "password", "client_key", "ca"])
def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path, key: str) -> None:
    with pytest.raises(SettingsError, match="must not be in this file") as caught:
        with_security(tmp_path, f"protocol: sasl_ssl\nmechanism: plain\n{key}: hunter2hunter2")
    assert "hunter2" not in str(caught.value)


def test_what_is_shown_names_the_variables_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2hunter2")
    monkeypatch.delenv("KAFKA_USER", raising=False)
    settings = with_security(tmp_path, SCRAM)
    shown = json.dumps(settings.show()) + repr(settings) + repr(connections.kafka_access(settings))
    assert "env:KAFKA_PASSWORD (set)" in shown
    assert "env:KAFKA_USER (not set)" in shown
    assert "hunter2" not in shown
