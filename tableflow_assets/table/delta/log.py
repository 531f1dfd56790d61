"""A table's Delta log: numbered JSON files, each written once, and checkpoints that sum them up."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tableflow_assets.base.errors import MirrorError
from tableflow_assets.table.delta.store import Store

FOLDER = "_delta_log"
LAST_CHECKPOINT = f"{FOLDER}/_last_checkpoint"
_COMMIT = re.compile(rf"{FOLDER}/(\d{{20}})\.json")
_OF_A_VERSION = re.compile(rf"{FOLDER}/(\d{{20}})\..+")
_CHECKPOINT = re.compile(rf"{FOLDER}/(\d{{20}})\.checkpoint\.parquet")

Action = dict[str, Any]


def commit_name(version: int) -> str:
    return f"{FOLDER}/{version:020d}.json"


def checkpoint_name(version: int) -> str:
    return f"{FOLDER}/{version:020d}.checkpoint.parquet"


def checksum_name(version: int) -> str:
    return f"{FOLDER}/{version:020d}.crc"


def version_of(name: str) -> int:
    """The version of a commit, a checkpoint, or a file beside them; -1 for other files."""
    match = _OF_A_VERSION.fullmatch(name)
    return int(match[1]) if match else -1


@dataclass
class State:
    """What a reader of this version sees: its files, by their encoded paths."""

    version: int
    files: dict[str, Action] = field(default_factory=dict)
    metadata: Action | None = None
    protocol: Action | None = None

    def apply(self, action: Action) -> None:
        if add := action.get("add"):
            self.files[add["path"]] = add
        elif remove := action.get("remove"):
            existing = self.files.get(remove["path"])
            if existing and _vector(existing) == _vector(remove):
                del self.files[remove["path"]]
        elif metadata := action.get("metaData"):
            self.metadata = metadata
        elif protocol := action.get("protocol"):
            self.protocol = protocol


def _is_action(line: Any) -> bool:
    """Whether it looks like an action, whoever wrote it."""
    if not isinstance(line, dict) or not all(isinstance(body, dict) for body in line.values()):
        return False
    files = [line[kind] for kind in ("add", "remove") if kind in line]
    return all(isinstance(file.get("path"), str) for file in files)


def _vector(file: Action) -> tuple[Any, ...] | None:
    vector = file.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset")) if vector else None


class DeltaLog:
    """The log as first read, plus what this object appends: make a new one to read it again."""

    def __init__(self, store: Store, topic: str) -> None:
        self.store, self._topic = store, topic

    @cached_property
    def checkpoint(self) -> int:
        """The version of the newest checkpoint; -1 if there is none.

        The hint may lead to an older one, even to one that is gone: whoever wrote it may have been slow.
        """
        matches = map(_CHECKPOINT.fullmatch, self._recent_files)
        return max((int(match[1]) for match in matches if match), default=self._hint)

    @cached_property
    def _recent_files(self) -> list[str]:
        """From the checkpoint on that the hint names."""
        after = commit_name(self._hint - 1).removeprefix(f"{FOLDER}/")
        return self.store.names(FOLDER, after if self._hint > 0 else "")

    @cached_property
    def _hint(self) -> int:
        hint = self.store.read(LAST_CHECKPOINT)
        if hint is None:
            return -1
        try:
            return int(json.loads(hint)["version"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._broken(LAST_CHECKPOINT, error) from error

    @cached_property
    def versions(self) -> list[int]:
        """The versions of the commits from the newest checkpoint on, in order."""
        commits = map(_COMMIT.fullmatch, self._recent_files)
        versions = [int(match[1]) for match in commits if match]
        versions = [version for version in versions if version >= self.checkpoint]
        if versions:
            first = min(versions[0], self.checkpoint + 1)
            if missing := set(range(first, versions[-1])) - set(versions):
                raise self._broken(commit_name(min(missing)), "is missing")
        return versions

    @property
    def newest(self) -> int:
        """The newest version; -1 where there is no log."""
        return self.versions[-1] if self.versions else self.checkpoint

    def commit(self, version: int) -> list[Action]:
        name = commit_name(version)
        content = self.store.read(name)
        if content is None:
            raise self._broken(name, "is missing")
        try:
            actions = [json.loads(line) for line in content.splitlines() if line.strip()]
        except ValueError as error:
            raise self._broken(name, error) from error
        if not actions or not all(map(_is_action, actions)):
            raise self._broken(name, "holds no actions")
        return actions

    def commit_if_whole(self, version: int) -> list[Action]:
        """An empty list if it is damaged: for versions that readers start after."""
        try:
            return self.commit(version)
        except MirrorError:
            return []

    def append(self, version: int, actions: Iterable[Action]) -> bool:
        """False if somebody else has written that version."""
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        content = "\n".join(lines).encode() + b"\n"
        is_ours = self.store.put_if_absent(commit_name(version), content)
        if is_ours and "versions" in self.__dict__:
            self.versions.append(version)
        return is_ours

    def state(self) -> State:
        """The state of the newest version."""
        state = State(self.newest)
        if self.checkpoint >= 0:
            for action in self._checkpointed():
                state.apply(action)
        for version in self.versions:
            if version > self.checkpoint:
                for action in self.commit(version):
                    state.apply(action)
        return state

    @cached_property
    def all_files(self) -> list[str]:
        return self.store.names(FOLDER)

    @property
    def all_commits(self) -> list[int]:
        """In order; also those before the newest checkpoint, as far as they still exist."""
        return [int(match[1]) for name in self.all_files if (match := _COMMIT.fullmatch(name))]

    @property
    def all_checkpoints(self) -> list[int]:
        return [int(match[1]) for name in self.all_files if (match := _CHECKPOINT.fullmatch(name))]

    def _checkpointed(self) -> list[Action]:
        import pyarrow.parquet as pq  # slow to load, and most commands read no checkpoint

        name = checkpoint_name(self.checkpoint)
        content = self.store.read(name)
        if content is None:
            raise self._broken(name, "is missing")
        try:
            table = pq.read_table(io.BytesIO(content), columns=["add", "metaData", "protocol"])
            return table.to_pylist()  # type: ignore[no-any-return]
        except (OSError, ValueError, KeyError) as error:
            raise self._broken(name, error) from error

    def _broken(self, name: str, why: object) -> MirrorError:
        return MirrorError(
            f"The Delta log of {self._topic!r} is damaged: {name} {why}.",
            f"The Iceberg table is not affected. Write the log again: tableflow repair {self._topic}",
        )
