"""Where a secret is: tableflow.yaml refers to it, and never contains it."""

from __future__ import annotations

import os
import re
from typing import Self

import pydantic
from pydantic import field_validator, model_validator

from tableflow_assets.base import masking, secrets
from tableflow_assets.settings.block import Block, refused


class SecretRef(Block):
    """An environment variable, or a secret of AWS Secrets Manager; read again at every use."""

    env: str | None = None
    aws_secret: str | None = None  # its name, or its ARN
    key: str | None = None  # of the JSON that the secret holds; None: the secret is the whole text
    region: str | None = None  # None: that of the ARN, else of the machine's own AWS settings

    @model_validator(mode="before")
    @classmethod
    def _is_reference(cls, value: object) -> object:
        if isinstance(value, dict | SecretRef):
            return value
        raise refused(
            "a secret must not be in this file: put it into an environment variable and write"
            " {env: NAME_OF_THE_VARIABLE}, or into AWS Secrets Manager and write {aws_secret: NAME}"
        )

    @field_validator("env", mode="before")
    @classmethod
    def _is_variable(cls, value: object) -> object:
        if value is None or (isinstance(value, str) and re.fullmatch(r"[A-Za-z_]\w*", value, re.A)):
            return value
        raise refused("must be the name of an environment variable, not the secret itself")

    @field_validator("aws_secret", mode="before")
    @classmethod
    def _is_name(cls, value: object) -> object:
        if value is None or (isinstance(value, str) and _AWS_NAME.fullmatch(value)):
            return value
        raise refused("must be the name or the ARN of a secret in AWS Secrets Manager")

    @field_validator("key", "region", mode="before")
    @classmethod
    def _is_plain(cls, value: object) -> object:
        if value is None or (isinstance(value, str) and re.fullmatch(r"[\w.-]{1,128}", value)):
            return value
        raise refused("must be letters, digits, `_`, `-` and `.`")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.env is None) == (self.aws_secret is None):
            raise refused("needs `env` or `aws_secret`, and not both")
        if self.env is not None and (self.key or self.region):
            raise refused("`key` and `region` go with `aws_secret`")
        return self

    def resolve(self, client: secrets.MakeClient | None = None) -> str:
        """The secret itself. Once resolved, it is masked in logs and errors.

        ``client``: for AWS Secrets Manager, if not with the machine's own credentials.
        """
        return masking.remember(self._read(client))

    def resolve_name(self, client: secrets.MakeClient | None = None) -> str:
        """As `resolve`, for the name of a user or key, which is not secret and may be an ordinary word."""
        return masking.remember_name(self._read(client))

    def _read(self, client: secrets.MakeClient | None) -> str:
        if self.env is not None:
            return secrets.from_environment(self.env)
        return secrets.from_aws(str(self.aws_secret), self.key, self.region, client)

    @pydantic.model_serializer
    def show(self) -> str:
        """For people; makes no request to AWS."""
        if self.env is None:
            return str(self)
        return f"{self} ({'set' if os.environ.get(self.env) else 'not set'})"

    def __str__(self) -> str:
        if self.env is not None:
            return f"env:{self.env}"
        return f"aws:{self.aws_secret}" + (f"#{self.key}" if self.key else "")

    def __repr__(self) -> str:
        return f"SecretRef({self})"


_AWS_NAME = re.compile(r"arn:aws[\w-]*:secretsmanager:[\w:/+=.@-]+|[\w/+=.@-]{1,512}", re.ASCII)
