"""AWS roles that we assume. botocore keeps their keys, and asks for new ones before they expire."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from tableflow_assets.base import masking, secrets

SESSION_NAME = "tableflow"
logger = logging.getLogger(__name__)


def role_credentials(
    own_session: Callable[[], Any],
    role_arn: str,
    external_id: str | None,
    config: Any,
    explain: Callable[[Exception], Exception],
) -> Any:
    """Credentials of botocore's that renew themselves, 15 minutes before they end.

    ``own_session``: with the identity that may assume the role, and the region; asked for every time.
    ``config``: of the client of STS. ``explain``: what an error of botocore's means to our caller.

    The role is assumed at once: of a first time that fails later, botocore logs the traceback.
    """
    from botocore.credentials import RefreshableCredentials

    assume = partial(_assume, own_session, role_arn, external_id, config, explain)
    return RefreshableCredentials.create_from_metadata(
        assume(), refresh_using=assume, method="assume-role"
    )


def _assume(
    own_session: Callable[[], Any],
    role_arn: str,
    external_id: str | None,
    config: Any,
    explain: Callable[[Exception], Exception],
) -> dict[str, str]:
    from botocore.credentials import AssumeRoleCredentialFetcher
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    with_id = {"ExternalId": external_id} if external_id else {}
    try:
        own = own_session()
        own_credentials = own.get_credentials()
        if own_credentials is None:
            raise NoCredentialsError
        fetcher = AssumeRoleCredentialFetcher(
            partial(own.client, config=config),
            own_credentials,
            role_arn,
            extra_args={"RoleSessionName": SESSION_NAME, **with_id},
        )
        keys: dict[str, str] = fetcher.fetch_credentials()
    except ClientError as error:
        secrets.forget()  # the keys that it was asked with may have been changed
        raise explain(error) from error
    except BotoCoreError as error:
        raise explain(error) from error
    masking.remember(keys["secret_key"])
    masking.remember(keys["token"])
    logger.info("assumed %s until %s", role_arn, keys["expiry_time"])
    return keys
