"""Lets a newly discovered topic appear in the UI without anybody's click."""

from __future__ import annotations

import logging
import os

import httpx

from tableflow_assets.settings.settings import Settings

# Set by the embedded stack for the Dagster processes it starts.
WEBSERVER_VARIABLE = "TABLEFLOW_WEBSERVER_URL"
logger = logging.getLogger(__name__)

_RELOAD = """
mutation Reload($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) {
    __typename
    ... on Error { message }
  }
}
"""


def reload_definitions(settings: Settings, location: str | None) -> None:
    """Ask the webserver to load the definitions again; without one, the next load shows the topic.

    ``location``: the code location's name, which is ours only where we are a code location of our own.
    """
    url = settings.dagster.webserver_url or os.environ.get(WEBSERVER_VARIABLE)
    if not url or location is None:
        return
    try:
        if problem := _refusal(url, location):
            logger.warning("new topics were found, but %s did not reload: %s", url, problem)
    except (httpx.HTTPError, ValueError) as error:  # ValueError: an answer that is not JSON
        logger.warning("new topics were found, but %s did not reload: %s", url, error)


def _refusal(url: str, location: str) -> str | None:
    question = {"query": _RELOAD, "variables": {"location": location}}
    answer = httpx.post(f"{url.rstrip('/')}/graphql", json=question, timeout=30)
    told = answer.raise_for_status().json()
    outcome = (told.get("data") or {}).get("reloadRepositoryLocation") or {}
    if outcome.get("__typename") == "WorkspaceLocationEntry":
        return None
    return str(outcome.get("message") or told.get("errors") or outcome)
