"""What the documents refer to exists: links, headings, files, modules, options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tableflow_assets.cli import tableflow as tableflow_command
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import SettingsShape, load_settings
from tableflow_assets.settings.topic_options import TopicOptions
from tableflow_assets_tests.rooms import PACKAGE, ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
TESTS = Path(__file__).parent
# What a page calls a file by: its path from the checkout, the package or the tests on.
ROOTS = (ROOT, PACKAGE, TESTS)
CODE_FILE = re.compile(r"`([\w/]+\.(?:py|lock\.json|java|avsc))`")
CODE_FOLDER = re.compile(r"`((?:tableflow_assets(?:_tests)?|[a-z_]+)/(?:[\w/]*/)?)`")
DOTTED_NAME = re.compile(r"\btableflow_assets(?:_tests)?(?:\.\w+)+")
PATH = re.compile(r"\btableflow_assets(?:_tests)?/[\w./]*\w")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A command in code: its words, and the rest of the line or of the code span.
COMMAND = re.compile(
    r"(?:`|^|\$ |\.venv/bin/)tableflow((?: [a-z][\w.-]*)+)([^`\n#]*)", re.MULTILINE
)
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]+")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The headings as GitHub spells them in an address."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def exists(path: str) -> bool:
    return any((root / path).exists() for root in ROOTS)


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or a name that a module defines."""
    module, _, attribute = name.rpartition(".")
    path = ROOT / module.replace(".", "/")
    if (path / attribute).is_dir() or (path / f"{attribute}.py").exists():
        return True
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return source.exists() and re.search(rf"\b{attribute}\b", source.read_text()) is not None


def imported_names(text: str) -> Iterator[str]:
    for block in PYTHON.findall(text):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE.name):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def missing_code(page: Path) -> Iterator[str]:
    text = page.read_text()
    paths = {*CODE_FILE.findall(text), *CODE_FOLDER.findall(text), *PATH.findall(text)}
    names = {*DOTTED_NAME.findall(text), *imported_names(text)}
    yield from sorted(path for path in paths if not exists(path))
    yield from sorted(name for name in names if not resolves(name))


@cache
def help_of(*words: str) -> str | None:
    """What the command says of itself; None where there is no such command."""
    finished = CliRunner().invoke(tableflow_command, [*words, "--help"])
    return finished.output if finished.exit_code == 0 else None


def wrong_commands(page: Path) -> Iterator[str]:
    for words, rest in COMMAND.findall(page.read_text()):
        explained = help_of(*words.split())
        if explained is None:
            yield f"tableflow{words}"
            continue
        missing = [option for option in OPTION.findall(rest) if option not in explained]
        yield from (f"tableflow{words} {option}" for option in missing)


def settings_of(page: Path) -> Iterator[str]:
    """The blocks that are a tableflow.yaml, and not Dagster's or a part of one."""
    for block in YAML.findall(page.read_text()):
        if set(yaml.safe_load(block)) <= set(SettingsShape.model_fields):
            yield block


SETTINGS = [pytest.param(block, id=name_of(page)) for page in PAGES for block in settings_of(page)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_code_that_a_page_names_exists(page: Path) -> None:
    assert list(missing_code(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    assert list(wrong_commands(page)) == []


@pytest.mark.parametrize("block", SETTINGS)
def test_settings_can_be_pasted_as_they_are(block: str, tmp_path: Path) -> None:
    file = tmp_path / "tableflow.yaml"
    file.write_text(block)
    assert load_settings(file).topics


def test_code_that_is_gone_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`table/gone.py`, `gone/`, tableflow_assets/stack/gone.json, tableflow_assets.gone.Thing,"
        " `table/ledger.py`, `table/`, tableflow_assets.table.ledger.Entry, [x](gone.md),"
        " `tableflow gone`, `tableflow status --gone`, `tableflow status --json`\n"
        "```python\nfrom tableflow_assets.table.ledger import Entry, Gone\n```\n"
    )
    assert list(missing_code(page)) == [
        "gone/",
        "table/gone.py",
        "tableflow_assets/stack/gone.json",
        "tableflow_assets.gone.Thing",
        "tableflow_assets.table.ledger.Gone",
    ]
    assert list(wrong_commands(page)) == ["tableflow gone", "tableflow status --gone"]
    assert list(broken_links(page)) == ["gone.md"]


def test_every_page_is_on_the_map() -> None:
    linked = {link.partition("#")[0] for link in LINK.findall((DOCS / "index.md").read_text())}
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages - linked == set()


@pytest.mark.parametrize(
    ("page", "options"),
    [("add-a-topic.md", TopicOptions), ("add-a-product.md", ProductOptions)],
)
def test_every_option_has_its_line(page: str, options: type[TopicOptions | ProductOptions]) -> None:
    text = (DOCS / page).read_text()
    first_cells = " ".join(re.findall(r"^\|([^|]+)\|", text, re.MULTILINE))
    missing = [name for name in options.model_fields if f"`{name}`" not in first_cells]
    assert missing == []
