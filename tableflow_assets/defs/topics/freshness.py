"""What a topic promises, in Dagster: the check that warns while it is late, and Dagster's own policy."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg

from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.names import FRESHNESS_CHECK_NAME, table_key
from tableflow_assets.defs.resources import IcebergCatalogResource, KafkaResource
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.promise import Promise, Unread, promises
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.settings.values import span_text
from tableflow_assets.source.log import Log

# A staying run reports what it has committed a minute later at most, and takes a while to start.
UNTIL_REPORTED = timedelta(minutes=2)


def freshness_policy(topic: Topic) -> dg.FreshnessPolicy | None:
    """It goes by the time since the last materialization, and so fails where nothing comes."""
    if topic.freshness is None or not topic.freshness_policy:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=topic.freshness + UNTIL_REPORTED)


def freshness_check(topic: Topic, settings: Settings) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=FRESHNESS_CHECK_NAME,
        asset=table_key(topic, settings.namespace),
        description="Warns while the oldest unread record is older than `freshness` promises.",
    )
    def freshness(
        tableflow_kafka: KafkaResource, tableflow_catalog: IcebergCatalogResource
    ) -> dg.AssetCheckResult:
        log, catalog = tableflow_kafka.log(), tableflow_catalog.client()
        return check_result(
            freshness_evaluation(promise_of(log, catalog, topic), catalog.namespace)
        )

    return freshness


def promise_of(log: Log, catalog: RestCatalog, topic: Topic) -> Promise:
    end = log.ends([topic.name]).get(topic.name, {})
    (promise,) = promises(log, {topic: Unread.by(catalog.find(topic.table), end)})
    return promise


def freshness_evaluation(promise: Promise, namespace: str) -> dg.AssetCheckEvaluation:
    """The outcome of the check; the sensor and the run that stays report it, too."""
    age = promise.age_seconds
    return dg.AssetCheckEvaluation(
        table_key(promise.topic, namespace),
        FRESHNESS_CHECK_NAME,
        passed=promise.is_kept,
        severity=dg.AssetCheckSeverity.WARN,  # what the table holds is right, as of then
        description=_says(promise),
        metadata={
            "promised": _promised(promise.topic),
            "unread_records": promise.unread,
            "oldest_unread_seconds": "unknown" if age is None else round(age, 1),
        },
    )


def _says(promise: Promise) -> str:
    if promise.age_seconds is None:
        return "Kafka did not say in time how old the oldest unread record is."
    if not promise.unread:
        return "The table has all that is in the log."
    age = f"The oldest unread record is {promise.age_seconds:.0f} s old"
    return f"{age}; `freshness` promises {_promised(promise.topic)}."


def _promised(topic: Topic) -> str:
    return span_text(topic.freshness) if topic.freshness else "nothing"
