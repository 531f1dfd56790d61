"""Rules of the code base that no other test would notice to be broken."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tableflow_assets_tests import rooms
from tableflow_assets_tests.rooms import PACKAGE, ROOT

DAGSTERS_MODULES = (PACKAGE / "definitions.py", PACKAGE / "component.py")
MODULES = sorted(PACKAGE.rglob("*.py"))
# Written apart, so that this file does not contain them.
PRIVATE_FOLDERS = tuple(f"/{name}/" for name in ("work", "root"))


def may_know_dagster(module: Path) -> bool:
    return module.is_relative_to(PACKAGE / "defs") or module in DAGSTERS_MODULES


def test_the_library_has_modules_on_both_sides_of_the_line() -> None:
    sides = [may_know_dagster(module) for module in MODULES]
    assert sides.count(True) > 5
    assert sides.count(False) > 20


def test_only_the_definitions_import_dagster() -> None:
    offending = [
        str(each)
        for module in MODULES
        if not may_know_dagster(module)
        for each in rooms.imports_of(module)
        if each.imported.partition(".")[0].startswith("dagster")
    ]
    assert offending == []


def test_every_room_has_its_place_in_the_order() -> None:
    there = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES}
    assert there - {"__init__"} == set(rooms.ORDER)


def test_at_most_eight_modules_lie_at_the_top() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_no_room_imports_one_below_it() -> None:
    place = {room: index for index, room in enumerate(rooms.ORDER)}
    offending = [
        str(each)
        for each in rooms.imports()
        if each.rooms[0] != "__init__" and place[each.rooms[0]] < place[each.rooms[1]]
    ]
    assert offending == []


def test_the_judge_shares_with_the_write_path_only_what_is_listed() -> None:
    offending = [
        str(each)
        for each in rooms.imports()
        if each.rooms[0] == "verify"
        and each.rooms[1] != "verify"
        and not each.imported.startswith(rooms.SHARED_WITH_THE_JUDGE)
    ]
    assert offending == []


def test_the_drawing_of_the_rooms_is_up_to_date() -> None:
    assert rooms.BEGIN + rooms.drawing() + rooms.END in rooms.DRAWING.read_text(), "run: make rooms"


def test_no_file_names_a_folder_of_the_machine_it_was_written_on() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607  (git is wherever the machine has it)
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert files
    private = [
        f"{path.relative_to(ROOT)}: {folder}"
        for path in files
        for folder in PRIVATE_FOLDERS
        if path.is_file() and folder.encode() in path.read_bytes()
    ]
    assert private == []
