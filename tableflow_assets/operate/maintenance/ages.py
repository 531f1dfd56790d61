"""How old something must be before it can be removed without hurting anybody who still uses it."""

from __future__ import annotations

from datetime import timedelta

from tableflow_assets.base.errors import MaintenanceFailed
from tableflow_assets.settings.values import age_text


def refuse_too_young(subject: str, age: timedelta, at_least: timedelta, because: str) -> None:
    if age < at_least:
        raise MaintenanceFailed(
            f"{subject} are not removed at an age of only {age_text(age)}: {because}.",
            f"Choose {age_text(at_least)} or more or, if nobody else uses the table now, --force.",
        )
