"""No secret in logs and errors: what was read as a secret in this process is taken out of texts.

Our own code never writes one. But a library may quote the URL, header or configuration that it failed with.
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
SHORTEST = 6  # of shorter ones too much else would be masked, and nobody should have them
SHORTEST_LINE = 16  # of a secret with several lines, such as a private key
RANDOM_NAME = re.compile(r"(?=.*\d)[A-Za-z0-9]{16,}")
MOST = 2000  # a process that lives for months sees many tokens


def remember(secret: str) -> str:
    """The secret as it is; from now on it is masked, also in the ways that a URL or JSON write it."""
    _seen.learn(_spellings(secret))
    return secret


def remember_name(name: str) -> str:
    """Of a user or a key: no secret, and masked only where it is a random one, not a word of ours."""
    if RANDOM_NAME.fullmatch(name):
        _seen.learn([name])
    return name


def remember_basic(user: str, password: str) -> None:
    """As the header of HTTP's basic authentication has it, from which the password can be read."""
    remember(password)
    _seen.learn([base64.b64encode(f"{user}:{password}".encode()).decode()])


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets that this process knows, and without those given."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, MASK)
    return _seen.pattern.sub(MASK, text) if _seen.pattern is not None else text


def install() -> None:
    """For the whole process: whatever is logged, by whomever, and an error that ends the process."""
    current = logging.getLogRecordFactory()
    if not isinstance(current, _MaskingFactory):
        logging.setLogRecordFactory(_MaskingFactory(current))
    if sys.excepthook is not _print_masked:
        sys.excepthook = _print_masked


def masked_traceback(error: BaseException) -> str:
    return masked("".join(traceback.format_exception(error)).rstrip("\n"))


class _MaskingFactory:
    """Where a record is made, and not a filter of some handler: Dagster's handlers come later."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, *arguments: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._inner(*arguments, **more)
        if _seen.pattern is None:
            return record
        try:
            text = record.getMessage()
        except Exception:  # wrong arguments: whoever handles the record says so
            return record
        if (clean := masked(text)) != text:
            record.msg, record.args = clean, None
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.exc_info is not None:
            told = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := masked(told)) != told:
                # The error itself would be formatted anew by handlers that do not look at this text.
                record.exc_info, record.exc_text = None, clean
        return record


def _print_masked(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    told = "".join(traceback.format_exception(kind, error, where))
    sys.stderr.write(masked(told))


def _spellings(secret: str) -> list[str]:
    lines = [line.strip() for line in secret.splitlines()]
    several = [
        line
        for line in lines
        if len(lines) > 1 and len(line) >= SHORTEST_LINE and not line.startswith("-----")
    ]
    return [secret, secret.strip(), *several, quote(secret, safe=""), json.dumps(secret)[1:-1]]


class _Seen:
    """All secrets of this process, as one pattern."""

    pattern: re.Pattern[str] | None = None

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}  # the oldest first
        self._lock = threading.Lock()

    def learn(self, texts: Iterable[str]) -> None:
        wanted = [one for one in texts if len(one) >= SHORTEST]
        if all(one in self._texts for one in wanted):
            return
        with self._lock:
            self._texts.update(dict.fromkeys(wanted))
            while len(self._texts) > MOST:
                del self._texts[next(iter(self._texts))]
            # The longest first: one secret may be the beginning of another.
            by_length = sorted(self._texts, key=len, reverse=True)
            self.pattern = re.compile("|".join(map(re.escape, by_length)))


_seen = _Seen()
