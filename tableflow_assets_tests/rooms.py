"""The rooms of the package, in import order, and what each module imports of the others.

`test_architecture.py` holds the order; `python -m tableflow_assets_tests.rooms` draws it into
docs/design.md.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "tableflow_assets"
PACKAGE = ROOT / NAME

# A room imports the rooms above it and nothing below. A file of the top level is a room of its own.
ORDER = (
    "base",  # errors, retries, files, masking, secrets, SQL names, step boundaries
    "settings",  # the file, its blocks, its values
    "lake",  # the object store and the catalog that owns the tables
    "source",  # 1 the log: offsets, plan, readers; the registry
    "decode",  # 2 Avro, JSON, Protobuf, plain; the type mapping
    "table",  # 3 ledger, commit, layout, evolution; keyed, letters, delta
    "publish",  # 4 the catalogs that show the tables
    "pipeline",  # the path of a topic's records, on one page
    "product",  # 5 Spark SQL products
    "verify",  # the judge; see MAY_BE_SHARED_WITH_THE_JUDGE
    "operate",  # what is done to a table by hand or on a schedule
    "jvm",  # Java: the runtime, the archives, our own functions
    "stack",  # the embedded servers, and where all servers are
    "query",  # DuckDB, as-of, saved queries, snippets for other engines
    "tableflow",  # the library's front door
    "follow",  # staying with the log: commits again and again, for all topics
    "labs",  # generators
    "defs",  # Dagster, by subject
    "definitions",  # the code location
    "component",  # the same in another project
    "bench",  # measurements, those of `defs` included
    "chaos",  # faults: it breaks runs of Dagster, too
    "commands",  # the command line, one file a verb
    "cli",
)

# The judge has its own readers of values and keys, of the log and of the table. What it has in common
# with the write path is how servers are reached, and names that both have to agree on.
SHARED_WITH_THE_JUDGE = (
    "base.",
    "settings.",
    "lake.catalog.RestCatalog",  # to load a table; pyiceberg reads it
    "source.kafka_access.",  # addresses and credentials
    "source.kafka_refusals.",
    "source.log.",  # offsets and the topic's identity
    "source.registry.",
    "source.subject.",
    "table.ledger.",  # the format of an entry
    "decode.column_names.",  # how a field is called as a column
    "decode.protobuf.source.",  # the compiler of .proto files
)
DRAWING = ROOT / "docs" / "design.md"
BEGIN, END = "<!-- rooms: drawn by `make rooms` -->\n", "<!-- end of rooms -->\n"


@dataclass(frozen=True)
class Import:
    importer: str  # a module, such as table.delta.mirror
    imported: str  # a module, or a name in one
    path: Path
    line: int

    @property
    def rooms(self) -> tuple[str, str]:
        return room_of(self.importer), room_of(self.imported)

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.importer} imports {self.imported}"


def room_of(module: str) -> str:
    return module.partition(".")[0]


def imports() -> Iterator[Import]:
    """All imports within the package; also those inside functions, which run later."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for each in imports_of(path):
            if each.imported.startswith(f"{NAME}."):
                yield replace(each, imported=each.imported.removeprefix(f"{NAME}."))


def imports_of(path: Path) -> Iterator[Import]:
    importer = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield Import(importer, f"{node.module}.{alias.name}", path, node.lineno)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(importer, alias.name, path, node.lineno)


def edges() -> Counter[tuple[str, str]]:
    """How often one room imports another."""
    between = Counter(each.rooms for each in imports())
    return Counter({rooms: n for rooms, n in between.items() if rooms[0] != rooms[1]})


def drawing() -> str:
    """The rooms as a Mermaid graph: an arrow leads to what is imported, unless a longer way does."""
    direct: dict[str, set[str]] = {room: set() for room in ORDER}
    for importer, imported in edges():
        if importer in direct:  # __init__ only hands out names
            direct[importer].add(imported)
    reach: dict[str, set[str]] = {}
    lines = []
    for room in ORDER:
        reach[room] = direct[room].union(*(reach[below] for below in direct[room]))
        indirect = set().union(*(reach[below] for below in direct[room]))
        lines += [f"  {room} --> {below}" for below in ORDER if below in direct[room] - indirect]
    return "\n".join(["```mermaid", "graph BT", *lines, "```", ""])


def draw() -> None:
    before, _, rest = DRAWING.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DRAWING.write_text(before + BEGIN + drawing() + END + after)


if __name__ == "__main__":
    draw()
