"""The real catalog behind a line that breaks once."""

from __future__ import annotations

from typing import Any

from requests.exceptions import ConnectionError as RequestsConnectionError

from tableflow_assets.lake.catalog import RestCatalog


class FlakyIceberg:
    """The first commit breaks: after it went through, or before it arrived."""

    def __init__(self, real: Any, *, commits_first: bool) -> None:
        self._real = real
        self._commits_first = commits_first
        self.breaks = 1

    def commit_table(self, *arguments: Any) -> Any:
        if self.breaks == 0:
            return self._real.commit_table(*arguments)
        self.breaks -= 1
        if self._commits_first:
            self._real.commit_table(*arguments)
        raise RequestsConnectionError("the line broke")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def flaky(catalog: RestCatalog, *, commits_first: bool) -> RestCatalog:
    copy = RestCatalog(catalog.connection, catalog.storage)
    copy.__dict__["iceberg"] = FlakyIceberg(catalog.iceberg, commits_first=commits_first)
    return copy
