"""Open-source Unity Catalog, through `unitycatalog-client`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

from tableflow_assets.base.errors import CatalogRefused
from tableflow_assets.publish.unity.entry import HTTP_SECONDS, Grants, NewTable, UnityTable
from tableflow_assets.publish.unity.errors import NOT_UNITY, UnityAnswer
from tableflow_assets.publish.unity.tokens import away
from tableflow_assets.settings.catalogs import UnitySettings

T = TypeVar("T")
PATH = "/api/2.1/unity-catalog"


class OpenSourceApi:
    def __init__(self, settings: UnitySettings) -> None:
        self.settings = settings
        self._address = settings.host.rstrip("/").removesuffix(PATH) + PATH

    @cached_property
    def _unity(self) -> Any:
        """The client library: it loads slowly, and exports no types."""
        import unitycatalog.client

        return unitycatalog.client

    def ask_catalog(self, name: str) -> None:
        self._ask(
            lambda client: self._unity.CatalogsApi(client).get_catalog(
                name, _request_timeout=HTTP_SECONDS
            )
        )

    def ask_schema(self, full_name: str) -> None:
        self._ask(
            lambda client: self._unity.SchemasApi(client).get_schema(
                full_name, _request_timeout=HTTP_SECONDS
            )
        )

    def create_schema(self, catalog: str, schema: str) -> None:
        request = self._unity.CreateSchema(name=schema, catalog_name=catalog)
        self._ask(
            lambda client: self._unity.SchemasApi(client).create_schema(
                request, _request_timeout=HTTP_SECONDS
            )
        )

    def table(self, full_name: str) -> UnityTable:
        async def question(client: Any) -> UnityTable:
            # Not through the client's model, which fails on table types it does not know.
            response = await self._unity.TablesApi(client).get_table_without_preload_content(
                full_name, _request_timeout=HTTP_SECONDS
            )
            content = await response.read()
            if response.status != 200:  # noqa: PLR2004
                raise _answer(response.status, content)
            return UnityTable.of_answer(_json(content))

        return self._ask(question)

    def create_table(self, table: NewTable) -> None:
        columns = [
            self._unity.ColumnInfo(
                **{**vars(column), "type_name": self._unity.ColumnTypeName(column.type_name)}
            )
            for column in table.columns
        ]
        request = self._unity.CreateTable(
            name=table.name.table,
            catalog_name=table.name.catalog,
            schema_name=table.name.schema,
            table_type=self._unity.TableType.EXTERNAL,
            data_source_format=self._unity.DataSourceFormat.DELTA,
            columns=columns,
            storage_location=table.location,
            comment=table.comment or None,
            properties=dict(table.properties),
        )
        self._ask(
            lambda client: self._unity.TablesApi(client).create_table(
                request, _request_timeout=HTTP_SECONDS
            )
        )

    def delete_table(self, full_name: str) -> None:
        self._ask(
            lambda client: self._unity.TablesApi(client).delete_table(
                full_name, _request_timeout=HTTP_SECONDS
            )
        )

    def grants(self, full_name: str) -> Grants:
        answer = self._ask(
            lambda client: self._unity.GrantsApi(client).get(
                self._unity.SecurableType.TABLE, full_name, _request_timeout=HTTP_SECONDS
            )
        )
        return {
            assignment.principal: tuple(right.value for right in assignment.privileges)
            for assignment in answer.privilege_assignments
        }

    def grant(self, full_name: str, grants: Grants) -> None:
        changes = [
            self._unity.PermissionsChange(
                principal=principal,
                add=[self._unity.Privilege(right) for right in rights],
                remove=[],
            )
            for principal, rights in grants.items()
        ]
        self._ask(
            lambda client: self._unity.GrantsApi(client).update(
                self._unity.SecurableType.TABLE,
                full_name,
                self._unity.UpdatePermissions(changes=changes),
                _request_timeout=HTTP_SECONDS,
            )
        )

    def forget_token(self) -> bool:
        return False  # it is read again for every request

    def _ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        """In a thread of its own: the caller's may have an event loop already."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, self._run(question)).result()

    async def _run(self, question: Callable[[Any], Awaitable[T]]) -> T:
        import aiohttp

        token = self.settings.token
        header = ("Authorization", f"Bearer {token.resolve()}") if token else (None, None)
        try:
            address = self._unity.Configuration(host=self._address)
            async with self._unity.ApiClient(address, *header) as client:
                return await question(client)
        except self._unity.ApiException as error:
            raise _answer(error.status or 404, (error.body or "").encode()) from None
        except aiohttp.ClientConnectorCertificateError:
            raise CatalogRefused(
                f"The certificate of {self.settings.host} cannot be trusted.",
                "Check `host`, or name the authority's file in the variable SSL_CERT_FILE.",
            ) from None
        except ValueError:
            raise UnityAnswer(404, NOT_UNITY, "what came is no answer of Unity Catalog") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise away(self.settings.host, error) from None


def _answer(status: int, content: bytes) -> UnityAnswer:
    try:
        body = _json(content)
    except UnityAnswer:
        body = {}
    return UnityAnswer(
        status, str(body.get("error_code") or NOT_UNITY), str(body.get("message") or "")
    )


def _json(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise UnityAnswer(404, NOT_UNITY, "what came is not JSON")
    return body
