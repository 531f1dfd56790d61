"""Small files of the state folder."""

from __future__ import annotations

import uuid
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Written aside and moved: several processes share the folder, and one may be killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{uuid.uuid4().hex}")
    aside.write_bytes(content)
    aside.replace(path)
