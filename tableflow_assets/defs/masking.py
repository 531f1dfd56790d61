"""No secret in Dagster's event log: errors of libraries may quote what they were given.

Log records are masked where they are created (`base/masking.py`). An error that ends a step or a tick is
not logged: Dagster turns it into an event, all in one place, which is patched here.
"""

from collections.abc import Callable
from traceback import TracebackException
from typing import Any, cast

from dagster_shared.error import SerializableErrorInfo

from tableflow_assets.base import masking

_Told = Callable[[Any, TracebackException], SerializableErrorInfo]


def mask_secrets() -> None:
    """For this process, whether a code server or a run."""
    masking.install()
    error = cast(Any, SerializableErrorInfo)
    original: _Told = error.from_traceback.__func__
    if original.__name__ != "masked_from_traceback":
        error.from_traceback = classmethod(_masking(original))


def _masking(original: _Told) -> _Told:
    def masked_from_traceback(cls: Any, told: TracebackException) -> SerializableErrorInfo:
        # Its cause and context pass through here on their own.
        error: Any = original(cls, told)
        return cast(
            SerializableErrorInfo,
            error._replace(
                message=masking.masked(error.message),
                stack=[masking.masked(line) for line in error.stack],
            ),
        )

    return masked_from_traceback
