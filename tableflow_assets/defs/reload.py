"""Makes a newly discovered topic appear in the UI without anyone clicking reload."""

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
    """Ask the webserver to reload the definitions; without one, the topic appears with the next load.

    ``location``: the code location's name, which is not ours if a project merged these definitions.
    """
    url = settings.dagster.webserver_url or os.environ.get(WEBSERVER_VARIABLE)
    if not url or location is None:
        return
    try:
        if problem := _refusal(url, location):
            logger.warning("new topics were found, but %s did not reload: %s", url, problem)
    except (httpx.HTTPError, ValueError) as error:  # ValueError: a response that is not JSON
        logger.warning("new topics were found, but %s did not reload: %s", url, error)


def _refusal(url: str, location: str) -> str | None:
    question = {"query": _RELOAD, "variables": {"location": location}}
    response = httpx.post(f"{url.rstrip('/')}/graphql", json=question, timeout=30)
    body = response.raise_for_status().json()
    outcome = (body.get("data") or {}).get("reloadRepositoryLocation") or {}
    if outcome.get("__typename") == "WorkspaceLocationEntry":
        return None
    return str(outcome.get("message") or body.get("errors") or outcome)
