r"""Field names of a registry as column names, and back: one mapping for every serialization.

Most names stay as they are: letters and digits of any script, underscores, spaces, dashes, emoji,
words that SQL reserves. What some engine cannot express, or quotes wrongly, is written as `_xHHHH_`,
its code point in hex:

| In the field's name                                   | Why                                       |
|-------------------------------------------------------|-------------------------------------------|
| `.`                                                   | separates the names of nested columns     |
| backtick, `"`, `\`                                    | quote or escape names                     |
| control characters, line separators, U+FEFF           | cannot be typed, and cut or hide names    |
| surrogates without their other half                   | are no text at all                        |
| white space at either end                             | is trimmed away                           |
| `_` before what would read like such a sequence       | so that the way back is unambiguous       |

The empty name is `_x_`. Two columns differ only in case exactly if their fields do.

`_kafka`, in upper or lower case, is Tableflow's own column. The caller refuses it at the top level; inside
a record the same name is fine, and nothing here knows where a field is.
"""

from __future__ import annotations

import re

KAFKA_COLUMN = "_kafka"
EPOCH_FIELD = "epoch"  # in it, of tables that have read more than one log
# Of a JSON object's members that no property names: a map. It ends with `*` as if that were escaped, which it
# never is, so no field's name becomes this one.
ADDITIONAL_COLUMN = "additional_x002A_"
_EMPTY = "_x_"
_BREAKS_SOMEWHERE = (
    r'[.`"\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]'  # wherever it stands
    r"|\A\s|\s\Z"
)
# An escaped character starts with an underscore, so it too would complete what precedes it.
_READS_LIKE_AN_ESCAPE = rf"_(?=[xX][0-9a-fA-F]{{4}}(?:_|{_BREAKS_SOMEWHERE}))"
_TO_ESCAPE = re.compile(rf"{_BREAKS_SOMEWHERE}|{_READS_LIKE_AN_ESCAPE}|\A_(?=[xX]_\Z)")
_ESCAPE = re.compile(r"_x([0-9A-F]{4})_")


def column_name(field: str) -> str:
    return _TO_ESCAPE.sub(lambda match: f"_x{ord(match[0]):04X}_", field) or _EMPTY


def field_name(column: str) -> str:
    """The field that became this column."""
    if column == _EMPTY:
        return ""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), column)
