"""The real object store behind a door that refuses some writes, and tells what it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tableflow_assets_tests.support.door import Answer, PassOn, Request, door


def failing_store(
    endpoint: str,
    refuses: Callable[[str], bool] = lambda _: False,
    on_request: Callable[[str], object] = lambda _: None,
) -> AbstractContextManager[str]:
    """The address of a store that answers 503 to a PUT whose path is refused, and else passes on."""

    def treat(request: Request, pass_on: PassOn) -> Answer:
        on_request(request.path)
        is_refused = request.method == "PUT" and refuses(request.path)
        return Answer(503) if is_refused else pass_on()

    return door(endpoint, treat)
