"""The value schema of each lab topic: one file per topic in ``schemas/``."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import fastavro


@cache
def schema_text(topic: str) -> str:
    """The schema as it is registered, with its documentation."""
    return files(__package__).joinpath("schemas", f"{topic}.avsc").read_text(encoding="utf-8")


@cache
def parsed_schema(topic: str) -> Any:
    """The schema as fastavro wants it."""
    return fastavro.parse_schema(json.loads(schema_text(topic)))
