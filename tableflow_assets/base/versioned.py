"""Files of ours in the state folder: JSON, refused where it says that a newer version wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tableflow_assets.base.errors import NewerFormat
from tableflow_assets.base.files import replace_file

VERSION = 1


def read_versioned(path: Path) -> Any:
    """What was written; a file of 0.1.0 is the bare content. Raises ValueError where it is no JSON."""
    document = json.loads(path.read_text())
    version = document.get("version") if isinstance(document, dict) else None
    if not isinstance(version, int):  # in a bare file, `version` could only be a name, with a text
        return document
    if version > VERSION:
        raise NewerFormat(str(path), f"version {version}; this one knows version {VERSION}")
    return document["content"]


def write_versioned(path: Path, content: Any) -> None:
    # Bare, as 0.1.0 writes it: that version may share the folder, and would garble anything else.
    replace_file(path, json.dumps(content, indent=1).encode())
