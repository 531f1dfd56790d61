"""The retry policies of the whole library, built on tenacity.

- `retry_after_pauses`: a server is down or refuses for a moment: ask again, after growing pauses.
- `retry_on_conflict`: another writer was faster: repeat the work on top of the new state.
- `poll_until`: something is under way: look again until it is done or time is up.

In the end the last error itself is raised, never one of tenacity's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    stop_any,
    stop_never,
    wait_chain,
    wait_fixed,
    wait_none,
    wait_random_exponential,
)

from tableflow_assets.base.errors import CommitConflict

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def retry_after_pauses(
    work: Callable[[], T],
    pauses: Sequence[float],
    on: type[E],
    *,
    on_retry: Callable[[E], object] = lambda _: None,
    before_retry: Callable[[], object] = lambda: None,
) -> T:
    """Try again after each pause (in seconds) while it fails with ``on``; the last failure is raised.

    ``on_retry`` is called with the failure before the pause, ``before_retry`` after it.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(on),
        wait=wait_chain(*map(wait_fixed, pauses), wait_none()),
        stop=stop_after_attempt(len(pauses) + 1),
        before_sleep=_tell(on_retry),
        before=_not_the_first_time(before_retry),
        reraise=True,
    )
    return retrying(work)


def retry_on_conflict(
    work: Callable[[], T],
    attempts: int,
    on: type[E] = CommitConflict,  # type: ignore[assignment]
    *,
    unless: tuple[type[Exception], ...] = (),
    jitter: float = 0.0,
    on_retry: Callable[[E], object] = lambda _: None,
    before_retry: Callable[[], object] = lambda: None,
) -> T:
    """Repeat the work immediately when somebody else was faster; it must read the new state itself.

    ``jitter``: upper bound in seconds, doubled with every try, of a random pause: for work so short
    that the competitors would collide again. ``unless``: kinds of ``on`` that a retry cannot fix.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(on) & retry_if_not_exception_type(unless),
        wait=wait_random_exponential(multiplier=jitter),
        stop=stop_after_attempt(attempts),
        before_sleep=_tell(on_retry),
        before=_not_the_first_time(before_retry),
        reraise=True,
    )
    return retrying(work)


def poll_until(
    is_enough: Callable[[T], object],
    look: Callable[[], T],
    *,
    every: float,
    within: float | None = None,
    looks: int | None = None,
    before_retry: Callable[[], object] = lambda: None,
) -> T:
    """Look again ``every`` so many seconds until ``is_enough``, and return the last answer.

    Also ends after ``within`` seconds or so many ``looks``, but looks at least once. Without either
    limit it polls indefinitely.
    """
    retrying = Retrying(
        retry=retry_if_result(lambda answer: not is_enough(answer)),
        wait=wait_fixed(every),
        stop=stop_any(
            stop_never if within is None else stop_after_delay(within),
            stop_never if looks is None else stop_after_attempt(looks),
        ),
        before=_not_the_first_time(before_retry),
        retry_error_callback=_last_answer,
    )
    return retrying(look)


def _tell(on_retry: Callable[[E], object]) -> Callable[[RetryCallState], None]:
    def tell(state: RetryCallState) -> None:
        error: Any = state.outcome.exception() if state.outcome else None
        on_retry(error)

    return tell


def _not_the_first_time(before_retry: Callable[[], object]) -> Callable[[RetryCallState], None]:
    def call(state: RetryCallState) -> None:
        if state.attempt_number > 1:
            before_retry()

    return call


def _last_answer(state: RetryCallState) -> Any:
    return state.outcome.result() if state.outcome else None
