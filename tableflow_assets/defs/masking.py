"""No secret in Dagster's event log: errors of libraries may quote what they were given.

What is logged is masked where the record is made (`base/masking.py`). An error that ends a step
or a tick is not logged: Dagster makes an event of it, in one place for all of them, which is mended here.
"""

from collections.abc import Callable
from traceback import TracebackException
from typing import Any, cast

from dagster_shared.error import SerializableErrorInfo

from tableflow_assets.base import masking

_Told = Callable[[Any, TracebackException], SerializableErrorInfo]


def mask_secrets() -> None:
    """For this process, be it a code server or a run."""
    masking.install()
    error = cast(Any, SerializableErrorInfo)
    original: _Told = error.from_traceback.__func__
    if original.__name__ != "masked_from_traceback":
        error.from_traceback = classmethod(_masking(original))


def _masking(original: _Told) -> _Told:
    def masked_from_traceback(cls: Any, told: TracebackException) -> SerializableErrorInfo:
        # Its cause and context come this way by themselves.
        error: Any = original(cls, told)
        return cast(
            SerializableErrorInfo,
            error._replace(
                message=masking.masked(error.message),
                stack=[masking.masked(line) for line in error.stack],
            ),
        )

    return masked_from_traceback
