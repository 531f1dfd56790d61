"""The asset check of every table: is it the log, exactly once?"""

import dagster as dg

from tableflow_assets.defs.names import CHECK_NAME, table_key
from tableflow_assets.defs.resources import IcebergCatalogResource, KafkaResource
from tableflow_assets.settings import Settings, Topic
from tableflow_assets.table.verify import verify


class ExactlyOnceConfig(dg.Config):
    """Runs compare what they have just committed; the `verify` job compares everything."""

    whole_log: bool = False


def exactly_once_check(topic: Topic, settings: Settings) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=CHECK_NAME,
        asset=table_key(topic, settings.namespace),
        description="Compares table and log offset by offset: nothing missing, nothing twice.",
    )
    def exactly_once(
        config: ExactlyOnceConfig, kafka: KafkaResource, catalog: IcebergCatalogResource
    ) -> dg.AssetCheckResult:
        results = verify(
            kafka.log(),
            catalog.client(),
            topic.name,
            topic.table,
            newest_commit_only=not config.whole_log,
        )
        return dg.AssetCheckResult(
            passed=all(result.ok for result in results),
            metadata={
                "compared": "the whole log" if config.whole_log else "the newest commit",
                "records": sum(result.expected for result in results),
                "missing": sum(result.missing for result in results),
                "duplicated": sum(result.duplicated for result in results),
                "partitions": dg.MetadataValue.table(
                    [dg.TableRecord(_shown(result.to_json())) for result in results]
                )
                if results
                else "no table yet",
            },
        )

    return exactly_once


def _shown(result: dict[str, object]) -> dict[str, str | int | float | bool]:
    """Every row with the same fields, as Dagster's tables demand."""
    return {k: v if isinstance(v, str | int | float | bool) else "" for k, v in result.items()}
