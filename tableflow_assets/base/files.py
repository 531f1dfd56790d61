"""Small files in the state folder."""

from __future__ import annotations

import uuid
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write a temporary file and rename it: processes share the folder, and any may be killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{uuid.uuid4().hex}")
    temporary.write_bytes(content)
    temporary.replace(path)
