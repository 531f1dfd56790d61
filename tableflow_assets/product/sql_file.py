"""A product's .sql file, and its problems as `file:line: …`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tableflow_assets.base.errors import SettingsError


@dataclass(frozen=True)
class SqlFile:
    """``path``: as the settings name it."""

    product: str
    path: str
    text: str

    def unusable(self, why: str, line: int = 1) -> SettingsError:
        return SettingsError(
            f"The product {self.product!r} cannot be used: {self.path}:{line}: {why}.",
            "docs/add-a-product.md shows a whole file.",
        )

    def line_at(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def line_of_key(self, *names: str) -> int:
        """Of a key in the header, or of one within another; of the last that is there."""
        place = 0
        for name in names:
            key = re.compile(rf"^[ \t]*[\"']?{re.escape(name)}[\"']?[ \t]*:", re.MULTILINE)
            match = key.search(self.text, place)
            if match is None:
                break
            place = match.end()
        return self.line_at(place)

    def line_of_word(self, word: str, after: int = 0) -> int | None:
        match = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE).search(
            self.text, after
        )
        return self.line_at(match.start()) if match else None
