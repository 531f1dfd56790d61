"""A topic's dead letters in Dagster: an asset next to the topic's table, and a check of their rate."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pyiceberg.table import Table

from tableflow_assets.decode.problems import explanation
from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.names import topic_key
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Committed
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.table.letters.read import LetterClass, letters_of, newest_run

RATE_CHECK_NAME = "dead_letter_rate"


def dead_letter_key(topic: Topic, namespace: str) -> dg.AssetKey:
    return dg.AssetKey([namespace, topic.dead_letter_table])


def dead_letter_asset(topic: Topic, settings: Settings) -> dg.AssetSpec:
    """Never launched on its own: runs of the topic's table write it and report it."""
    return dg.AssetSpec(
        key=dead_letter_key(topic, settings.namespace),
        deps=[topic_key(topic)],
        description=(
            f"The records of `{topic.name}` that could not be read, with the reason.\n\n"
            f"`tableflow dead-letters list {topic.name}` explains them; once they can be read,"
            f" `tableflow dead-letters replay {topic.name}` puts them into the table."
        ),
        group_name=topic.group,
        owners=list(topic.owners),
        kinds={"iceberg"},
        metadata={
            "dagster/table_name": f"{settings.namespace}.{topic.dead_letter_table}",
            "dagster/storage_kind": "iceberg",
            "topic": topic.name,
            "bad_records": topic.bad_records,
        },
    )


def dead_letter_rate_check(topic: Topic, settings: Settings) -> dg.AssetChecksDefinition:
    key = dead_letter_key(topic, settings.namespace)

    @dg.asset_check(
        name=RATE_CHECK_NAME,
        asset=key,
        description=(
            "A warning while any dead letter waits; an error if their share in what the newest run has"
            f" read is above {topic.dead_letter_threshold:.2%}."
        ),
    )
    def dead_letter_rate(tableflow_catalog: IcebergCatalogResource) -> dg.AssetCheckResult:
        client = tableflow_catalog.client()
        table = client.find(topic.table)
        has_rows = table is not None and table.current_snapshot() is not None
        run = newest_run(client, topic, table) if table is not None and has_rows else None
        letters, offsets = (run.letters, run.offsets) if run else ({}, 0)
        classes = (
            letters_of(client, topic, table).classes() if table is not None and has_rows else ()
        )
        return check_result(_evaluation(key, topic, letters, offsets, _waiting(classes)))

    return dead_letter_rate


def report_dead_letters(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    topic: Topic,
    catalog: RestCatalog,
    done: Committed,
) -> None:
    """The records that a run of the topic's table passed over, as events of the dead letters' asset.

    The check is evaluated here too: as a step of its own it would cost every run more than it is worth.
    """
    key, dead = dead_letter_key(topic, catalog.namespace), done.dead_letters + done.skipped
    records = done.rows + dead
    if not records:
        return
    by_class: Mapping[str, int] = {}
    table = _committed_table(catalog, topic)
    classes = letters_of(catalog, topic, table).classes()
    if dead:
        by_class = _of_run(catalog, topic, table, dead)
        about = _materialized(topic, classes, done)
        context.log_event(dg.AssetMaterialization(asset_key=key, metadata=about))
    # Any: the type hints of `log_event` do not know evaluations.
    evaluation: Any = _evaluation(key, topic, by_class, records, _waiting(classes))
    context.log_event(evaluation)


def _committed_table(catalog: RestCatalog, topic: Topic) -> Table:
    table = catalog.find(topic.table)
    if table is None:
        raise AssertionError(f"{topic.table} was committed to and is not in the catalog")
    return table


def _waiting(classes: Sequence[LetterClass]) -> int:
    """All that wait to be replayed, whichever run has found them."""
    return sum(error_class.waiting for error_class in classes)


def _of_run(catalog: RestCatalog, topic: Topic, table: Table, dead: int) -> Mapping[str, int]:
    run = newest_run(catalog, topic, table)
    # Its snapshots may already be gone, for example after a rebuild; the total is still known.
    return run.letters if run and run.letters else {"": dead}


def _materialized(
    topic: Topic, classes: Sequence[LetterClass], committed: Committed
) -> dict[str, Any]:
    records = [
        dg.TableRecord(
            {
                "error": error_class.error,
                "waiting": error_class.waiting,
                "replayed": error_class.replayed,
                "skipped": error_class.skipped,
                "example": error_class.example,
                "message": error_class.message,
            }
        )
        for error_class in classes
    ]
    return {
        "dagster/row_count": sum(error_class.letters for error_class in classes),
        "dead_letters": committed.dead_letters,
        "skipped": committed.skipped,
        "waiting": _waiting(classes),
        "by_class": dg.MetadataValue.table(records) if records else "none",
        "replay": dg.MetadataValue.md(f"`tableflow dead-letters replay {topic.name}`"),
    }


def _evaluation(
    key: dg.AssetKey, topic: Topic, by_class: Mapping[str, int], records: int, waiting: int
) -> dg.AssetCheckEvaluation:
    dead = sum(by_class.values())
    rate = dead / records if records else 0.0
    is_error = rate > topic.dead_letter_threshold
    reasons = [f"{name} ({n}): {explanation(name)}" for name, n in by_class.items() if name]
    listing = f"tableflow dead-letters list {topic.name}"
    return dg.AssetCheckEvaluation(
        key,
        RATE_CHECK_NAME,
        passed=not dead and not waiting,
        severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        description=" ".join(
            [
                f"{dead} of {records} could not be read.",
                *sorted(reasons),
                *(
                    [f"{waiting} {'waits' if waiting == 1 else 'wait'}: {listing}"]
                    if waiting
                    else []
                ),
            ]
        ),
        metadata={
            "rate": rate,
            "threshold": topic.dead_letter_threshold,
            "dead_letters": dead,
            "records": records,
            "waiting": waiting,
            "letters": dg.MetadataValue.asset(key),
            "list": dg.MetadataValue.md(f"`{listing}`"),
            "replay": dg.MetadataValue.md(f"`tableflow dead-letters replay {topic.name}`"),
        },
    )
