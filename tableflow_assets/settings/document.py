"""A YAML file as plain data that remembers its lines, and its problems as `file:line: key: ...`.

Values never leave this module inside an exception's cause or context: YAML's and pydantic's own
errors quote the file, and the file may hold a password that somebody wrote there by mistake.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tableflow_assets.base.errors import SettingsError

# Settings are a few kB. The limits keep a wrong or hostile file from eating the process.
MAX_BYTES = 1_000_000
MAX_DEPTH = 20

Location = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)


class Problem(NamedTuple):
    location: Location
    text: str
    line: int | None = None  # if it is not the line of the location


@dataclass
class Document:
    """The file's data, and the line of each key."""

    path: Path
    data: dict[str, object] = field(default_factory=dict)
    lines: dict[Location, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line_of(self, location: Location) -> int:
        """The key's line; for a missing key, the line of the block that should have it."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def error(self, problems: Iterable[Problem]) -> SettingsError:
        """All problems in one error, in the order of the file."""
        entries = sorted(
            (p.line or self.line_of(p.location), dotted(p.location), p.text) for p in problems
        )
        lines = [f"{self.path}:{line}: {key}: {text}" for line, key, text in entries]
        count = "the line" if len(lines) == 1 else f"the {len(lines)} places"
        return SettingsError("\n".join(lines), f"Correct {count} named above, then run again.")


def read_document(path: Path) -> Document:
    """Read the file; what is not a mapping of YAML is refused, duplicate keys become problems."""
    document = Document(path)
    root = _compose(path, _read_text(path))
    if root is None:  # empty, or comments only: all settings have defaults
        return document
    if not isinstance(root, yaml.MappingNode):
        raise SettingsError(
            f"{path}:{root.start_mark.line + 1}: the settings must be a mapping of keys to values, "
            f"not a {'list' if isinstance(root, yaml.SequenceNode) else 'single value'}.",
            "Start each setting at the margin with its key, such as `namespace: tableflow`.",
        )
    document.data = _mapping(root, (), document)
    return document


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        why = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"{path}: the settings file cannot be read: {why}.",
            "Give the path of a readable YAML file, or unset TABLEFLOW_CONFIG to use the defaults.",
        ) from error
    if len(raw) > MAX_BYTES:
        raise SettingsError(
            f"{path}: larger than {MAX_BYTES:,} bytes, the most that settings may have.",
            "Check that this is the settings file; use patterns to configure many topics.",
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
    raise SettingsError(f"{path}:{line}: not UTF-8 text.", "Save the file as UTF-8.")


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases, which can hide size (a YAML bomb), and tags, which can hide types."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, "aliases (*name) are not supported; write the value out")
        if event.tag is not None:
            self._refuse(event, "tags (!name) are not supported; write the plain value")
        if self.depth >= MAX_DEPTH:
            self._refuse(event, f"nested more than {MAX_DEPTH} levels deep")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _refuse(self, event: Any, why: str) -> None:
        raise yaml.MarkedYAMLError(problem=why, problem_mark=event.start_mark)


def _compose(path: Path, text: str) -> yaml.Node | None:
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        why = ", ".join(part for part in (error.context, error.problem) if part)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        why = f"character {error.character!r}: {error.reason}"
    except ValueError as error:  # such as the escape "\U00110000"
        line = loader.line + 1 if loader else 1
        why = str(error)
    raise SettingsError(
        f"{path}:{line}: cannot be read as YAML settings: {why}.",
        "Correct that line (often: indentation, a missing colon or an open quote), then run again.",
    )


def _plain(node: yaml.Node, location: Location, document: Document) -> object:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, location, document)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.lines[(*location, index)] = item.start_mark.line + 1
        return [_plain(n, (*location, i), document) for i, n in enumerate(node.value)]
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, OverflowError, yaml.YAMLError):
        # An invalid date or number (2026-02-30) stays text, for the model to judge.
        return str(node.value)


def _mapping(node: yaml.MappingNode, location: Location, document: Document) -> dict[str, object]:
    data: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            text = "a list or mapping is used as a key here; a key must be text"
            document.problems.append(Problem(location, text, line))
            continue
        # A key is the text as written: topics may be called `123`, `on` or `2026-01-01`.
        key = str(key_node.value)
        here = (*location, key)
        if key in data:
            text = f"duplicate key, first given on line {document.lines[here]}; keep one of them"
            document.problems.append(Problem(here, text, line))
            continue
        document.lines[here] = line
        data[key] = _plain(value_node, here, document)
    return data


def validated(model: type[Model], data: Mapping[str, object]) -> tuple[Model | None, list[Problem]]:
    """The data as the model, or the problems with it."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, [
            Problem(_without_tag(details["loc"], data), _describe(model, dict(details)))
            for details in error.errors(include_url=False)
        ]


def _without_tag(location: Location, data: Mapping[str, object]) -> Location:
    """As the file has it: pydantic puts a block's `type` into the path to its keys."""
    here: Any = data
    for index, step in enumerate(location):
        if isinstance(here, dict) and step not in here and here.get("type") == step:
            return (*location[:index], *location[index + 1 :])
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            break
    return location


_EXPECTED = {
    "string_type": "must be text (quote what looks like a number, date or boolean)",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "date_type": "must be a date, written as YYYY-MM-DD without quotes",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
}


def _describe(model: type[BaseModel], details: Mapping[str, Any]) -> str:
    kind, location, value = details["type"], details["loc"], details["input"]
    if kind == "extra_forbidden":
        keys = _keys_at(model, location[:-1])
        return f"unknown key; allowed keys: {', '.join(keys)}{_did_you_mean(location[-1], keys)}"
    if kind.startswith("union_tag"):
        return _wrong_type(details["ctx"])
    if kind == "missing":
        return "missing; this key is required here"
    if kind == "refused":  # raised by our own validators, which know what not to repeat
        return str(details["msg"])
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", details["ctx"]["expected"])
        return f"got {shown(value)}; allowed: {', '.join(allowed)}{_did_you_mean(value, allowed)}"
    expected = _EXPECTED.get(kind) or details["msg"].replace("Input should", "must")
    return f"{expected}; got {shown(value)}"


def _wrong_type(context: Mapping[str, Any]) -> str:
    """For a block whose `type` says which kind of block it is."""
    if "tag" not in context:
        return "missing `type`; see docs/catalogs.md for the types that there are"
    allowed = re.findall(r"'([^']*)'", context["expected_tags"])
    close = _did_you_mean(context["tag"], allowed)
    return f"type: got {shown(context['tag'])}; allowed: {', '.join(allowed)}{close}"


def _did_you_mean(value: object, candidates: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(value).lower(), list(candidates), n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _keys_at(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that the mapping at this location may have."""
    steps = iter(location)
    for step in steps:
        annotation = _field(model, str(step)).annotation
        if get_origin(annotation) is Mapping:
            next(steps)  # a key that the user chose, such as a topic's name
        models = _models_in(annotation)
        model = models[0] if len(models) == 1 else _tagged(models, str(next(steps)))
    return [field.alias or name for name, field in model.model_fields.items()]


def _field(model: type[BaseModel], key: str) -> FieldInfo:
    return next(f for name, f in model.model_fields.items() if key in (name, f.alias))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _tagged(models: list[type[BaseModel]], tag: str) -> type[BaseModel]:
    """The block model of this `type`."""
    return next(model for model in models if tag in get_args(model.model_fields["type"].annotation))


def dotted(location: Location) -> str:
    """`topics.payments.window`; parts that are not plain words are quoted, which also escapes them."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part != "[key]":  # pydantic's mark for "the key itself is wrong"
            text += "." + (part if re.fullmatch(r"[\w-]+", part, re.ASCII) else json.dumps(part))
    return text.removeprefix(".") or "(top level)"


_KINDS = {
    str: "text", bool: "boolean", int: "integer", float: "number", NoneType: "null",
    date: "date", datetime: "date and time", dict: "mapping", list: "list",
}  # fmt: skip


def shown(value: object) -> str:
    """A value for an error message: short, on one line, and never the inside of a block."""
    kind = _KINDS.get(type(value), type(value).__name__)
    if value is None or isinstance(value, dict | list):
        return kind if value is None else f"a {kind}"
    if isinstance(value, int) and value.bit_length() > 64:  # noqa: PLR2004
        return "an integer of more than 64 bits"
    if isinstance(value, date):
        text = value.isoformat()
    else:
        text = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"{text if len(text) <= 60 else text[:60] + '...'} ({kind})"  # noqa: PLR2004
