"""Commands about AWS."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal

import click

from tableflow_assets.base.errors import ServerUnreachable, SettingsError, StackError
from tableflow_assets.settings.catalogs import GlueSettings
from tableflow_assets.settings.settings import Settings, load_settings

if TYPE_CHECKING:
    from tableflow_assets.publish.glue.policy import Policy, Scope

Kind = Literal["writer", "reader", "caller"]
_FOR = {
    "writer": "For tableflow and its Spark: publish to Glue, write the tables' files.",
    "reader": "For Athena and other engines: read, and nothing else.",
    "caller": "For the identity that assumes the role of the settings.",
    "trust": "For the role of the settings: who may assume it.",
}


@click.group()
def aws() -> None:
    """What AWS has to allow."""


@aws.command()
@click.option("--writer", "kind", flag_value="writer", default="writer", help=_FOR["writer"])
@click.option("--reader", "kind", flag_value="reader", help=_FOR["reader"])
@click.option("--caller", "kind", flag_value="caller", help=_FOR["caller"])
@click.option("--trust", metavar="ARN", help=f"{_FOR['trust']} ARN: that identity.")
@click.option(
    "--catalog", "name", help="Which of the settings' Glue catalogs. Default: the only one."
)
@click.option("--account", metavar="ID", help="The AWS account of Glue. Default: the role's.")
@click.option("--json", "as_json", is_flag=True, help="Only the policy document, for a file.")
def policy(
    kind: Kind, trust: str | None, name: str | None, account: str | None, as_json: bool
) -> None:
    """The IAM policy that a Glue catalog of the settings needs, and no more than that."""
    settings = load_settings()
    catalog, block = _glue_catalog(settings, name)
    if trust is not None or kind == "caller":
        document = _of_role(catalog, block, trust)
    else:
        document = _of_tables(kind, _scope(settings, catalog, block, account))
    if as_json:
        click.echo(json.dumps(document))
        return
    click.secho(_FOR["trust" if trust is not None else kind], bold=True, err=True)
    click.echo(json.dumps(document, indent=2))


def _of_tables(kind: Kind, scope: Scope) -> Policy:
    from tableflow_assets.publish.glue.policy import reader_policy, writer_policy

    return writer_policy(scope) if kind == "writer" else reader_policy(scope)


def _of_role(catalog: str, block: GlueSettings, principal: str | None) -> Policy:
    from tableflow_assets.publish.glue.policy import caller_policy, trust_policy

    if principal is not None:
        return trust_policy(principal, block.external_id)
    if block.role_arn is None:
        raise SettingsError(
            f"{catalog} names no role, so nobody assumes one.",
            f"Set `role_arn:` of {catalog} under `catalogs:` in tableflow.yaml, or use --writer.",
        )
    return caller_policy(block.role_arn)


def _scope(settings: Settings, catalog: str, block: GlueSettings, account: str | None) -> Scope:
    from tableflow_assets.publish.glue.glue import database_name
    from tableflow_assets.publish.glue.policy import Scope

    if account is None and block.role_arn:
        account = (re.findall(r"\A[^:]*:[^:]*:iam::(\d{12}):", block.role_arn) or [None])[0]
    if account is None or not re.fullmatch(r"\d{12}", account):
        raise click.UsageError("Say which AWS account Glue is in, by its 12 digits: --account ID")
    cluster_id = "" if block.database else _cluster_id(settings, catalog)
    sse = settings.warehouse.sse if settings.warehouse else None
    return Scope(
        region=block.region,
        account=account,
        database=database_name(catalog, block, cluster_id),
        locations=_locations(settings),
        kms_key=sse.kms_key if sse else None,
    )


def _locations(settings: Settings) -> tuple[str, ...]:
    """The warehouse, and the buckets or folders of topics that have their own."""
    from tableflow_assets.stack.seaweed import BUCKET

    warehouse = settings.warehouse.location if settings.warehouse else f"s3://{BUCKET}/"
    options = (settings.defaults, *settings.topics.values())
    locations = sorted({option.location for option in options if option.location})
    return (warehouse, *locations)


def _cluster_id(settings: Settings, catalog: str) -> str:
    """The Kafka cluster's id, after which the database is named unless the settings name it."""
    from tableflow_assets.tableflow import Tableflow

    try:
        return Tableflow(settings).log.cluster_id()
    except (StackError, ServerUnreachable) as error:
        raise SettingsError(
            f"The database is called after the Kafka cluster, which cannot be asked: {error.problem}",
            f"{error.next_step} Or set `database:` of {catalog} under `catalogs:`.",
        ) from error


def _glue_catalog(settings: Settings, name: str | None) -> tuple[str, GlueSettings]:
    glue_catalogs = {
        key: block for key, block in settings.catalogs.items() if isinstance(block, GlueSettings)
    }
    if not glue_catalogs:
        raise SettingsError(
            "The settings name no Glue catalog.",
            "Add one under `catalogs:` in tableflow.yaml: see docs/catalog-glue.md.",
        )
    if name is None and len(glue_catalogs) == 1:
        return next(iter(glue_catalogs.items()))
    if name in glue_catalogs:
        return name, glue_catalogs[name]
    raise click.UsageError(f"Say which Glue catalog: --catalog {' | '.join(sorted(glue_catalogs))}")
