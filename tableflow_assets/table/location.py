"""A table in a bucket or folder of its own: the topic's `location`, fixed when the table is created."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import BadRequestError, ValidationError
from pyiceberg.table import Table

from tableflow_assets.base.errors import LocationChanged, SettingsError
from tableflow_assets.settings.managed_table import ManagedTable

PROPERTY = "tableflow.location"  # the topic's option, as it was when the table was created


def own_location(topic: ManagedTable, namespace: str, table: str) -> str | None:
    """None: the catalog chooses.

    Topics may share a `location`, by the defaults or a pattern, and each has a second table for its dead
    letters: so every table gets a folder of its own there.
    """
    if topic.location is None:
        return None
    return f"{topic.location.rstrip('/')}/{namespace}/{table}"


def location_property(topic: ManagedTable) -> dict[str, str]:
    return {PROPERTY: topic.location} if topic.location else {}


def refuse_another_location(table: Table, topic: ManagedTable) -> None:
    original = table.properties.get(PROPERTY, "")
    if original.rstrip("/") == (topic.location or "").rstrip("/"):
        return
    namespace, name = table.name()
    if table.location().rstrip("/") == own_location(topic, namespace, name):
        return
    setting = f"`location: {topic.location}`" if topic.location else "no `location`"
    way_back = f"location: {original}" if original else "leave `location` out"
    raise LocationChanged(
        f"The table {namespace}.{name} lies at {table.location()}; the settings now say {setting} for"
        f" {topic.name!r}. A table does not move, not even by a rebuild.",
        f"Set it back ({way_back}). To have it in the other place: drop the table in the catalog, keep its"
        f" files, and run `tableflow rebuild {topic.name}`, which builds it again from what the log holds:"
        " rows that it no longer holds stay behind in the old files.",
    )


@contextmanager
def refused_location_named(location: str | None) -> Iterator[None]:
    try:
        yield
    except (BadRequestError, ValidationError) as error:
        if location is None:
            raise
        raise SettingsError(
            f"The catalog does not make a table at {location}: {error}",
            "Let the catalog's storage settings allow that place, or take `location` out of the topic's"
            " settings: the catalog then chooses.",
        ) from error
