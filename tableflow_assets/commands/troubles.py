"""What is wrong with the embedded servers and their disk, for the commands that show how things are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tableflow_assets.commands.show import console

if TYPE_CHECKING:
    from tableflow_assets.settings.settings import Settings
    from tableflow_assets.stack.state import StackState


def troubles(settings: Settings, state: StackState) -> list[str]:
    """One line each; none if all is well."""
    from tableflow_assets.stack.connections import disk_space

    disk = disk_space(settings)
    of_servers = (
        f"{name} {record.problem}" for name, record in state.processes.items() if record.problem
    )
    return [*of_servers, *([warning] if disk and (warning := disk.warning) else [])]


def tell(lines: list[str]) -> None:
    for line in lines:
        console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
