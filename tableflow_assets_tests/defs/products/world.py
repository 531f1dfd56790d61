"""Dagster around a shop of one test: payments and orders, and two products of the labs over them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from tableflow_assets.defs.partitions import windows_of_products
from tableflow_assets.defs.products.updates import product_updates_sensor
from tableflow_assets.labs.avro_schemas import schema_text
from tableflow_assets.product.load import load_products
from tableflow_assets.product.products import Product
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.defs.dagster_world import DagsterWorld, day, milliseconds, settings_on
from tableflow_assets_tests.support.kafka_topics import KafkaTopic

SCHEMAS = {name: json.loads(schema_text(name)) for name in ("payments", "shiftleft.public.orders")}


class Shop(DagsterWorld):
    """The topics `payments` and `orders`, the products `unique` and `completed`, by their own names."""

    def __init__(self, stack: Stack, state_dir: Path, first_day: date | None = None) -> None:
        own = f"t{uuid.uuid4().hex[:10]}"
        known = Settings(state_dir=stack.state.folder)
        servers = connections.kafka_address(known), connections.registry_address(known)
        self.payments = KafkaTopic(*servers, f"{own}_payments")
        self.orders = KafkaTopic(*servers, f"{own}_orders")
        self.unique, self.completed = f"{own}_unique", f"{own}_completed"
        topics = dict.fromkeys((self.payments.name, self.orders.name), TopicOptions())
        read_by_completed = {
            "unique_payments": self.unique,
            "shiftleft.public.orders": self.orders.name,
        }
        products = {
            self.unique: ProductOptions(
                sql="unique_payments", inputs={"payments": self.payments.name}
            ),
            self.completed: ProductOptions(sql="completed_orders", inputs=read_by_completed),
        }
        settings = settings_on(stack.state.folder, state_dir, topics=topics, products=products)
        super().__init__(settings, first_day or day(3).date())

    def with_settings(self, **changed: Any) -> None:
        """As after an edit of tableflow.yaml, and a reload."""
        super().__init__(self.settings.model_copy(update=changed))

    @property
    def products(self) -> tuple[Product, ...]:
        return load_products(self.settings).usable

    def key(self, name: str) -> dg.AssetKey:
        return dg.AssetKey([self.settings.namespace, name])

    def table(self, name: str) -> Any:
        table = self.catalog.find(name)
        assert table is not None, f"{name} has no table"
        return table

    def pay(self, *orders: int, at: datetime, amount: float = 10.0) -> None:
        """A payment of each order: made at that time, and reported now."""
        self.payments.send(
            SCHEMAS["payments"],
            [
                {
                    "order_id": order,
                    "product_id": 1,
                    "customer_id": 1,
                    "confirmation_code": f"{order}-{at:%d%H%M%S}",
                    "cc_number": None,
                    "expiration": "01/30",
                    "amount": amount,
                    "ts": milliseconds(at),
                }
                for order in orders
            ],
        )

    def order(self, *orders: int, at: datetime) -> None:
        self.orders.send(
            SCHEMAS["shiftleft.public.orders"],
            [
                {"orderid": one, "customerid": 1, "orderdate": milliseconds(at), "channel": "web"}
                for one in orders
            ],
        )

    def land(self, *topics: KafkaTopic) -> None:
        """What was sent becomes rows of the topics' tables."""
        flow = Tableflow(self.settings)
        for one in topics or (self.payments, self.orders):
            flow.pipeline(self.topic(one.name)).catch_up()

    def bring_up(self, *products: str) -> None:
        """As a run does, but without Dagster, which costs more than the work."""
        flow = Tableflow(self.settings)
        for product in self.products:
            if not products or product.name in products:
                flow.runner(product).run()

    def update(self, *products: str, **how: Any) -> ExecuteInProcessResult:
        """A run as the sensor asks for it."""
        chosen = products or (self.unique, self.completed)
        job = self.definitions.resolve_implicit_global_asset_job_def()
        keys = {self.key(name) for name in chosen}
        alone = job.get_subset(asset_selection=keys, asset_check_selection=set())
        window = {"partition_key": windows_of_products(self.products, self.topics).current}
        return alone.execute_in_process(instance=self.instance, **(window | how))

    def look_for_updates(
        self, cursor: str | None = None, **resources: object
    ) -> SensorExecutionData:
        """One tick of product_updates."""
        windows = windows_of_products(self.products, self.topics)
        sensor = product_updates_sensor(self.products, self.settings, windows)
        return self._tick(sensor, cursor, resources)


def reported(run: ExecuteInProcessResult, key: dg.AssetKey) -> dict[str, dict[str, Any]]:
    """What a run says of one asset: window → its metadata, as plain values."""
    found = [
        event.step_materialization_data.materialization
        for event in run.all_events
        if event.is_step_materialization and event.asset_key == key
    ]
    assert len({one.partition for one in found}) == len(found), "a window was reported twice"
    return {
        str(one.partition): {name: value.value for name, value in one.metadata.items()}
        for one in found
    }


def evaluations(run: ExecuteInProcessResult, key: dg.AssetKey) -> dict[str, Any]:
    found: Iterable[dg.AssetCheckEvaluation] = run.get_asset_check_evaluations()
    return {one.check_name: one for one in found if one.asset_key == key}
