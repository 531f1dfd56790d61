"""Unity Catalog's refusals as errors, which say what to grant or change."""

from __future__ import annotations

from dataclasses import dataclass

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, TableflowError
from tableflow_assets.publish.unity.entry import TableName
from tableflow_assets.settings.catalogs import UnitySettings

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY = 401, 403, 404, 409, 429
SERVER_ERROR = 500
NOT_UNITY = "NOT_UNITY_CATALOG"
_MESSAGE_LENGTH = 300


class UnityAnswer(Exception):
    """A refusal as received: its status, its code and the server's message."""

    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        self.status = status
        self.code = code
        # One short line: it ends up in logs and on Dagster's pages.
        self.message = " ".join(message.split())[:_MESSAGE_LENGTH]
        super().__init__(f"{status} {code}: {self.message}")

    @property
    def is_missing(self) -> bool:
        """The requested object does not exist, as opposed to: there is no Unity Catalog to ask."""
        is_about_object = self.code.endswith(("_DOES_NOT_EXIST", "NOT_FOUND"))
        return self.status == NOT_FOUND and is_about_object and not self._is_elsewhere

    @property
    def is_taken(self) -> bool:
        # 400 at Databricks and in newer open-source servers, 409 in older ones.
        return self.code.endswith("ALREADY_EXISTS") or self.status == CONFLICT

    @property
    def is_about_storage(self) -> bool:
        return "EXTERNAL_LOCATION" in self.code or (
            self.status != FORBIDDEN and "external location" in self.message.lower()
        )

    @property
    def is_overlap(self) -> bool:
        return "LOCATION_OVERLAP" in self.code or "overlap" in self.message.lower()

    @property
    def _is_elsewhere(self) -> bool:
        return self.code.startswith(("METASTORE", "ENDPOINT", NOT_UNITY)) or self.is_about_storage


@dataclass(frozen=True)
class Request:
    """What we asked for: errors name it, and the rights it takes."""

    doing: str  # completes "it does not let us ..."
    rights: str  # what to grant
    if_missing: str = ""  # what to do if the requested object does not exist


class Explainer:
    """Turns one catalog's refusals into errors that say what to do."""

    def __init__(self, name: str, settings: UnitySettings) -> None:
        self.name = name
        self.settings = settings
        self.is_databricks = settings.flavor == "databricks"

    def error(self, answer: UnityAnswer, request: Request) -> TableflowError:
        refusal = (
            f"{self.name}: Unity Catalog at {self.settings.host} does not let us {request.doing}"
        )
        why = f"{answer.code} {answer.message}".strip() or f"status {answer.status}"
        if answer.status == TOO_MANY or answer.status >= SERVER_ERROR:
            return CatalogAway(
                f"{self.name}: Unity Catalog at {self.settings.host} cannot answer now"
                f" ({answer.status}): {why}"
            )
        return CatalogRefused(f"{refusal}: {why}", self._next_step(answer, request))

    def _next_step(self, answer: UnityAnswer, request: Request) -> str:
        """The first one that fits."""
        catalog = f"Create the catalog `{self.settings.catalog}`, or check `catalog` and `host`"
        steps = [
            (answer.status == UNAUTHORIZED, self._credentials()),
            (answer.is_overlap, _OVERLAP),
            (answer.is_about_storage, self._storage()),
            (answer.status == FORBIDDEN, f"Grant what is missing. {request.rights}"),
            (answer.code.startswith("METASTORE"), _NO_METASTORE),
            (answer.is_missing, request.if_missing or f"{catalog} {_IN_SETTINGS}."),
            (
                answer.status == NOT_FOUND,
                f"Check `host` {_IN_SETTINGS}: no Unity Catalog is there.",
            ),
        ]
        return next((step for fits, step in steps if fits), "See docs/catalog-unity.md.")

    def _credentials(self) -> str:
        if self.settings.client_id is None:
            return (
                "Check that the token in `token` is right and has not expired."
                if self.settings.token
                else "This server wants a token: name its variable in `token`."
            )
        return (
            "Check `client_id` and `client_secret`: the application id and an OAuth secret of a"
            " service principal that is in this workspace. A secret expires after two years at most."
        )

    def _storage(self) -> str:
        if not self.is_databricks:
            return "Create an external location for the bucket, with a credential that may read it."
        return (
            "Make the bucket an external location: CREATE EXTERNAL LOCATION `lake` URL"
            " 's3://<bucket>/' WITH (STORAGE CREDENTIAL `<credential>`); then GRANT CREATE EXTERNAL"
            " TABLE, EXTERNAL USE LOCATION ON EXTERNAL LOCATION `lake` TO `<principal>`;"
        )

    # The rights that each request takes, for somebody who can grant them.

    def to_look(self, name: TableName | None = None) -> str:
        if not self.is_databricks:
            return self._open_source([("catalog", self._catalog(name), "USE CATALOG")])
        schema = f" GRANT USE SCHEMA, SELECT ON SCHEMA {name.sql_schema} TO {_WHO}" if name else ""
        return f"GRANT USE CATALOG ON CATALOG `{self._catalog(name)}` TO {_WHO}{schema}"

    def to_create_schema(self, name: TableName) -> str:
        if not self.is_databricks:
            privileges = ("USE CATALOG", "CREATE SCHEMA")
            return self._open_source([("catalog", name.catalog, right) for right in privileges])
        return f"GRANT USE CATALOG, CREATE SCHEMA ON CATALOG `{name.catalog}` TO {_WHO}"

    def to_create_table(self, name: TableName) -> str:
        if not self.is_databricks:
            privileges = [
                ("schema", name.full_schema, right) for right in ("USE SCHEMA", "CREATE TABLE")
            ]
            return self._open_source([("catalog", name.catalog, "USE CATALOG"), *privileges])
        return (
            f"GRANT USE CATALOG ON CATALOG `{name.catalog}` TO {_WHO} GRANT USE SCHEMA, CREATE TABLE,"
            f" EXTERNAL USE SCHEMA ON SCHEMA {name.sql_schema} TO {_WHO} GRANT CREATE EXTERNAL TABLE,"
            f" EXTERNAL USE LOCATION ON EXTERNAL LOCATION `<that of the bucket>` TO {_WHO}"
            " The metastore must have `External data access` on."
        )

    def to_change(self, name: TableName) -> str:
        if not self.is_databricks:
            return "Whoever published the table owns it: use that token, or make this one an owner."
        return (
            f"ALTER TABLE {name.sql} OWNER TO {_WHO} or GRANT MANAGE ON SCHEMA {name.sql_schema} TO"
            f" {_WHO}"
        )

    def to_sync(self, name: TableName) -> str:
        return (
            f"GRANT SELECT, MODIFY ON TABLE {name.sql} TO {_WHO} and CAN USE on the SQL warehouse of"
            " `warehouse_id`."
        )

    def _catalog(self, name: TableName | None) -> str:
        return name.catalog if name else self.settings.catalog

    def _open_source(self, rights: list[tuple[str, str, str]]) -> str:
        return " ".join(
            f"bin/uc permission create --securable_type {kind} --name {name} --privilege"
            f' "{right}" --principal <the token\'s user>;'
            for kind, name, right in rights
        )


_WHO = "`<application id of the service principal>`;"
_IN_SETTINGS = "under `catalogs:` in tableflow.yaml"
_NO_METASTORE = "Assign a Unity Catalog metastore to the workspace, in the account console."
_OVERLAP = (
    "Another table lies at the same place: perhaps this one under an earlier name. Drop that entry"
    " (an external table's data stays), then publish again."
)
