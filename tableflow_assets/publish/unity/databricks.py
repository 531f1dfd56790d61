"""Unity Catalog of Databricks, through `databricks-sdk`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import requests

from tableflow_assets.base.errors import CatalogAway, CatalogRefused
from tableflow_assets.base.retry import poll_until
from tableflow_assets.publish.unity.entry import HTTP_SECONDS, Grants, NewTable, UnityTable
from tableflow_assets.publish.unity.errors import FORBIDDEN, NOT_UNITY, SERVER_ERROR, UnityAnswer
from tableflow_assets.publish.unity.tokens import MachineTokens, away
from tableflow_assets.settings.catalogs import UnitySettings

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.core import Config
    from databricks.sdk.errors.base import DatabricksError
    from databricks.sdk.service.sql import StatementStatus

T = TypeVar("T")
STATEMENT_SECONDS = 10.0  # for a running warehouse; one that has to start takes longer
POLL_SECONDS = 0.5
PATIENCE = 60  # seconds, longer than any one request


class DatabricksApi:
    def __init__(self, settings: UnitySettings) -> None:
        self.settings = settings
        self._tokens = MachineTokens(settings, HTTP_SECONDS) if settings.client_id else None

    @cached_property
    def client(self) -> WorkspaceClient:
        from databricks.sdk import WorkspaceClient

        return WorkspaceClient(config=_config(self.settings.host, self._header))

    def ask_catalog(self, name: str) -> None:
        self._ask(lambda: self.client.catalogs.get(_path(name)))

    def ask_schema(self, full_name: str) -> None:
        self._ask(lambda: self.client.schemas.get(_path(full_name)))

    def create_schema(self, catalog: str, schema: str) -> None:
        self._ask(lambda: self.client.schemas.create(schema, catalog))

    def table(self, full_name: str) -> UnityTable:
        return UnityTable.of_answer(
            self._ask(lambda: self.client.tables.get(_path(full_name))).as_dict()
        )

    def create_table(self, table: NewTable) -> None:
        from databricks.sdk.service.catalog import (
            ColumnInfo,
            ColumnTypeName,
            DataSourceFormat,
            TableType,
        )

        columns = [
            ColumnInfo(**{**vars(column), "type_name": ColumnTypeName(column.type_name)})
            for column in table.columns
        ]
        self._ask(
            lambda: self.client.tables.create(
                table.name.table,
                table.name.catalog,
                table.name.schema,
                TableType.EXTERNAL,
                DataSourceFormat.DELTA,
                table.location,
                columns=columns,
                properties=dict(table.properties),
            )
        )

    def delete_table(self, full_name: str) -> None:
        self._ask(lambda: self.client.tables.delete(_path(full_name)))

    def grants(self, full_name: str) -> Grants:
        grants: dict[str, tuple[str, ...]] = {}
        page: str | None = None
        while True:
            at = page
            answer = self._ask(
                lambda at=at: self.client.grants.get(  # type: ignore[misc]
                    "table", _path(full_name), max_results=0, page_token=at
                )
            )
            for assignment in answer.privilege_assignments or []:
                if assignment.principal:  # a deleted principal has only an id left
                    privileges = tuple(right.value for right in assignment.privileges or [])
                    grants[assignment.principal] = (
                        *grants.get(assignment.principal, ()),
                        *privileges,
                    )
            page = answer.next_page_token
            if not page:
                return grants

    def grant(self, full_name: str, grants: Grants) -> None:
        from databricks.sdk.service.catalog import PermissionsChange, Privilege

        changes = [
            PermissionsChange(add=[Privilege(right) for right in rights], principal=principal)
            for principal, rights in grants.items()
        ]
        self._ask(lambda: self.client.grants.update("table", _path(full_name), changes=changes))

    def forget_token(self) -> bool:
        return self._tokens is not None and self._tokens.forget()

    def run(self, statement: str, warehouse: str) -> None:
        """On a SQL warehouse; the statement is canceled if it has not run after a few seconds."""
        from databricks.sdk.service.sql import StatementState

        statements = self.client.statement_execution
        answer = self._ask(
            lambda: statements.execute_statement(statement, warehouse, wait_timeout="0s")
        )
        name, status = str(answer.statement_id), answer.status

        def is_over(status: StatementStatus | None) -> bool:
            under_way = (StatementState.PENDING, StatementState.RUNNING)
            return status is None or status.state not in under_way

        if not is_over(status):
            status = poll_until(
                is_over,
                lambda: self._ask(lambda: statements.get_statement(name)).status,
                every=POLL_SECONDS,
                within=STATEMENT_SECONDS,
            )
        if not is_over(status):
            self._ask(lambda: statements.cancel_execution(name))
            raise CatalogAway(
                f"The SQL warehouse {warehouse} did not get to it in {STATEMENT_SECONDS:.0f} s:"
                " perhaps it is starting."
            )
        if status is None or status.state != StatementState.SUCCEEDED:
            raise _failure(status)

    def _header(self) -> dict[str, str]:
        if self._tokens:
            return self._tokens.header()
        token = self.settings.token
        return {"Authorization": f"Bearer {token.resolve()}"} if token else {}

    def _ask(self, question: Callable[[], T]) -> T:
        from databricks.sdk.errors.base import DatabricksError

        try:
            return question()
        except DatabricksError as error:
            raise _answer(error) from None
        except TimeoutError as error:  # the SDK wanted to retry, and our clock did not let it
            cause = error.__cause__
            if isinstance(cause, DatabricksError):
                raise _answer(cause) from None
            raise self._unanswered(cause if isinstance(cause, Exception) else error) from None
        except requests.RequestException as error:
            raise self._unanswered(error) from None

    def _unanswered(self, error: Exception) -> Exception:
        if isinstance(error, requests.exceptions.SSLError):
            return CatalogRefused(
                f"The certificate of {self.settings.host} cannot be trusted.",
                "Check `host`, or name the authority's file in the variable REQUESTS_CA_BUNDLE.",
            )
        if isinstance(error, requests.exceptions.InvalidJSONError):
            return UnityAnswer(404, NOT_UNITY, "what came is not JSON")
        return away(self.settings.host, error)


def _path(name: str) -> str:
    """The SDK does not escape names in paths."""
    return quote(name, safe=".")


def _answer(error: DatabricksError) -> UnityAnswer:
    from databricks.sdk.errors.platform import STATUS_CODE_MAPPING

    statuses = (status for status, kind in STATUS_CODE_MAPPING.items() if isinstance(error, kind))
    # The SDK appends its own settings to such an error: no help here, where it has none.
    message = str(error).partition(". Config: ")[0]
    return UnityAnswer(next(statuses, SERVER_ERROR), str(error.error_code or ""), message)


def _failure(status: StatementStatus | None) -> Exception:
    error = status.error if status else None
    message = (error.message if error else None) or "it did not say why"
    if "PERMISSION" in message.upper() or "PRIVILEGE" in message.upper():
        return UnityAnswer(FORBIDDEN, "", message)
    return UnityAnswer(
        400, str(error.error_code.value if error and error.error_code else ""), message
    )


def _config(host: str, header: Callable[[], dict[str, str]]) -> Config:
    from databricks.sdk.clock import Clock
    from databricks.sdk.core import Config, CredentialsStrategy

    class OurHeader(CredentialsStrategy):
        def auth_type(self) -> str:
            return "tableflow"

        def __call__(self, cfg: Any) -> Callable[[], dict[str, str]]:
            return header

    class OnceOnly(Clock):
        """Turns the SDK's retries off: a server may ask for minutes of patience. `publish` retries."""

        skipped = 0.0

        def time(self) -> float:
            return time.time() + self.skipped

        def sleep(self, seconds: float) -> None:
            self.skipped += 2 * PATIENCE

    class OnlyWhatIsSet(Config):
        """Ignores the machine's environment and files, which may be about another workspace."""

        def _load_from_env(self) -> None: ...

        def _known_file_config_loader(self) -> None: ...

        def _resolve_host_metadata(self) -> None: ...

    Config.attributes()  # collected by the first class asked for them, which must be this one
    return OnlyWhatIsSet(
        host=host,
        credentials_strategy=OurHeader(),
        clock=OnceOnly(),
        http_timeout_seconds=HTTP_SECONDS,
        retry_timeout_seconds=PATIENCE,
    )
