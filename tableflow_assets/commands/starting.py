"""The embedded servers for the length of a command, which reports what it is waiting for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

if TYPE_CHECKING:
    from tableflow_assets.base.disk_space import DiskSpace
    from tableflow_assets.stack.stack import Stack

FETCHING = "Fetching the servers' archives"
LINE_EVERY_SECONDS = 3.0
MEGABYTE = 10**6

OnDownload = Callable[[int, int], None]  # bytes so far, bytes in all


@contextlib.contextmanager
def running_stack(
    folder: Path,
    console: Console,
    *,
    dagster: bool = False,
    generators: bool = False,
    disk: DiskSpace | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[Stack]:
    """The servers are ready inside the context and stopped after it."""
    console.print("Starting the servers …")
    from tableflow_assets.stack.stack import Stack  # takes a second, and more the first time

    def tell_ready(server: str, seconds: float) -> None:
        console.print(f"  {server} is ready after {seconds:.0f} s", highlight=False)

    with contextlib.ExitStack() as download:
        stack = Stack(
            folder,
            dagster=dagster,
            generators=generators,
            disk=disk,
            report=report,
            on_ready=tell_ready,
            on_download=download.enter_context(download_progress(console)),
        )
        try:
            stack.start()
            download.close()
            yield stack
        finally:
            console.print("Stopping the servers …")
            stack.stop()


@contextlib.contextmanager
def download_progress(console: Console) -> Iterator[OnDownload]:
    """Only shown if something is downloaded: a bar on a terminal, otherwise a line now and then."""
    with contextlib.ExitStack() as display:
        yield _bar(console, display) if console.is_terminal else _lines(console)


def _bar(console: Console, display: contextlib.ExitStack) -> OnDownload:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    progress = Progress(*columns, TransferSpeedColumn(), console=console, transient=True)

    def update(done: int, total: int) -> None:
        if not progress.tasks:
            progress.add_task(FETCHING, total=total)
            display.enter_context(progress)
        progress.update(progress.tasks[0].id, completed=min(done, total))

    return update


def _lines(console: Console) -> OnDownload:
    next_line = 0.0

    def update(done: int, total: int) -> None:
        nonlocal next_line
        if time.monotonic() >= next_line:
            next_line = time.monotonic() + LINE_EVERY_SECONDS
            so_far = f"{min(done, total) // MEGABYTE} of {total // MEGABYTE} MB"
            console.print(f"{FETCHING}: {so_far}", highlight=False)

    return update
