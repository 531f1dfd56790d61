"""Snowflake, as a catalog that tables are published to: how it is reached, and what it reads from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tableflow_assets.settings.block import Block, both_or_neither, refused
from tableflow_assets.settings.blocks import (
    ExternalId,
    HttpUrl,
    Identifier,
    Line,
    RoleArn,
    S3Url,
)
from tableflow_assets.settings.secret_ref import SecretRef


class ExternalVolume(Block):
    """Where Snowflake finds the files. With neither a role nor an endpoint, it exists already."""

    name: Identifier = "tableflow"
    base_url: S3Url
    role_arn: RoleArn | None = None
    external_id: ExternalId | None = None
    # Of an S3-compatible store other than AWS. Snowflake has to reach it, so it cannot be a local one.
    endpoint: HttpUrl | None = None
    access_key: SecretRef | None = None
    secret_key: SecretRef | None = None

    @property
    def is_ours_to_make(self) -> bool:
        return self.role_arn is not None or self.endpoint is not None

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        both_or_neither(self, "access_key", "secret_key")
        if self.endpoint is not None and self.role_arn is not None:
            raise refused("needs `role_arn` (AWS) or `endpoint` (another store), not both")
        if (self.endpoint is None) != (self.access_key is None):
            raise refused("`endpoint` goes with `access_key` and `secret_key`")
        if self.external_id is not None and self.role_arn is None:
            raise refused("`external_id` goes with `role_arn`")
        return self


class ObjectStoreIntegration(Block):
    """Snowflake reads the metadata file that we name. It needs no other catalog."""

    source: Literal["object_store"]
    name: Identifier = "tableflow"

    @property
    def is_ours_to_make(self) -> bool:
        return True


class GlueIntegration(Block):
    """Snowflake reads AWS Glue. Without a role, the integration exists already."""

    source: Literal["glue"]
    name: Identifier = "tableflow"
    namespace: Line  # Glue's database, as the catalog of `type: glue` publishes to it
    role_arn: RoleArn | None = None
    catalog_id: Annotated[str, Field(pattern=r"^\d{12}$")] | None = None  # the AWS account
    region: Line | None = None  # None: that of the Snowflake account

    @property
    def is_ours_to_make(self) -> bool:
        return self.role_arn is not None

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        both_or_neither(self, "role_arn", "catalog_id")
        return self


class RestIntegration(Block):
    """Snowflake reads an Iceberg REST catalog. Without a `uri`, the integration exists already."""

    source: Literal["rest"]
    name: Identifier = "tableflow"
    uri: HttpUrl | None = None
    warehouse: Line | None = None
    prefix: Line | None = None
    namespace: Line | None = None  # None: that of the catalog that owns the tables
    api: Literal["public", "aws_api_gateway", "aws_glue"] = "public"
    # One of: an OAuth client, a bearer token, a role for AWS's signatures.
    client_id: SecretRef | None = None
    client_secret: SecretRef | None = None
    oauth2_server_uri: HttpUrl | None = None
    scope: Line = "PRINCIPAL_ROLE:ALL"
    token: SecretRef | None = None
    role_arn: RoleArn | None = None
    region: Line | None = None
    external_id: ExternalId | None = None

    @property
    def is_ours_to_make(self) -> bool:
        return self.uri is not None

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        both_or_neither(self, "client_id", "client_secret")
        ways = [way for way in (self.client_id, self.token, self.role_arn) if way is not None]
        if len(ways) != (self.uri is not None):
            raise refused(
                "`uri` goes with one of: `client_id` and `client_secret`, `token`, `role_arn`"
            )
        return self


Integration = Annotated[
    ObjectStoreIntegration | GlueIntegration | RestIntegration, Field(discriminator="source")
]


class SnowflakeSettings(Block):
    type: Literal["snowflake"]
    account: Line
    user: Line
    private_key: SecretRef  # PEM, PKCS 8
    private_key_passphrase: SecretRef | None = None
    role: Line | None = None
    warehouse: Line | None = None  # None: the user's default. Creating tables needs one.
    database: Identifier
    # None: the namespace of the tables.
    schema_name: Identifier | None = Field(default=None, alias="schema")
    integration: Integration = ObjectStoreIntegration(source="object_store")
    # None: the REST catalog gives Snowflake credentials for the files.
    external_volume: ExternalVolume | None = None
    # If not the account's own address: private link, a proxy.
    endpoint: HttpUrl | None = None
    # For one statement. A refresh after many new files takes longer than most.
    statement_seconds: int = Field(default=30, ge=5, le=3600)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.external_volume is None and self.integration.source != "rest":
            raise refused(
                "needs `external_volume`: only an integration of `source: rest` does without"
            )
        return self
