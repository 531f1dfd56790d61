"""Names: which topics are possible, and the table that belongs to each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tableflow_assets.base.errors import SettingsError

# Records that cannot be decoded go to the table of this name beside the topic's own.
DEAD_LETTER_SUFFIX = "__dead_letters"

# Glue's limit, the lowest among the catalogs. Kafka allows 249, so no legal topic comes near it.
MAX_TABLE_NAME = 255
MAX_TOPIC_NAME = 249


def is_kafka_name(topic: str) -> bool:
    """Whether Kafka allows a topic of this name."""
    if topic in {".", ".."} or len(topic) > MAX_TOPIC_NAME:
        return False
    return re.fullmatch(r"[a-zA-Z0-9._-]+", topic) is not None


def is_pattern(entry: str) -> bool:
    """Whether a key under `topics` is a glob pattern: Kafka's names have none of `*?[`."""
    return any(character in entry for character in "*?[")


def name_problem(entry: str) -> str:
    """What is wrong with a key under `topics`, a name or a pattern; empty if nothing is."""
    if is_pattern(entry):
        return _pattern_problem(entry)
    if not is_kafka_name(entry):
        return (
            "not a name that Kafka allows: at most 249 of letters, digits, . _ - and not . or .. "
            "alone; a pattern has * ? or [abc]"
        )
    try:
        table_name(entry)
    except SettingsError as error:
        return f"{error.problem} {error.next_step}"
    return ""


def product_name_problem(name: str) -> str:
    """What is wrong with a key under `products`; empty if nothing is. A product's table has its name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,127}", name) or name.endswith(DEAD_LETTER_SUFFIX):
        return (
            "not a usable name: a lower-case letter, then up to 127 of letters, digits and _; not"
            f" ending in {DEAD_LETTER_SUFFIX}"
        )
    return ""


def _pattern_problem(pattern: str) -> str:
    if pattern.startswith("_"):
        return "matches nothing: topics that start with _ are internal, and no pattern matches them"
    if not re.fullmatch(r"([a-zA-Z0-9._*?-]|\[!?[a-zA-Z0-9._-]+\])+", pattern):
        return "not a usable pattern; allowed: letters, digits, . _ - and * ? [abc] [a-z] [!abc]"
    return ""


def table_name(topic: str) -> str:
    """The topic's table: lower-case, and `_` for what the strictest catalog does not allow."""
    # Replace first, lower-case second: lower-casing turns some non-ASCII letters into ASCII ones.
    name = re.sub(r"[^a-zA-Z0-9_]", "_", topic).lower()
    if not re.match(r"[a-z0-9]", name):
        raise SettingsError(
            f"Topic {topic!r} cannot have a table: the name of a table starts with a letter "
            f"or digit, and this one would be {name!r}.",
            "Choose topics or patterns that leave it out, or copy it to a topic of another name.",
        )
    if len(name) > MAX_TABLE_NAME:
        raise SettingsError(
            f"Topic {topic[:40]!r}... cannot have a table: its name has {len(name)} characters, "
            f"and catalogs allow {MAX_TABLE_NAME}.",
            "Give the topic a shorter name.",
        )
    if name.endswith(DEAD_LETTER_SUFFIX):
        raise SettingsError(
            f"Topic {topic!r} cannot have a table: names that end in {DEAD_LETTER_SUFFIX} "
            "are reserved for dead-letter tables.",
            "Choose topics or patterns that leave it out, or copy it to a topic of another name.",
        )
    return name


def collisions(topics: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of topics that would write into one table."""
    owners: dict[str, str] = {}
    pairs = []
    for topic in sorted(set(topics)):
        owner = owners.setdefault(table_name(topic), topic)
        if owner != topic:
            pairs.append((owner, topic))
    return pairs
