"""What topics and tables are called in Dagster."""

from __future__ import annotations

import dagster as dg

from tableflow_assets.product.products import Input, Product
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Topic

CHECK_NAME = "exactly_once"
SUSPENSION_CHECK_NAME = "not_suspended"
MAINTENANCE_CHECK_NAME = "maintenance"
MIRROR_CHECK_NAME = "delta_mirror"
RECOMPUTED_CHECK_NAME = "recomputed_equals"
FOLLOWS_CHECK_NAME = "follows_inputs"
FRESHNESS_CHECK_NAME = "freshness"


def topic_key(topic: Topic) -> dg.AssetKey:
    return dg.AssetKey(["kafka", topic.name])


def table_key(table: ManagedTable, namespace: str) -> dg.AssetKey:
    return dg.AssetKey([namespace, table.table])


def product_key(product: Product, namespace: str) -> dg.AssetKey:
    return table_key(product.spec, namespace)


def input_key(read: Input, namespace: str) -> dg.AssetKey:
    """The table that a product reads: a topic's or another product's."""
    return dg.AssetKey([namespace, read.table])


def table_pool(table: ManagedTable) -> str:
    """Writers of one table wait for each other here. The commits are fenced in any case."""
    return f"tableflow_{table.table}"
