"""Every error the library raises on purpose: what happened, and what to do next."""

from __future__ import annotations

from tableflow_assets.base.masking import masked


class TableflowError(Exception):
    """Base of the family. ``next_step`` is a sentence or a command that gets the user further."""

    def __init__(self, problem: str, next_step: str = "") -> None:
        # A problem may quote what a library said, and that may quote what it was given.
        self.problem = problem = masked(problem)
        self.next_step = next_step = masked(next_step)
        super().__init__(f"{problem}\n  Next step: {next_step}" if next_step else problem)


class SettingsError(TableflowError):
    """tableflow.yaml, or a setting in the environment, cannot be used as it is."""


class StackError(TableflowError):
    """A server of the embedded stack could not be installed, started or stopped."""


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
    """Such a server is there, and we get no further: a password, a certificate, a protocol."""

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


class ModeChanged(TableflowError):
    """The settings name another mode than the one that the table was made in."""


class LocationChanged(TableflowError):
    """The settings name another place than the one that the table was made in."""


class RebuildFailed(TableflowError):
    """What was read anew from the log is not what the log holds; the table is as it was."""


class UndecodableRecords(TableflowError):
    """Records that cannot be decoded stand in the range to commit."""


class LedgerError(TableflowError):
    """The table's ledger contradicts the log, or itself."""


class TableGone(LedgerError):
    """The catalog has no table where there was one, and its ledger with it."""


class TableDamaged(TableflowError):
    """Files that a table refers to are gone from the store."""


class CommitConflict(TableflowError):
    """Another writer committed to the table since this commit was planned."""


class MaintenanceFailed(TableflowError):
    """What was to be tidied up stays as it is; the table's rows are not concerned."""


class MirrorError(TableflowError):
    """The Delta log cannot follow the Iceberg table, which is as it should be."""


class NoSuchState(TableflowError):
    """The table was not there yet at the moment asked for, or that moment is no longer known."""


class RollbackRefused(TableflowError):
    """Going back to that state would lose records, or bring erased ones back."""


class DataLoss(TableflowError):
    """The log no longer holds records that the table does not have yet."""


class Suspended(TableflowError):
    """The topic waits for somebody to resolve what it ran into; its table stays as it is."""


class InputMissing(TableflowError):
    """A product reads a table that is not there yet."""


class ProductFailed(TableflowError):
    """A product's SQL gives no rows that its table could have; the table is as it was."""


class CatalogAway(TableflowError):
    """A catalog does not answer, or says that it cannot now: worth another try."""


class CatalogRefused(TableflowError):
    """A catalog answers, and does not let us: credentials, a right, a name, a limit."""


class NotOurTable(TableflowError):
    """A catalog has something of that name that we did not put there; it stays as it is."""


class ListingChanged(TableflowError):
    """Somebody else changed what a catalog says of a table since it was looked at."""
