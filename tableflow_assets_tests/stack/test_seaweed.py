"""The embedded object store, as it looks after itself."""

from __future__ import annotations

from tableflow_assets.stack.seaweed import SeaweedServer


def test_the_log_of_changes_is_forgotten(seaweed: SeaweedServer) -> None:
    """It would hold each table's whole metadata, twice for each commit, for a week."""
    log = seaweed.state.log_of(seaweed.name).read_text(errors="replace")
    (scripts,) = (line for line in log.splitlines() if "adminScripts:" in line)
    assert "fs.log.purge -daysAgo=0" in scripts
