"""`tableflow dead-letters`: the records that could not be read, and their way into the table."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.commands.show import (
    console,
    counted,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.operate.replay import Replayed
    from tableflow_assets.table.letters.read import Letters

PREVIEW_BYTES = 256
STEPS = 4
error_option = click.option("--error", metavar="CLASS", help="Only letters of this class.")


@click.group("dead-letters")
def dead_letters() -> None:
    """Records that could not be read: kept aside, explained, and replayable."""


@dead_letters.command("list")
@click.argument("topic")
@error_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many single letters to show, with --error or --json.",
)
@json_option
def list_letters(topic: str, error: str | None, limit: int, as_json: bool) -> None:
    """What is wrong with a topic's letters, by class; with --error, also where they are."""
    letters = _letters_of(topic)
    classes = letters.classes(error)
    single = letters.listed(limit, error) if as_json or error else []
    if as_json:
        summaries = [error_class.to_json() for error_class in classes]
        print_json({"topic": topic, "classes": summaries, "letters": single})
        return
    if not classes:
        of_class = f" of class {error!r}" if error else ""
        click.echo(f"{topic} has no dead letters{of_class}.")
        return
    columns = ["error", "waiting", "replayed", "skipped", "first seen (UTC)", "last seen (UTC)"]
    rows = [
        [
            *(c.error, c.waiting, c.replayed, c.skipped),
            *(_moment(c.first_seen), _moment(c.last_seen), c.example),
        ]
        for c in classes
    ]
    print_table(f"Dead letters of {topic}", [*columns, "for example at"], rows)
    for error_class in classes:
        _say(f"{error_class.error}: {error_class.message}")
    if single:
        _show_single(single)
    waiting = sum(error_class.waiting for error_class in classes)
    if waiting:
        _say(f"One of them whole: tableflow dead-letters show {topic} {classes[0].example}")
        _say(f"Once they can be read: tableflow dead-letters replay {topic}")


@dead_letters.command()
@click.argument("topic")
@click.argument("place", metavar="PARTITION:OFFSET")
@json_option
def show(topic: str, place: str, as_json: bool) -> None:
    """One letter with all that is known of it; its bytes in hex and as text."""
    numbers = re.fullmatch(r"(\d{1,9}):(\d{1,18})", place)
    if numbers is None:
        raise click.UsageError(f"{place!r} is not PARTITION:OFFSET, as 0:42 is.")
    letter = _letters_of(topic).at(int(numbers[1]), int(numbers[2]))
    if letter is None:
        raise TableflowError(
            f"{topic} has no dead letter at {place}.",
            f"See where they are: tableflow dead-letters list {topic} --error CLASS",
        )
    headers = letter["headers"] or []
    whole = {
        name: value
        for name, value in letter.items()
        if name not in ("key", "value", "headers", "skipped")
    }
    if as_json:
        contents = {name: _as_hex(letter[name]) for name in ("key", "value")}
        hex_headers = [
            {"key": header["key"], "value": _as_hex(header["value"])} for header in headers
        ]
        print_json({"topic": topic, **whole, **contents, "headers": hex_headers})
        return
    for name in ("state", "error", "message", *sorted(set(whole) - {"state", "error", "message"})):
        _say(f"{name:<10} {whole[name]}")
    _show_bytes("key", letter["key"])
    _show_bytes("value", letter["value"])
    for header in headers:
        _show_bytes(f"header {header['key']!r}", header["value"])


@dead_letters.command()
@click.argument("topic")
@error_option
@click.option("--dry-run", is_flag=True, help="Only tell how many can be read by now.")
@json_option
def replay(topic: str, error: str | None, dry_run: bool, as_json: bool) -> None:
    """Put the letters that can be read by now into the table: each once, all in one commit.

    After the cause is mended: the missing schema is registered, or the topic's settings name the right
    serialization. Those that still cannot be read stay letters.
    """
    from tableflow_assets.operate import replay as replaying
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    pipeline = tableflow.pipeline(tableflow.topic(topic))
    if dry_run:
        _show_replayed(replaying.find(pipeline, error), as_json)
        return
    with progress_bar() as progress:
        task = progress.add_task(topic, total=STEPS)

        def on_step(name: str) -> None:
            progress.update(task, advance=1, description=f"{topic}: {name}")

        result = replaying.replay(pipeline, error, run_id="cli", on_step=on_step)
    _show_replayed(result, as_json)


def _show_replayed(result: Replayed, as_json: bool) -> None:
    from tableflow_assets.decode.problems import explanation

    if as_json:
        print_json(asdict(result))
        return
    did = "became rows" if result.is_done else "can be read by now"
    _say(f"{result.topic}: {counted(result.letters, 'letter')} {did}.")
    if result.unreadable:
        rows = [[n, name, explanation(name)] for name, n in sorted(result.unreadable.items())]
        print_table("Still cannot be read", ["letters", "error", "which means"], rows)
    if result.out_of_order:
        _say(
            f"{result.out_of_order} letters can be read but stay aside: the log no longer holds what"
            " came after them, so nobody knows whether they are the last word on their keys. Write"
            " these records to the topic again; or rebuild the table from what the log holds, without"
            f" them: tableflow rebuild {result.topic}"
        )
    if result.letters and not result.is_done:
        _say("Nothing was changed. Without --dry-run they become rows.")


def _letters_of(topic: str) -> Letters:
    from tableflow_assets.table.known_tables import refuse_a_vanished_table
    from tableflow_assets.table.letters.read import letters_of
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    spec = tableflow.topic(topic)
    table = tableflow.catalog.find(spec.table)
    if table is None or table.current_snapshot() is None:
        refuse_a_vanished_table(tableflow.settings.state_dir, spec, tableflow.catalog.namespace)
        raise TableflowError(
            f"The topic {topic!r} has no table yet.", f"Make it: tableflow materialize {topic}"
        )
    return letters_of(tableflow.catalog, spec, table)


def _show_single(letters: list[dict[str, Any]]) -> None:
    columns = ["at", "state", "written at (UTC)", "schema id", "run", "last seen (UTC)"]
    rows = [
        [
            f"{letter['partition']}:{letter['offset']}",
            letter["state"],
            _moment(letter["timestamp"]),
            letter["schema_id"],
            letter["run_id"],
            _moment(letter["last_seen"]),
        ]
        for letter in letters
    ]
    print_table(f"The first {len(letters)}", columns, rows)


def _show_bytes(name: str, data: bytes | None) -> None:
    """Like `hexdump`: bytes on the left, their printable characters on the right."""
    if data is None:
        _say(f"{name}: none")
        return
    cut = f", the first {PREVIEW_BYTES}" if len(data) > PREVIEW_BYTES else ""
    _say(f"{name}: {len(data)} bytes{cut}")
    for start in range(0, min(len(data), PREVIEW_BYTES), 16):
        line = data[start : start + 16]
        text = "".join(c if c.isascii() and c.isprintable() else "." for c in map(chr, line))
        _say(f"  {start:04x}  {line.hex(' '):<47}  {text}")


def _as_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _moment(moment: Any) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def _say(line: str) -> None:
    """Without markup or control characters: producers may have written anything."""
    printable = "".join(c if c.isprintable() else "�" for c in line)
    console.print(printable, markup=False, highlight=False, soft_wrap=True)
