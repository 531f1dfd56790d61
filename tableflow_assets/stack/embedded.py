"""The embedded stack as its clients see it: its addresses, and the keys of its owner."""

from __future__ import annotations

from tableflow_assets.base import masking
from tableflow_assets.base.errors import StackError
from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack.seaweed import BUCKET, REGION, SeaweedServer
from tableflow_assets.stack.state import StackState


def state_of(settings: Settings) -> StackState:
    state = StackState.load(settings.state_dir)
    if not state.ports:
        raise StackError(
            f"The embedded stack was never started in {settings.state_dir}.",
            "Start it with `tableflow stack up`, or name your own servers in tableflow.yaml.",
        )
    return state


def storage(state: StackState) -> S3Connection:
    address = SeaweedServer(state).address
    keys = (masking.remember_name(state.access_key), masking.remember(state.secret_key))
    return S3Connection(f"s3://{BUCKET}/", REGION, address, *keys, path_style=True)


def spark_token(state: StackState) -> str | None:
    """None: the running server was started by a version that asked for none."""
    return masking.remember(state.spark_token) if state.spark_token else None


def catalog(state: StackState, namespace: str) -> CatalogConnection:
    uri = SeaweedServer(state).catalog_address
    return CatalogConnection(
        uri=uri,
        namespace=namespace,
        oauth2_server_uri=f"{uri}/v1/oauth/tokens",
        client_id=masking.remember_name(state.access_key),
        client_secret=masking.remember(state.secret_key),
    )
