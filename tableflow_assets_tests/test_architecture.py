"""Rules of the code base that no other test would notice to be broken."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tableflow_assets"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Written apart, so that this file does not contain them.
PRIVATE_FOLDERS = tuple(f"/{name}/" for name in ("work", "root"))


def may_know_dagster(module: Path) -> bool:
    return module.is_relative_to(PACKAGE / "defs") or module == PACKAGE / "definitions.py"


def imported_by(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)


def test_the_library_has_modules_on_both_sides_of_the_line() -> None:
    sides = [may_know_dagster(module) for module in MODULES]
    assert sides.count(True) > 5
    assert sides.count(False) > 20


@pytest.mark.parametrize(
    "module",
    [module for module in MODULES if not may_know_dagster(module)],
    ids=lambda module: str(module.relative_to(PACKAGE)),
)
def test_only_the_definitions_import_dagster(module: Path) -> None:
    known = {name.split(".")[0] for name in imported_by(module)}
    assert not {name for name in known if name == "dagster" or name.startswith("dagster_")}


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
