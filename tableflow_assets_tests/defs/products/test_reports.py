"""Saved queries as assets: asked by DuckDB, drawn, and shown on their pages."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import dagster as dg

from tableflow_assets.defs.products.reports import GROUP, _report, reports
from tableflow_assets.defs.resources import resources_from
from tableflow_assets.product.load import load_products
from tableflow_assets.query.saved import parse
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of

HEADER = "/*\ndescription: What was paid.\nchart: {kind: bar, x: id, y: amount}\n*/"


def test_a_report_is_what_the_query_answers_and_a_picture_of_it(
    tableflow: Tableflow, session_settings: Settings, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    sql = f"SELECT id, amount FROM {pipeline.topic.table} ORDER BY id"  # noqa: S608  (our own name)
    report = _report(parse("paid", f"{HEADER}\n{sql}"), [], session_settings)
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [report], resources=resources_from(session_settings), instance=instance
        )
        assert done.success
        (told,) = done.asset_materializations_for_node(report.node_def.name)
    shown = told.metadata["answer"]
    assert isinstance(shown, dg.TableMetadataValue)
    rows = [record.data for record in shown.records]
    assert rows == [{"id": n, "amount": n / 2} for n in range(3)]
    assert told.metadata["dagster/row_count"].value == 3
    picture = re.fullmatch(
        r"!\[paid\]\(data:image/svg\+xml;base64,(\S+)\)", str(told.metadata["chart"].value)
    )
    assert picture is not None
    drawn = ElementTree.fromstring(base64.b64decode(picture[1]))  # noqa: S314  (drawn by us)
    assert "What was paid." in "".join(drawn.itertext())


def test_only_queries_over_the_products_of_the_settings_are_asked(
    session_settings: Settings,
) -> None:
    options = {name: ProductOptions() for name in ("unique_payments", "completed_orders")}
    settings = session_settings.model_copy(update={"products": options})
    found = reports(load_products(settings).usable, settings)
    # `payment_methods` reads completed_orders as well, but a column that it does not have by default.
    assert [report.key for report in found] == [dg.AssetKey([GROUP, "hourly_sales"])]
    (spec,) = found[0].specs
    assert [dep.asset_key.path[-1] for dep in spec.deps] == ["completed_orders"]
