"""Dagster's GraphQL API, as its UI uses it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

REPOSITORY = {
    "repositoryLocationName": "tableflow_assets",
    "repositoryName": "__repository__",
}


class DagsterApi:
    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(timeout=30)

    def ask(self, query: str, **variables: Any) -> Any:
        body = {"query": query, "variables": variables}
        answer = self._client.post(f"{self.url}/graphql", json=body).raise_for_status().json()
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def asset_keys(self) -> set[str]:
        nodes = self.ask("{ assetNodes { assetKey { path } } }")["assetNodes"]
        return {"/".join(node["assetKey"]["path"]) for node in nodes}

    def launch(self, asset: str, partition: str) -> str:
        """What "Materialize" does in the UI, for one window."""
        path = asset.split("/")
        mutation = """
        mutation Launch($params: ExecutionParams!) {
          launchRun(executionParams: $params) {
            __typename
            ... on LaunchRunSuccess { run { runId } }
            ... on PythonError { message }
          }
        }"""
        selector = REPOSITORY | {
            "jobName": "__ASSET_JOB",
            "assetSelection": [{"path": path}],
            "assetCheckSelection": [],
        }
        tags = [{"key": "dagster/partition", "value": partition}]
        params = {
            "selector": selector,
            "mode": "default",
            "executionMetadata": {"tags": tags},
            "runConfigData": "{}",
        }
        answer = self.ask(mutation, params=params)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def run_status(self, run_id: str) -> str:
        query = "query Q($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
        return str(self.ask(query, id=run_id)["runOrError"]["status"])

    def job_of(self, run_id: str) -> str:
        query = "query Q($id: ID!) { runOrError(runId: $id) { ... on Run { jobName } } }"
        return str(self.ask(query, id=run_id)["runOrError"]["jobName"])

    def unfinished_runs(self) -> list[str]:
        query = """{ runsOrError(filter: {statuses: [NOT_STARTED, QUEUED, STARTING, STARTED]}) {
          ... on Runs { results { runId } } } }"""
        return [run["runId"] for run in self.ask(query)["runsOrError"]["results"]]

    def materializations(self, asset: str) -> list[dict[str, Any]]:
        query = """
        query Q($key: AssetKeyInput!) {
          assetOrError(assetKey: $key) {
            ... on Asset {
              assetMaterializations(limit: 50) {
                partition
                runId
                metadataEntries { label ... on IntMetadataEntry { intValue } }
              }
            }
          }
        }"""
        found = self.ask(query, key={"path": asset.split("/")})["assetOrError"]
        return list(found.get("assetMaterializations", []))


def eventually(question: Callable[[], Any], seconds: float = 120) -> Any:
    """The first true answer; fails with the last one."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"after {seconds} s still {answer!r}"
        time.sleep(1)
    return answer
