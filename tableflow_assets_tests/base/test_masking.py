"""No secret in logs, errors and Dagster's events, whoever quotes it."""

import io
import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest
from dagster_shared.error import SerializableErrorInfo

from tableflow_assets.base import masking
from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.defs.masking import mask_secrets

SECRET = 'pa ss/"word+1'


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that other tests have read, and nothing left for them."""
    monkeypatch.setattr(masking, "_secrets", masking._Secrets())
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(
        SerializableErrorInfo, "from_traceback", SerializableErrorInfo.from_traceback
    )
    before = logging.getLogRecordFactory()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.parametrize(
    "text",
    [
        f"the password is {SECRET}",
        f"https://me:{quote(SECRET, safe='')}@host/path",
        json.dumps({"password": SECRET}),
        f"{SECRET}{SECRET}",
    ],
)
def test_a_secret_is_masked_however_it_is_written(text: str) -> None:
    masking.remember(SECRET)
    assert "word" not in masking.masked(text).replace("password", "")
    assert masking.MASK in masking.masked(text)


def test_a_header_of_basic_authentication_is_masked() -> None:
    masking.remember_basic("Aladdin", "open sesame")
    assert masking.masked("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == (
        "Authorization: Basic ***"
    )


def test_of_a_private_key_every_line_is_masked() -> None:
    lines = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    masking.remember(key)
    for text in (key, lines[1], repr(key), json.dumps(key)):
        assert not any(line in masking.masked(text) for line in lines)
    assert masking.masked("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


def test_short_secrets_and_names_that_are_words_leave_texts_readable() -> None:
    masking.remember("abcde")
    masking.remember("abcdef")
    masking.remember_name("tableflow")
    masking.remember_name("AKIAIOSFODNN7EXAMPLE")
    assert masking.masked("abcde of tableflow, abcdef") == "abcde of tableflow, ***"
    assert masking.masked("by AKIAIOSFODNN7EXAMPLE") == "by ***"


def test_a_longer_secret_is_masked_before_one_that_it_begins_with() -> None:
    masking.remember("secret")
    masking.remember("secret-and-more")
    assert masking.masked("secret-and-more, secret") == "***, ***"


def test_secrets_of_long_ago_are_forgotten_and_not_those_of_today(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masking, "MOST", 3)
    for number in range(5):
        masking.remember(f"token-{number}")
    assert masking.masked("token-0 token-4") == "token-0 ***"


def test_texts_are_masked_with_secrets_that_nobody_remembers() -> None:
    assert masking.masked("by token-1", ["token-1", "by"]) == "by ***"


def test_our_errors_do_not_tell_what_a_library_quoted() -> None:
    masking.remember("hunter2-hunter2")
    error = ServerUnreachable("Kafka", "k:1", "sasl.jaas.config=... password='hunter2-hunter2'")
    assert "hunter2" not in str(error)
    assert "hunter2" not in error.problem


def test_logs_are_masked_whoever_writes_and_whoever_handles_them() -> None:
    masking.install()
    masking.install()  # once is enough, twice does no harm
    masking.remember("hunter2-hunter2")
    out, logger = io.StringIO(), logging.getLogger("a.library.that.does.not.propagate")
    logger.propagate, handler = False, logging.StreamHandler(out)
    logger.addHandler(handler)
    try:
        logger.warning("at %s with %r", "host", {"password": "hunter2-hunter2"})
        logger.warning("nothing to hide in %d%%", 5)
        try:
            _fail()
        except RuntimeError:
            logger.exception("it failed")
    finally:
        logger.removeHandler(handler)
    told = out.getvalue()
    assert "hunter2" not in told
    assert "at host with {'password': '***'}" in told
    assert "nothing to hide in 5%" in told
    assert "KeyError: 'no ***'" in told  # the cause
    assert "RuntimeError: https://me:***@host" in told
    assert "in _fail" in told  # a trace, still


def _fail() -> None:
    try:
        raise KeyError("no hunter2-hunter2")
    except KeyError as error:
        raise RuntimeError("https://me:hunter2-hunter2@host") from error


def test_an_error_that_ends_the_process_is_masked(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        from tableflow_assets.base import masking
        masking.install()
        masking.remember("hunter2-" + "hunter2")
        raise RuntimeError("with hunter2-" + "hunter2")
        """)
    )
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "RuntimeError: with ***" in ended.stderr
    assert "hunter2-hunter2" not in ended.stderr


def test_dagsters_events_hold_no_secret_that_a_failed_step_quotes() -> None:
    mask_secrets()
    mask_secrets()
    secret = masking.remember("hunter2-" + "hunter2")

    @dg.op
    def fails(context: dg.OpExecutionContext) -> None:
        context.log.info(f"connecting with {secret}")
        try:
            raise KeyError(f"no {secret}")
        except KeyError as error:
            raise RuntimeError(f"https://me:{secret}@host") from error

    @dg.job
    def failing() -> None:
        fails()

    with dg.DagsterInstance.ephemeral() as instance:
        result = failing.execute_in_process(instance=instance, raise_on_error=False)
        logs = instance.all_logs(result.run_id)
    told = "\n".join(dg.serialize_value(entry) for entry in logs)
    assert not result.success
    assert "RuntimeError: https://me:***@host" in told
    assert "no ***" in told
    assert "connecting with ***" in told
    assert secret not in told
