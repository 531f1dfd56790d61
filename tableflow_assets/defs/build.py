"""Everything that Dagster shows, by name. Can be built with every server down."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

import dagster as dg

from tableflow_assets.defs.catalogs.assets import catalog_asset, catalog_checks
from tableflow_assets.defs.catalogs.unpublished_tables import unpublished_tables_sensor
from tableflow_assets.defs.follow.job import follow_job
from tableflow_assets.defs.maintenance.check import maintenance_check
from tableflow_assets.defs.maintenance.jobs import maintenance_jobs
from tableflow_assets.defs.maintenance.old_runs import Ours
from tableflow_assets.defs.maintenance.prune import PRUNE_SCHEDULE_NAME, prune_jobs, prune_schedules
from tableflow_assets.defs.maintenance.sensor import maintenance_sensor
from tableflow_assets.defs.masking import mask_secrets
from tableflow_assets.defs.names import product_key
from tableflow_assets.defs.partitions import windows_of_products
from tableflow_assets.defs.products.assets import product_asset
from tableflow_assets.defs.products.broken import broken_asset
from tableflow_assets.defs.products.checks import (
    check_products_job,
    check_products_schedule,
    product_checks,
)
from tableflow_assets.defs.products.reports import reports, reports_job, reports_schedule
from tableflow_assets.defs.products.updates import product_updates_sensor
from tableflow_assets.defs.resources import resources_from
from tableflow_assets.defs.topics.assets import table_asset, topic_asset
from tableflow_assets.defs.topics.checks import exactly_once_check, not_suspended_check
from tableflow_assets.defs.topics.dead_letters import dead_letter_asset, dead_letter_rate_check
from tableflow_assets.defs.topics.delta_mirror import delta_mirror_check
from tableflow_assets.defs.topics.freshness import freshness_check
from tableflow_assets.defs.topics.new_offsets import new_offsets_sensor
from tableflow_assets.defs.topics.schema_changes import schema_changes_sensor
from tableflow_assets.defs.topics.schema_fits import schema_fits_check
from tableflow_assets.defs.topics.verify_job import verify_job, verify_schedule
from tableflow_assets.product.load import load_products
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.discovery import known_topics

logger = logging.getLogger(__name__)


def build_definitions(settings: Settings) -> dg.Definitions:
    """For a code location of its own, or to merge into the definitions of another project.

    From here on, this process masks secrets in its logs and errors, no matter who writes them.
    """
    mask_secrets()
    topics, loaded = known_topics(settings), load_products(settings)
    products = loaded.usable
    for broken in loaded.broken:
        logger.warning("%s", broken.error)
    windows = windows_of_products(products, topics)
    # A product's table is maintained just like a topic's.
    tables = [*topics, *(product.spec for product in products)]
    report_assets = reports(products, settings)
    comparisons = [exactly_once_check(topic, settings) for topic in topics]
    checks = [
        *comparisons,
        *(not_suspended_check(topic, settings) for topic in topics),
        *(schema_fits_check(topic, settings) for topic in topics),
        *(delta_mirror_check(table, settings) for table in tables if "delta" in table.formats),
        *(maintenance_check(table, settings) for table in tables),
        *(dead_letter_rate_check(topic, settings) for topic in topics),
        *(freshness_check(topic, settings) for topic in topics if topic.freshness),
        *(check for product in products for check in product_checks(product, settings)),
        *catalog_checks(tables, settings),
    ]
    assets: list[dg.AssetsDefinition | dg.AssetSpec] = [
        *(topic_asset(topic, settings) for topic in topics),
        *(table_asset(topic, settings) for topic in topics),
        *(dead_letter_asset(topic, settings) for topic in topics),
        *(product_asset(product, settings, windows) for product in products),
        *(broken_asset(broken, settings, windows) for broken in loaded.broken),
        *(catalog_asset(name, tables, settings) for name in settings.catalogs),
        *report_assets,
    ]
    schedules = [
        verify_schedule(),
        *([check_products_schedule()] if products else []),
        *([reports_schedule()] if report_assets else []),
    ]
    sensors = [
        new_offsets_sensor(topics, settings),
        schema_changes_sensor(topics, settings),
        maintenance_sensor(tables, settings),
        *([product_updates_sensor(products, settings, windows)] if products else []),
        *([unpublished_tables_sensor(tables, settings)] if settings.catalogs else []),
    ]
    # Those of an earlier version, which may have left runs.
    former = [f"maintain_{table.table}" for table in tables]
    ours = _ours(assets, checks, [*schedules, *sensors], former)
    product_keys = {product_key(product, settings.namespace) for product in products}
    of_topics, of_products = _split(checks, product_keys)
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=[
            follow_job(settings, windows),
            verify_job(of_topics, comparisons),
            *maintenance_jobs(tables, settings),
            *([check_products_job(of_products)] if products else []),
            *([reports_job(report_assets)] if report_assets else []),
            *prune_jobs(ours, settings),
        ],
        schedules=[*schedules, *prune_schedules(settings)],
        sensors=sensors,
        resources=resources_from(settings),
    )


def _ours(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec],
    checks: Iterable[dg.AssetChecksDefinition],
    automation: Iterable[dg.ScheduleDefinition | dg.SensorDefinition],
    former: Iterable[str],
) -> Ours:
    keys = (a.keys if isinstance(a, dg.AssetsDefinition) else {a.key} for a in assets)
    return Ours(
        launchers=(*(launcher.name for launcher in automation), PRUNE_SCHEDULE_NAME, *former),
        assets=tuple(sorted(key for some in keys for key in some)),
        checks=tuple(key for check in checks for key in check.check_keys),
    )


def _split(
    checks: Iterable[dg.AssetChecksDefinition], products: Collection[dg.AssetKey]
) -> tuple[list[dg.AssetCheckKey], list[dg.AssetCheckKey]]:
    """The checks of tables that come from a log, and those of products, which have no log."""
    keys = [key for check in checks for key in check.check_keys]
    of_products = [key for key in keys if key.asset_key in products]
    return [key for key in keys if key.asset_key not in products], of_products
