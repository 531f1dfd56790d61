"""The catalogs that tables are published to, beside the one that owns them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tableflow_assets.settings.block import refused
from tableflow_assets.settings.blocks import (
    Block,
    ExternalId,
    Format,
    HttpUrl,
    Identifier,
    Line,
    RoleArn,
    SecretRef,
    Word,
    both_or_neither,
)
from tableflow_assets.settings.rest import OtherRestSettings
from tableflow_assets.settings.snowflake import SnowflakeSettings

__all__ = [
    "AwsAccess",
    "GlueSettings",
    "OtherRestSettings",
    "PublishingSettings",
    "SnowflakeSettings",
    "UnitySettings",
]


class AwsAccess(Block):
    """How AWS is reached. Without keys, as the machine is; with a role, by assuming it."""

    region: Line = "us-east-1"
    endpoint: HttpUrl | None = None
    access_key: SecretRef | None = None
    secret_key: SecretRef | None = None
    role_arn: RoleArn | None = None
    external_id: ExternalId | None = None

    @model_validator(mode="after")
    def _keys_come_in_pairs(self) -> Self:
        both_or_neither(self, "access_key", "secret_key")
        return self


class GlueSettings(AwsAccess):
    type: Literal["glue"]
    # None: the id of the Kafka cluster, as far as Glue and Athena allow its letters.
    database: Identifier | None = None
    # What a table is shown as where it is kept in both formats.
    format: Format = "iceberg"


class UnitySettings(Block):
    type: Literal["unity"]
    host: HttpUrl
    # `databricks`: OAuth for machines, by client id and secret. `open_source`: a token, or nothing.
    flavor: Literal["databricks", "open_source"] = "databricks"
    catalog: Identifier
    schema_name: Identifier | None = Field(default=None, alias="schema")
    client_id: SecretRef | None = None
    client_secret: SecretRef | None = None
    token: SecretRef | None = None
    # A SQL warehouse of Databricks: it lets Unity read changed columns without listing the table anew.
    warehouse_id: Word | None = None

    @model_validator(mode="after")
    def _credentials_fit(self) -> Self:
        both_or_neither(self, "client_id", "client_secret")
        if self.flavor == "open_source":
            for wrong in ("client_id", "warehouse_id"):
                if getattr(self, wrong) is not None:
                    raise refused(
                        f"{wrong} is for databricks; open_source takes a token or nothing"
                    )
        elif (self.client_id is None) == (self.token is None):
            raise refused("needs either client_id and client_secret (a service principal) or token")
        return self


PublishingSettings = Annotated[
    GlueSettings | UnitySettings | SnowflakeSettings | OtherRestSettings,
    Field(discriminator="type"),
]
