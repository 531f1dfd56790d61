"""What the documents refer to exists: links, headings, files, modules, options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tableflow_assets.settings.product_options import ProductOptions
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


def missing_code(page: Path) -> Iterator[str]:
    text = page.read_text()
    paths = {*CODE_FILE.findall(text), *CODE_FOLDER.findall(text), *PATH.findall(text)}
    yield from sorted(path for path in paths if not exists(path))
    yield from sorted(name for name in set(DOTTED_NAME.findall(text)) if not resolves(name))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_code_that_a_page_names_exists(page: Path) -> None:
    assert list(missing_code(page)) == []


def test_code_that_is_gone_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`table/gone.py`, `gone/`, tableflow_assets/stack/gone.json, tableflow_assets.gone.Thing,"
        " `table/ledger.py`, `table/`, tableflow_assets.table.ledger.Entry, [x](gone.md)"
    )
    assert list(missing_code(page)) == [
        "gone/",
        "table/gone.py",
        "tableflow_assets/stack/gone.json",
        "tableflow_assets.gone.Thing",
    ]
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
