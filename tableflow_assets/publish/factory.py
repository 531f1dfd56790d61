"""A block under `catalogs:` as the catalog that it means."""

from __future__ import annotations

from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.publish.base import PublishingCatalog
from tableflow_assets.settings.catalogs import (
    GlueSettings,
    PublishingSettings,
    SnowflakeSettings,
    UnitySettings,
)


def made(name: str, block: PublishingSettings, storage: S3Connection) -> PublishingCatalog:
    """Asks nobody. Each kind is imported only where it is used: their clients take a while to load."""
    if isinstance(block, GlueSettings):
        from tableflow_assets.publish.glue.glue import GlueCatalog

        return GlueCatalog(name, block)
    if isinstance(block, UnitySettings):
        from tableflow_assets.publish.unity.unity import UnityCatalog

        return UnityCatalog(name, block)
    if isinstance(block, SnowflakeSettings):
        from tableflow_assets.publish.snowflake.snowflake import SnowflakeCatalog

        return SnowflakeCatalog(name, block)
    from tableflow_assets.publish.rest.rest import OtherRestCatalog

    return OtherRestCatalog(name, block, storage)
