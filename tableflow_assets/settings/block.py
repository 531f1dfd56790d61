"""The base of every block of tableflow.yaml."""

from __future__ import annotations

from typing import Any

import pydantic
from pydantic_core import PydanticCustomError


def refused(why: str) -> PydanticCustomError:
    return PydanticCustomError("refused", why)


class Block(pydantic.BaseModel):
    """Strict: "5" is not an integer. Only lists are converted, to tuples, so that blocks are immutable."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True
    )

    def as_data(self) -> dict[str, Any]:
        """What the file says, without defaults; secrets stay references."""
        values = {name: value for name, value in self if name in self.model_fields_set}
        return {
            name: value.as_data() if isinstance(value, Block) else value
            for name, value in values.items()
            if value is not None
        }


def both_or_neither(block: Block, first: str, second: str) -> None:
    """For a block's validator."""
    if (getattr(block, first) is None) != (getattr(block, second) is None):
        raise refused(f"needs both {first} and {second}, or neither")
