"""Lets a newly discovered topic appear in the UI without anybody's click."""

from __future__ import annotations

import logging
import os

import httpx

from tableflow_assets.settings.settings import Settings

LOCATION = "tableflow_assets"
# Set by the embedded stack for the Dagster processes it starts.
WEBSERVER_VARIABLE = "TABLEFLOW_WEBSERVER_URL"
logger = logging.getLogger(__name__)

_RELOAD = """
mutation Reload($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) { __typename }
}
"""


def reload_definitions(settings: Settings) -> None:
    """Ask the webserver to load the definitions again; without one, the next load shows the topic."""
    url = settings.dagster.webserver_url or os.environ.get(WEBSERVER_VARIABLE)
    if not url:
        return
    question = {"query": _RELOAD, "variables": {"location": LOCATION}}
    try:
        httpx.post(f"{url.rstrip('/')}/graphql", json=question, timeout=30).raise_for_status()
    except httpx.HTTPError as error:
        logger.warning("new topics were found, but %s did not reload: %s", url, error)
