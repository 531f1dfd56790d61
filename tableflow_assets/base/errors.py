"""Every error the library raises on purpose: what happened, and what to do next."""

from __future__ import annotations

from pathlib import Path

from tableflow_assets.base.masking import masked


class TableflowError(Exception):
    """Base of the family. ``next_step`` is a sentence or a command that gets the user further."""

    def __init__(self, problem: str, next_step: str = "") -> None:
        # A problem may quote a library's message, which may quote the secret it was given.
        self.problem = problem = masked(problem)
        self.next_step = next_step = masked(next_step)
        super().__init__(f"{problem}\n  Next step: {next_step}" if next_step else problem)


class Unforeseen(TableflowError):
    """What no other error describes, met in the work on one table; most likely a bug of ours."""

    def __init__(self, table: str, error: Exception, log_file: Path | None) -> None:
        self.table = table
        first_line = str(error).partition("\n")[0]
        where = f", traceback in {log_file}" if log_file else ""
        super().__init__(
            f"Unforeseen {type(error).__name__}: {first_line}{where}",
            "Run it again. If it says the same, report it, with the traceback.",
        )


class NewerFormat(TableflowError):
    """Something of ours that a newer version has written, in a way that this one does not know."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(
            f"{what} was written by a newer version of Tableflow Assets: {detail}. It stays as it is.",
            "Upgrade this deployment to that version, or a later one.",
        )


class SettingsError(TableflowError):
    """tableflow.yaml, or a setting in the environment, cannot be used as it is."""


class StackError(TableflowError):
    """A server of the embedded stack could not be installed, started or stopped."""


class DiskAlmostFull(TableflowError):
    """The disk under the embedded store has less room than the settings keep free; nothing was begun."""


class ServerUnreachable(TableflowError):
    """A server that the path needs does not answer."""

    said = "does not answer"

    def __init__(self, server: str, address: str, reason: str, next_step: str = "") -> None:
        self.server = server
        self.address = address
        super().__init__(
            f"{server} at {address} {self.said}: {reason}",
            next_step or "Check that it runs (`tableflow stack status`), then run again.",
        )


class AccessRefused(ServerUnreachable):
    """The server answers but does not let us in: a password, a certificate, a protocol."""

    said = "gives no access"


class TopicRefused(TableflowError):
    """The cluster lets us in, but not to this topic."""


class TopicNotFound(TableflowError):
    """The settings name a topic that the cluster does not have."""


class SchemaNotFound(TableflowError):
    """The registry holds no value schema for the topic, or not the one a record names."""


class UnsupportedSchema(TableflowError):
    """The schema cannot become a table's columns."""


class UnsupportedInDelta(TableflowError):
    """A column that Iceberg has, but a Delta table over the same files cannot."""


class IncompatibleSchema(TableflowError):
    """A new schema version would change existing columns in a way that loses data."""


class TableOfAnother(TableflowError):
    """The table that a topic would have is another's. ``owner``: whose."""

    def __init__(self, problem: str, next_step: str, owner: str) -> None:
        self.owner = owner
        super().__init__(problem, next_step)


class AnotherCluster(TableflowError):
    """This deployment reads another Kafka cluster than the one that the table's rows are from."""


class ModeChanged(TableflowError):
    """The settings name a different mode than the one the table was created in."""


class KeyIdentityChanged(TableflowError):
    """By what the registry says now, records of one key would no longer share their row."""


class LocationChanged(TableflowError):
    """The settings name a different location than the one the table was created in."""


class RebuildFailed(TableflowError):
    """The rows read again do not match the log; the table is unchanged."""


class RowsAtStake(TableflowError):
    """It would drop what the log no longer holds, and nobody has agreed to that; nothing was changed."""


class UndecodableRecords(TableflowError):
    """The range to commit contains records that cannot be decoded."""


class LedgerError(TableflowError):
    """The table's ledger contradicts the log, or itself."""


class TopicRecreated(LedgerError):
    """The topic was deleted and created again: the table's rows are from the one before."""


class TableGone(LedgerError):
    """A table that once existed is gone from the catalog, and its ledger with it."""


class TableDamaged(TableflowError):
    """Files that a table refers to are gone from the store."""


class CommitConflict(TableflowError):
    """Another writer committed to the table since this commit was planned."""


class MaintenanceFailed(TableflowError):
    """The table was not tidied up; its rows are not affected."""


class MirrorError(TableflowError):
    """The Delta log cannot follow the Iceberg table, which itself is fine."""


class StoreIgnoresConditions(MirrorError):
    """The object store writes what it was asked to write only if absent, although it is there."""


class NoSuchState(TableflowError):
    """The table did not exist yet at the requested moment, or its state then is no longer known."""


class RollbackRefused(TableflowError):
    """Going back to that state would lose records or bring back erased ones."""


class DataLoss(TableflowError):
    """The log no longer holds records that the table does not have yet."""


class Suspended(TableflowError):
    """The topic waits for somebody to resolve a problem; its table stays unchanged."""


class InputMissing(TableflowError):
    """A product reads a table that does not exist yet."""


class ProductFailed(TableflowError):
    """A product's SQL yields rows that its table cannot hold; the table is unchanged."""


class CatalogAway(TableflowError):
    """A catalog does not answer, or says that it cannot right now: worth another try."""


class CatalogRefused(TableflowError):
    """A catalog answers but refuses: credentials, a permission, a name, a limit."""


class NotOurTable(TableflowError):
    """A catalog has something by that name that we did not put there; it stays untouched."""


class ListingChanged(TableflowError):
    """Somebody else changed a catalog's listing of a table after we read it."""
