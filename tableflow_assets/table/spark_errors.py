"""Spark's failures, translated to the errors that a run knows how to handle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from tableflow_assets.base.errors import CommitConflict, ServerUnreachable, TableflowError
from tableflow_assets.decode.json import function as json_function
from tableflow_assets.lake.storage_faults import storage_fault
from tableflow_assets.source.reader import FORMAT
from tableflow_assets.source.spark_refusals import spark_refusal

# What catalogs and Iceberg say when another commit came between reading the table and writing it.
LOST_RACE = (
    r"CommitFailedException|sequence number|Requirement failed"
    r"|ValidationException\W+(Found (new )?conflicting|Missing required|Cannot commit)"
)
# How to recognise who went away, and its address. Spark may be back, without our session.
AWAY = {
    "Spark Connect": (r"UNAVAILABLE|INVALID_HANDLE|NO_ACTIVE_SESSION", r"ipv[46]:(\S+?):? "),
    "Kafka": (r"kafka\.common\.errors\.(Timeout|Disconnect)Exception", r"\((\S+?:\d+) \(id:"),
    "The catalog or the object store": (
        r"RESTException|SdkClientException|UncheckedIOException|Status Code: 5\d\d",
        r"(https?://[^\s/\]]+)",
    ),
}
# What Spark says about a catalog it was not configured with, or whose jar it does not have.
LACKS_OUR_JAVA = (
    rf"(UNRESOLVED_ROUTINE|catalog plugin class)[^\n]*{json_function.CATALOG}"
    rf"|DATA_SOURCE_NOT_FOUND[^\n]*{re.escape(FORMAT)}"
)


@contextmanager
def named_spark_errors(table: str) -> Iterator[None]:
    """Around all that Spark does for one table; an unknown error passes as it is."""
    try:
        yield
    except PySparkException as error:
        raise _translated(str(error), table) or error from error


def _translated(text: str, table: str) -> TableflowError | None:
    if re.search(LOST_RACE, text):
        return CommitConflict(
            f"Another writer committed to {table} at the same moment.",
            "Nothing was written twice or lost: run again, it continues after that commit.",
        )
    if re.search(LACKS_OUR_JAVA, text):
        return TableflowError(
            "The Spark server does not have Tableflow's archive for Kafka and JSON, or an older one.",
            "Put the archive that `tableflow spark jar` makes on its class path, set what `tableflow spark"
            " properties` prints, and restart it.",
        )
    if "S3Exception" in text and (fault := storage_fault(text, "the address that Spark has of it")):
        return fault
    if refusal := spark_refusal(text):
        return refusal
    for server, (words, address) in AWAY.items():
        if re.search(words, text):
            match = re.search(address, text)
            causes = re.findall(r"^Caused by: (.*)", text, re.MULTILINE)
            reason = causes[-1] if causes else text.partition("\n")[0]
            return ServerUnreachable(server, match[1] if match else "its address", reason)
    return None
