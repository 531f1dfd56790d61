"""Long texts in a table's metadata, packed.

Every snapshot repeats its summary in each metadata.json, hundreds at a time. An entry of the ledger with
1,000 partitions has about 36 KB as plain JSON, and a third of that packed.
"""

from __future__ import annotations

import base64
import zlib

# Shorter texts stay as they are: everybody can read them, and they cost little.
PLAIN_UP_TO = 4096
_MARK = "zlib:"


def packed(text: str) -> str:
    if len(text) <= PLAIN_UP_TO:
        return text
    return _MARK + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> str:
    if not text.startswith(_MARK):
        return text
    return zlib.decompress(base64.b64decode(text.removeprefix(_MARK))).decode()
