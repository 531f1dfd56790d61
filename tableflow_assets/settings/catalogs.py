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
    """How to log in to AWS: with keys or else the machine's own credentials; a role is assumed with those."""

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
    # None: the id of the Kafka cluster, with the characters that Glue and Athena do not allow replaced.
    database: Identifier | None = None
    # How to show a table that has both formats.
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
    # A SQL warehouse of Databricks: lets Unity read changed columns without dropping the table's entry.
    warehouse_id: Word | None = None

    @model_validator(mode="after")
    def _credentials_fit(self) -> Self:
        both_or_neither(self, "client_id", "client_secret")
        if self.flavor == "open_source":
            for key in ("client_id", "warehouse_id"):
                if getattr(self, key) is not None:
                    raise refused(f"{key} is for databricks; open_source takes a token or nothing")
        elif (self.client_id is None) == (self.token is None):
            raise refused("needs either client_id and client_secret (a service principal) or token")
        return self


PublishingSettings = Annotated[
    GlueSettings | UnitySettings | SnowflakeSettings | OtherRestSettings,
    Field(discriminator="type"),
]
