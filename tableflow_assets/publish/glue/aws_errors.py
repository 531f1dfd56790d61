"""AWS's errors as ours, which say what to grant or change."""

from __future__ import annotations

import re

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, TableflowError
from tableflow_assets.settings.catalogs import AwsAccess

_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_UNKNOWN_KEYS = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "AuthFailure",
    }
)
# Transient, although Glue answers them with HTTP status 400.
_TRANSIENT = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "InternalServiceException",
        "InternalFailure",
        "OperationTimeoutException",
        "ResourceNotReadyException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "FederationSourceRetryableException",
    }
)
_LAKE_FORMATION = {
    "GetDatabase": "DESCRIBE on the database",
    "CreateDatabase": "CREATE_DATABASE on the catalog",
    "GetTable": "DESCRIBE on the table, and on its database",
    "CreateTable": "CREATE_TABLE on the database, and DATA_LOCATION_ACCESS on the tables' location",
    "UpdateTable": "ALTER on the table",
    "DeleteTable": "DROP on the table",
}


class KeysRefused(CatalogRefused):
    """AWS does not know the keys, or no longer; there may be others where they come from."""


def answered(
    catalog: str, access: AwsAccess, service: str, error: Exception
) -> tuple[str, TableflowError]:
    """The error code of an AWS response, and the error to raise for it."""
    response = getattr(error, "response", {})
    code = str(response.get("Error", {}).get("Code", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    message = str(response.get("Error", {}).get("Message", ""))
    operation = str(getattr(error, "operation_name", ""))
    problem = f"{catalog}: AWS refuses {service}:{operation}: {message or code}"
    if code in _TRANSIENT or status in {429, 500, 502, 503, 504}:
        return code, CatalogAway(
            f"{catalog}: {service}:{operation} is not answered now: {code or status} {message}".strip()
        )
    if code in _EXPIRED:
        step = f"Renew {_credentials(access)}: they have expired, and could not be refreshed."
    elif code in _UNKNOWN_KEYS:
        step = f"Check {_credentials(access)}, and this machine's clock."
    elif code in _DENIED:
        step = _grant(service, operation, message)
    elif code == "ResourceNumberLimitExceededException":
        step = f"Ask AWS for a higher quota of Glue in {access.region}, or publish fewer tables."
    elif code == "GlueEncryptionException":
        step = (
            "Grant kms:Decrypt and kms:GenerateDataKey on the key that encrypts the Data Catalog."
        )
    else:
        step = f"Glue says {code}: see docs/catalog-glue.md for its limits."
    kind = KeysRefused if code in _EXPIRED | _UNKNOWN_KEYS else CatalogRefused
    return code, kind(problem, step)


def unanswered(catalog: str, access: AwsAccess, service: str, error: Exception) -> TableflowError:
    """For errors that botocore raises itself: no credentials, no connection, no response in time."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    where = f"{service} at {access.endpoint or access.region}"
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, boto.SSLError):
        return CatalogRefused(
            f"{catalog}: the connection to {where} is not secure: {reason}",
            "Let this machine trust the certificate: AWS_CA_BUNDLE names a file of authorities.",
        )
    if isinstance(error, (boto.ConnectionError, boto.HTTPClientError, ResponseParserError)):
        return CatalogAway(f"{catalog}: {where} does not answer: {reason}")
    if isinstance(error, boto.ParamValidationError):
        return CatalogRefused(
            f"{catalog}: {service} does not accept these parameters: {error}",
            f"Check `{catalog}` under `catalogs:` in tableflow.yaml.",
        )
    return CatalogRefused(
        f"{catalog}: there are no credentials for {where}: {reason}",
        f"Set {_credentials(access)}.",
    )


def _grant(service: str, operation: str, message: str) -> str:
    if "Lake Formation" in message:
        match = re.search(r"Required (.+? on [^\s(]+)", message)
        right = match[1] if match else _LAKE_FORMATION.get(operation, f"for {operation}")
        return (
            f"In Lake Formation, grant the identity that publishes: {right}."
            " See docs/catalog-glue.md, Lake Formation."
        )
    match = re.search(
        r"(?:User: (?P<who>\S+) is )?not authorized to perform: (?P<action>[\w-]+:\w+)"
        r"(?: on resource: (?P<resource>\S+))?",
        message,
    )
    action = match["action"] if match else f"{service}:{operation}"
    resource = f" on {match['resource']}" if match and match["resource"] else ""
    identity = match["who"] if match and match["who"] else "the identity that publishes"
    if "explicit deny" in message:
        return f"A policy denies {identity} {action}{resource} explicitly: take that out."
    if action == "sts:AssumeRole":
        return (
            f"Allow {identity} sts:AssumeRole{resource}, in its own policy and in the role's trust policy:"
            " `tableflow aws policy --caller` and `--trust` print them."
        )
    return f"Grant {identity} {action}{resource}: `tableflow aws policy` prints the whole policy."


def _credentials(access: AwsAccess) -> str:
    """Where they come from; never what they are."""
    if access.access_key and access.secret_key:
        return f"the keys in {access.access_key} and {access.secret_key}"
    return "this machine's own AWS credentials (environment, ~/.aws, or the machine's role)"
