"""For pyiceberg: a few lines of Python."""

from __future__ import annotations

from tableflow_assets.query.snippets.access import Access, Hidden, Value, rendered
from tableflow_assets.query.snippets.iceberg import iceberg_properties

HEAD = "from pyiceberg.catalog import load_catalog"


def snippet(access: Access) -> str:
    values = properties(access)
    is_hidden = any(isinstance(part, Hidden) for value in values.values() for part in value)
    lines = [f"        {key!r}: {_in_python(value)}," for key, value in values.items()]
    return "\n".join(
        [
            *(["import os", ""] if is_hidden else ()),
            HEAD,
            "",
            "catalog = load_catalog(",
            '    "tableflow",',
            "    **{",
            *lines,
            "    },",
            ")",
            f"table = catalog.load_table(({access.namespace!r}, {access.table!r}))",
            "print(table.scan(limit=10).to_arrow())",
        ]
    )


def properties(access: Access) -> dict[str, Value]:
    return iceberg_properties(access, {"s3.region": (access.storage.region,)}, "client")


def _in_python(value: Value) -> str:
    if not any(isinstance(part, Hidden) for part in value):
        return repr("".join(value))
    return " + ".join(rendered(value, repr, lambda name: f'os.environ["{name}"]'))
