"""The sensor that keeps products up to date: where the inputs of one are ahead of what it was made of.

Not Dagster's declarative automation, for two reasons. It would go by events: what a command line wrote, a
rolled back table or a failed run are none that it could see, and each product's ledger tells of them all. And
it asks for windows, of which a burst of late records touches many; here one run brings all up to date.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from json import dumps

import dagster as dg
from pydantic import TypeAdapter, ValidationError

from tableflow_assets.base.errors import LedgerError, ServerUnreachable, TableflowError
from tableflow_assets.defs.names import product_key
from tableflow_assets.defs.our_runs import RUN_TAG, Config, in_one_process, is_under_way
from tableflow_assets.defs.partitions import ProductWindows
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.product.products import Product
from tableflow_assets.product.status import has_changed
from tableflow_assets.settings.settings import Settings
from tableflow_assets.table.ledger import read_ledger

SENSOR_NAME = "product_updates"
# Tables of topics change every few seconds, and a run for each change would do little but start.
EVERY_SECONDS = 30
# A request that changed nothing (its run failed) is repeated after 30, 60, 120 … 600 s.
LONGEST_WAIT_SECONDS = 600
# A worker that was killed outright never says so; until then its run holds up the next.
LONGEST_RUN_SECONDS = 3600


@dataclass(frozen=True)
class Asked:
    """Of one product, the requests since it last changed. ``head``: its snapshot meanwhile."""

    head: int = 0
    at: float = 0
    times: int = 0

    def may_ask_again(self, now: float) -> bool:
        wait = EVERY_SECONDS * 2.0 ** (self.times - 1)
        return not self.times or now >= self.at + min(wait, LONGEST_WAIT_SECONDS)


@dataclass(frozen=True)
class Cursor:
    """A hint: without it, what failed is only asked for again sooner."""

    at: float = 0  # of the last request
    asked: dict[str, Asked] = field(default_factory=dict)


def product_updates_sensor(
    products: Sequence[Product], settings: Settings, windows: ProductWindows
) -> dg.SensorDefinition:
    keys = {product.name: product_key(product, settings.namespace) for product in products}

    @dg.sensor(
        name=SENSOR_NAME,
        description="Launches one run for all products whose inputs have changed.",
        asset_selection=dg.AssetSelection.assets(*keys.values()),
        minimum_interval_seconds=5,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def product_updates(
        context: dg.SensorEvaluationContext, tableflow_catalog: IcebergCatalogResource
    ) -> dg.SensorResult | dg.SkipReason:
        before, now = _read_cursor(context.cursor), time.time()
        if now < before.at + EVERY_SECONDS:
            return dg.SkipReason(f"at most one run in {EVERY_SECONDS} s")
        if is_under_way(context.instance, SENSOR_NAME):
            return dg.SkipReason("a run is under way")
        try:
            look = _Look(products, tableflow_catalog.client(), before, now)
            wanted = look.wanted()
        except TableflowError as error:
            return dg.SkipReason(str(error))
        config = in_one_process(context)
        return dg.SensorResult(
            run_requests=[_request([keys[one] for one in wanted], windows, config)]
            if wanted
            else [],
            skip_reason=None if wanted else look.why_nothing(),
            cursor=dumps(asdict(look.cursor(wanted))),
        )

    return product_updates


class _Look:
    """At every product once; each table is asked for once, too."""

    def __init__(
        self, products: Sequence[Product], catalog: RestCatalog, before: Cursor, now: float
    ) -> None:
        self._products, self._before, self._now = products, before, now
        self._table = cache(catalog.find)
        self._asked: dict[str, Asked] = {}
        self._not_now: dict[str, str] = {}

    def wanted(self) -> list[str]:
        """The products that are behind, and all that are made of them."""
        found: list[str] = []
        for product in self._products:
            name = product.name
            try:
                is_behind = self._is_behind(product)
            except ServerUnreachable:
                raise
            except TableflowError as error:  # this product's own; the others go on
                self._not_now[name] = error.problem
                continue
            head, known = self._head(name), self._before.asked.get(name, Asked())
            asked = known if is_behind and known.head == head else Asked(head)
            self._asked[name] = asked
            if not is_behind and not any(one.name in found for one in product.upstream):
                continue
            if asked.may_ask_again(self._now):
                found.append(name)
            else:
                self._not_now[name] = "waiting before trying again"
        return found

    def cursor(self, wanted: Sequence[str]) -> Cursor:
        asked = {
            name: replace(one, at=self._now, times=one.times + 1) if name in wanted else one
            for name, one in self._asked.items()
        }
        return Cursor(self._now if wanted else self._before.at, asked)

    def why_nothing(self) -> str:
        parts = [f"{len(self._products)} products"]
        return "; ".join([*parts, *(f"{name}: {why}" for name, why in self._not_now.items())])

    def _is_behind(self, product: Product) -> bool:
        inputs = {one.table: self._table(one.table) for one in product.inputs}
        for name, table in inputs.items():
            if table is None or table.current_snapshot() is None:
                self._not_now[product.name] = f"{name} has no rows yet"
                return False
        itself = self._table(product.name)
        if itself is None or itself.current_snapshot() is None:
            return True
        try:
            entry = read_ledger(itself).entry
        except LedgerError:  # somebody else has written to it: a run puts that right
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
        return Cursor()  # of another version
