"""One JSON value, whole and strict, read in the JVM.

Spark's `from_json` by itself stops after the first value and ignores what follows, takes an array's
first element for an object, and makes NULL of what does not fit. So the text is read inside a larger
document, where exactly one value must stand between a start and an end. The end's name is drawn anew
by every process: no text can bring an end of its own.

Of two properties of the same name in an object, the last counts, as in most readers.
"""

from __future__ import annotations

import secrets

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

_START, _END = "a", f"b{secrets.token_hex(8)}"  # in this order also where somebody sorts them
_PARTS = "parts"
_MISFIT = "misfit"  # where Spark puts the text of what does not have the asked-for type
_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _MISFIT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "allowNumericLeadingZeros": "false",
    "allowUnquotedFieldNames": "false",
    "allowUnquotedControlChars": "false",
    "allowBackslashEscapingAnyCharacter": "false",
    "allowComments": "false",
    "maxStringLen": str(2**31 - 1),
}


def around(text: Column) -> Column:
    """The document to be parsed."""
    before, after = f'{{"{_PARTS}":{{"{_START}":[', f'],"{_END}":[]}}}}'
    return F.concat(F.lit(before), text, F.lit(after))


def parsed(document: Column, kind: DataType) -> Column:
    """The document around a text, whose value should have this type throughout.

    Costs much, and Spark works it out anew wherever it is used: to be kept in a column.
    """
    parts = StructField(_PARTS, MapType(StringType(), ArrayType(kind)))
    expected = StructType([parts, StructField(_MISFIT, StringType())])
    return F.from_json(document, expected, _STRICT)


def misfit(read: Column) -> Column:
    """The document itself where it is no JSON, or some value in it has another type than expected."""
    return read.getField(_MISFIT)


def fits(read: Column) -> Column:
    """Exactly one value, with the expected type throughout."""
    names = F.map_keys(read.getField(_PARTS)) == F.array(F.lit(_START), F.lit(_END))
    is_one = (F.size(_part(read, 0)) == 1) & (F.size(_part(read, 1)) == 0)
    return misfit(read).isNull() & F.coalesce(names & is_one, F.lit(False))


def value(read: Column) -> Column:
    return F.get(_part(read, 0), F.lit(0))


def _part(read: Column, number: int) -> Column:
    return F.get(F.map_values(read.getField(_PARTS)), F.lit(number))
