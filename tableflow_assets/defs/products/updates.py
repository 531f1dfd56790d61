"""The sensor that keeps products up to date while no run stays with the logs, which does it itself.

It launches a run where inputs are ahead of a product: after commits from elsewhere, and where all is quiet.

Not Dagster's declarative automation, for two reasons. That goes by events, and would miss commits made on
the command line, rollbacks and failed runs, all of which show in a product's ledger. And it requests runs
per window, and a burst of late records touches many windows; here a single run updates them all.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from json import dumps
from pathlib import Path

import dagster as dg
from pydantic import TypeAdapter, ValidationError

from tableflow_assets.base.errors import LedgerError, ServerUnreachable, TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.defs.names import product_key
from tableflow_assets.defs.our_runs import RUN_TAG, Config, in_one_process, is_under_way
from tableflow_assets.defs.partitions import ProductWindows
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.defs.staying import is_alive
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.product.products import Product
from tableflow_assets.product.status import has_changed
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.table.ledger import read_ledger

SENSOR_NAME = "product_updates"
# Topics' tables change every few seconds; a run per change would spend its time starting up.
EVERY_SECONDS = 30
# A request that changed nothing (its run failed) is repeated after 30, 60, 120 … 600 s.
LONGEST_WAIT_SECONDS = 600
# A worker that was killed never reports it, and its run would hold up the next until this limit.
LONGEST_RUN_SECONDS = 3600


@dataclass(frozen=True)
class RequestHistory:
    """The requests for one product since it last changed. ``head``: its snapshot since then."""

    head: int = 0
    at: float = 0
    times: int = 0

    def may_ask_again(self, now: float) -> bool:
        wait = EVERY_SECONDS * 2.0 ** (self.times - 1)
        return not self.times or now >= self.at + min(wait, LONGEST_WAIT_SECONDS)


@dataclass(frozen=True)
class Cursor:
    """Only a hint: if it is lost, failed products are retried sooner."""

    at: float = 0  # of the last request
    asked: dict[str, RequestHistory] = field(default_factory=dict)


def product_updates_sensor(
    products: Sequence[Product], settings: Settings, windows: ProductWindows
) -> dg.SensorDefinition:
    keys = {product.name: product_key(product, settings.namespace) for product in products}

    @dg.sensor(
        name=SENSOR_NAME,
        description=(
            "Launches one run for all products whose inputs have changed; those that failed before have"
            " a run of their own."
        ),
        asset_selection=dg.AssetSelection.assets(*keys.values()),
        minimum_interval_seconds=5,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def product_updates(
        context: dg.SensorEvaluationContext, tableflow_catalog: IcebergCatalogResource
    ) -> dg.SensorResult | dg.SkipReason:
        cursor, now = _read_cursor(context.cursor), time.time()
        if is_alive(context.instance, now):
            return dg.SkipReason("a run stays with the logs, and brings products up to date")
        if now < cursor.at + EVERY_SECONDS:
            return dg.SkipReason(f"at most one run in {EVERY_SECONDS} s")
        if is_under_way(context.instance, SENSOR_NAME):
            return dg.SkipReason("a run is under way")
        try:
            if disk := connections.disk_space(settings):
                disk.refuse_when_short()
            client = tableflow_catalog.client()
            look = _Look(products, client, cursor, now, settings.state_dir)
            names = look.wanted()
        except TableflowError as error:
            return dg.SkipReason(str(error))
        config = in_one_process(context)
        return dg.SensorResult(
            run_requests=[
                _request([keys[name] for name in group], windows, config)
                for group in look.runs(names)
            ],
            skip_reason=None if names else look.why_nothing(),
            cursor=dumps(asdict(look.cursor(names))),
        )

    return product_updates


class _Look:
    """One look at every product; each table is loaded only once."""

    def __init__(
        self,
        products: Sequence[Product],
        catalog: RestCatalog,
        cursor: Cursor,
        now: float,
        state_dir: Path,
    ) -> None:
        self._products, self._before, self._now = products, cursor, now
        self._state_dir = state_dir
        self._table = cache(catalog.find)
        self._asked: dict[str, RequestHistory] = {}
        self._not_now: dict[str, str] = {}
        self._behind: set[str] = set()

    def wanted(self) -> list[str]:
        """The products that are behind, and everything downstream of them."""
        names: list[str] = []
        for product in self._products:
            name = product.name
            try:
                with named_faults(name, self._state_dir):
                    is_behind = self._is_behind(product)
            except ServerUnreachable:
                raise
            except TableflowError as error:  # this product's own; the others go on
                self._not_now[name] = error.problem
                continue
            head, last_request = self._head(name), self._before.asked.get(name, RequestHistory())
            request = (
                last_request if is_behind and last_request.head == head else RequestHistory(head)
            )
            self._asked[name] = request
            if is_behind:
                self._behind.add(name)
            if not is_behind and not any(upstream.name in names for upstream in product.upstream):
                continue
            if request.may_ask_again(self._now):
                names.append(name)
            else:
                self._not_now[name] = "waiting before trying again"
        return names

    def runs(self, names: Sequence[str]) -> list[list[str]]:
        """One for all, and one for those that have failed before, with what only waits for them.

        So a product that keeps failing does not turn the run of the others red.
        """
        failed: list[str] = []
        for product in self._products:
            upstream = {source.name for source in product.upstream} & set(names)
            only_follows = product.name not in self._behind and upstream <= set(failed)
            if product.name in names and (self._asked[product.name].times or only_follows):
                failed.append(product.name)
        others = [name for name in names if name not in failed]
        return [group for group in (others, failed) if group]

    def cursor(self, names: Sequence[str]) -> Cursor:
        requests = {
            name: replace(request, at=self._now, times=request.times + 1)
            if name in names
            else request
            for name, request in self._asked.items()
        }
        return Cursor(self._now if names else self._before.at, requests)

    def why_nothing(self) -> str:
        parts = [f"{len(self._products)} products"]
        return "; ".join([*parts, *(f"{name}: {reason}" for name, reason in self._not_now.items())])

    def _is_behind(self, product: Product) -> bool:
        inputs = {source.table: self._table(source.table) for source in product.inputs}
        for name, table in inputs.items():
            if table is None or table.current_snapshot() is None:
                self._not_now[product.name] = f"{name} has no rows yet"
                return False
        itself = self._table(product.name)
        if itself is None or itself.current_snapshot() is None:
            return True
        try:
            entry = read_ledger(itself).entry
        except LedgerError:  # somebody else has written to it: a run fixes that
            return True
        if entry.kind != "product" or entry.statement != product.definition.version:
            return True
        return any(
            has_changed(table, entry.inputs.get(name)) for name, table in inputs.items() if table
        )

    def _head(self, name: str) -> int:
        table = self._table(name)
        head = table.current_snapshot() if table is not None else None
        return head.snapshot_id if head else 0


def _request(keys: list[dg.AssetKey], windows: ProductWindows, run_config: Config) -> dg.RunRequest:
    return dg.RunRequest(
        asset_selection=keys,
        asset_check_keys=[],  # a run evaluates those that are about what it changed
        partition_key=windows.current,
        run_config=run_config,
        tags={RUN_TAG: SENSOR_NAME, "dagster/max_runtime": str(LONGEST_RUN_SECONDS)},
    )


def _read_cursor(text: str | None) -> Cursor:
    try:
        return TypeAdapter(Cursor).validate_json(text or "{}")
    except ValidationError:
        return Cursor()  # written by another version
