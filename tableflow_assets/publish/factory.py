"""From a block under `catalogs:` to the catalog it describes."""

from __future__ import annotations

from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.publish.base import PublishingCatalog
from tableflow_assets.settings.catalogs import (
    GlueSettings,
    PublishingSettings,
    SnowflakeSettings,
    UnitySettings,
)


def catalog_from(name: str, block: PublishingSettings, storage: S3Connection) -> PublishingCatalog:
    """Makes no request. Each kind is imported only when used: the client libraries load slowly."""
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
