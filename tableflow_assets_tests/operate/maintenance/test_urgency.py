"""How much a table needs maintenance: by what every reader opens and every commit writes again."""

import pytest

from tableflow_assets.operate.maintenance.file_groups import FileGroup
from tableflow_assets.operate.maintenance.health import Health, Kind, Need, Remedy, Window
from tableflow_assets.operate.maintenance.urgency import urgency
from tableflow_assets.settings.managed_table import ManagedTable

TABLE = ManagedTable(name="payments", max_snapshots=10)


def window(small_files: int, delete_files: int = 0, remedy: Remedy = "pack") -> Window:
    return Window(
        name="2026-11-18",
        files=50,
        small_files=small_files,
        bytes=1,
        rows=1,
        dead_rows=0,
        delete_files=delete_files,
        is_newest=False,
        remedy=remedy,
        why="",
        group=FileGroup("2026-11-18"),
    )


def needs(*kinds: Kind) -> tuple[Need, ...]:
    return tuple(Need(kind, "") for kind in kinds)


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        (Health("a", windows=(window(5),), snapshots=99, manifests=99), 0),  # nothing is needed
        (Health("a", needs=needs("orphans", "metadata"), snapshots=10), 2),
        (Health("a", (window(5), window(7, 2)), needs("compact")), 15),
        (Health("a", (window(5), window(7, remedy="")), needs("compact")), 6),
        (Health("a", needs=needs("compact"), letters=window(12)), 13),
        (Health("a", needs=needs("expire"), snapshots=25, manifests=60), 16),
        (Health("a", needs=needs("manifests"), manifests=60), 61),
    ],
)
def test_what_need_not_be_there_is_added_up(health: Health, expected: int) -> None:
    assert urgency(health, TABLE) == expected
