"""`tableflow spark`: what a Spark server of one's own needs."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from tableflow_assets.settings.settings import load_settings
from tableflow_assets.stack.spark_properties import spark_properties
from tableflow_assets_tests.commands.conftest import Command

OWN_SERVERS = """
spark: {remote: "sc://spark:15002"}
warehouse:
  location: "s3://lake/tables"
  region: eu-west-1
  access_key: {env: LAKE_KEY}
  secret_key: {env: LAKE_SECRET}
catalog: {uri: "https://catalog.example", token: {env: TOKEN}}
"""


def test_properties_are_lines_of_spark_defaults(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_KEY", "in-the-clear")
    file = tmp_path / "tableflow.yaml"
    file.write_text(OWN_SERVERS)
    expected = spark_properties(load_settings(file))
    printed = command("spark", "properties").out
    assert dict(line.split(" ", 1) for line in printed.splitlines()) == expected
    assert "in-the-clear" not in printed
    assert command("spark", "properties", "--json").json == expected
    assert expected["spark.sql.catalog.tableflow_json"] == "tableflow.JsonFunctions"


@pytest.mark.stack  # Java compiles it, where no run has done so before
def test_the_archive_is_put_where_one_says(command: Command, tmp_path: Path) -> None:
    said = command("spark", "jar", "--to", str(tmp_path)).out.strip()
    assert [str(path) for path in tmp_path.iterdir()] == [said]
    assert "tableflow/JsonFunctions.class" in ZipFile(said).namelist()
    assert command("spark", "jar", "--to", str(tmp_path), "--json").json == {"jar": said}
