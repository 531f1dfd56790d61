"""No secrets in logs and errors: whatever this process has read as a secret is masked in its output.

Our own code never writes one, but a library may quote the URL, header or configuration it failed with.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any
from urllib.parse import quote

MASK = "***"
SHORTEST = 6  # masking shorter ones would hide too much else, and nobody should use them
SHORTEST_LINE = 16  # in a secret with several lines, such as a private key
RANDOM_NAME = re.compile(r"(?=.*\d)[A-Za-z0-9]{16,}")
MOST = 2000  # a process that lives for months sees many tokens


def remember(secret: str) -> str:
    """Return the secret; from now on it is masked, also as URLs and JSON encode it."""
    _secrets.learn(_spellings(secret))
    return secret


def remember_name(name: str) -> str:
    """The name of a user or a key: not secret, and masked only if it is random rather than a word."""
    if RANDOM_NAME.fullmatch(name):
        _secrets.learn([name])
    return name


def remember_basic(user: str, password: str) -> None:
    """Mask the header of HTTP basic authentication too, as the password can be read from it."""
    remember(password)
    _secrets.learn([base64.b64encode(f"{user}:{password}".encode()).decode()])


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets that this process knows, nor the ones passed in."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, MASK)
    return _secrets.pattern.sub(MASK, text) if _secrets.pattern is not None else text


def install() -> None:
    """For the whole process: everything that anyone logs, and an error that ends the process."""
    current = logging.getLogRecordFactory()
    if not isinstance(current, _MaskingFactory):
        logging.setLogRecordFactory(_MaskingFactory(current))
    if sys.excepthook is not _print_masked:
        sys.excepthook = _print_masked


def masked_traceback(error: BaseException) -> str:
    return masked("".join(traceback.format_exception(error)).rstrip("\n"))


class _MaskingFactory:
    """Masks where records are created, not in a handler's filter: Dagster adds its handlers later."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, *arguments: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._inner(*arguments, **more)
        if _secrets.pattern is None:
            return record
        try:
            text = record.getMessage()
        except Exception:  # wrong arguments: the handler will report them
            return record
        if (clean := masked(text)) != text:
            record.msg, record.args = clean, None
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.exc_info is not None:
            details = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := masked(details)) != details:
                # Some handlers ignore exc_text and would format the error again, unmasked.
                record.exc_info, record.exc_text = None, clean
        return record


def _print_masked(
    kind: type[BaseException], error: BaseException, location: TracebackType | None
) -> None:
    details = "".join(traceback.format_exception(kind, error, location))
    sys.stderr.write(masked(details))


def _spellings(secret: str) -> list[str]:
    lines = [line.strip() for line in secret.splitlines()]
    several = [
        line
        for line in lines
        if len(lines) > 1 and len(line) >= SHORTEST_LINE and not line.startswith("-----")
    ]
    return [secret, secret.strip(), *several, quote(secret, safe=""), json.dumps(secret)[1:-1]]


class _Secrets:
    """All secrets of this process, as one pattern."""

    pattern: re.Pattern[str] | None = None

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}  # the oldest first
        self._lock = threading.Lock()

    def learn(self, texts: Iterable[str]) -> None:
        secrets = [text for text in texts if len(text) >= SHORTEST]
        if all(text in self._texts for text in secrets):
            return
        with self._lock:
            self._texts.update(dict.fromkeys(secrets))
            while len(self._texts) > MOST:
                del self._texts[next(iter(self._texts))]
            # Longest first: one secret may be a prefix of another.
            by_length = sorted(self._texts, key=len, reverse=True)
            self.pattern = re.compile("|".join(map(re.escape, by_length)))


_secrets = _Secrets()
