"""Dagster's UI in headless Chromium, as a person sees it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tableflow_assets.settings.settings import Settings
from tableflow_assets_tests.live.dagster_api import DagsterApi, eventually
from tableflow_assets_tests.live.test_live import TABLE, is_current
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    " --disable-background-networking --disable-component-update --window-size=1500,1100"
)

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER),
        reason="needs Chromium: apt-get install chromium chromium-driver",
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in FLAGS.split():
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(
    browser: Any, api: DagsterApi, tmp_path: Path, secrets: dict[str, bytes]
) -> Callable[[str, str], Any]:
    """Open a path, wait for a text, keep a picture (in $TABLEFLOW_SCREENSHOTS, if set).

    No page shows a secret.
    """
    pictures = Path(os.environ.get("TABLEFLOW_SCREENSHOTS") or tmp_path)

    def open_page(path: str, text: str) -> Any:
        browser.get(api.url + path)
        eventually(lambda: text in browser.page_source, seconds=60)
        name = path.strip("/").replace("/", "-").split("?")[0]
        assert browser.save_screenshot(str(pictures / f"{name}.png"))
        seen = browser.page_source.encode()
        assert [name for name, secret in secrets.items() if secret in seen] == []
        return browser

    return open_page


@pytest.fixture(scope="module", autouse=True)
def _some_rows(live_settings: Settings, orders: KafkaTopic, api: DagsterApi) -> None:
    orders.send(PAYMENT, [{"id": n, "amount": None} for n in range(5)])
    eventually(lambda: is_current(live_settings, orders))
    eventually(lambda: api.materializations(TABLE))


def test_the_asset_graph_shows_topic_and_table(page: Callable[[str, str], Any]) -> None:
    browser = page("/locations/tableflow_assets/asset-groups/live", "live_orders")
    assert "live.orders" in browser.page_source


def test_the_tables_page_shows_columns_rows_and_owner(page: Callable[[str, str], Any]) -> None:
    body = page(f"/assets/{TABLE}", "Row count").find_element("tag name", "body").text
    for expected in ("The payment's number", "_kafka", "data-platform", "Iceberg"):
        assert expected in body


def test_a_catalog_shows_its_tables_and_a_table_its_catalogs(
    page: Callable[[str, str], Any],
) -> None:
    page("/assets/catalogs/analytics", "What the catalog")
    page(f"/assets/{TABLE}?view=checks", "published_to_analytics")


def test_the_resources_are_named_and_hold_no_secret(page: Callable[[str, str], Any]) -> None:
    location = "/locations/__repository__@tableflow_assets/resources"
    page(location, "tableflow_pyspark")
    for name in ("catalog", "s3", "kafka"):
        page(f"{location}/tableflow_{name}", "Configuration")


def test_the_run_that_stays_shows_its_commits(
    page: Callable[[str, str], Any], api: DagsterApi
) -> None:
    run = api.materializations(TABLE)[0]["runId"]
    body = page(f"/runs/{run}", "1 commit in").find_element("tag name", "body").text
    for expected in ("new_offsets", "follow", "live.orders"):
        assert expected in body


def test_a_person_launches_one_window(page: Callable[[str, str], Any], api: DagsterApi) -> None:
    before = runs_by_hand(api)
    launch = "//button[starts-with(normalize-space(.), 'Launch') and not(@disabled)]"

    def choose_and_launch(browser: Any) -> bool:
        # Clicked before the dialog has loaded the windows, "Latest" chooses none of them.
        click(browser, "//*[normalize-space(text())='Latest']")
        time.sleep(1)
        return any(map(clicked, browser.find_elements("xpath", launch)))

    def launched_from_a_new_page() -> bool:
        """A person whose dialog shows no windows opens the page again, too."""
        browser = page(f"/assets/{TABLE}", "Materialize…")
        click(browser, "//button[contains(., 'Materialize…')]")
        return any(choose_and_launch(browser) for _ in range(15))

    eventually(launched_from_a_new_page, seconds=240)
    (run,) = eventually(lambda: runs_by_hand(api) - before)
    body = page(f"/runs/{run}", "RUN_SUCCESS").find_element("tag name", "body").text
    for op in ("plan", "materialize", "mirror", "sync_catalog"):
        assert op in body


def runs_by_hand(api: DagsterApi) -> set[str]:
    runs = {event["runId"] for event in api.materializations(TABLE)}
    return {run for run in runs if api.job_of(run) == "__ASSET_JOB"}


def click(browser: Any, path: str) -> None:
    """The first of these elements that can be clicked: others may lie behind a dialog."""
    eventually(lambda: any(map(clicked, browser.find_elements("xpath", path))), seconds=60)


def clicked(element: Any) -> bool:
    from selenium.common.exceptions import WebDriverException

    try:
        element.click()
    except WebDriverException:
        return False
    return True
