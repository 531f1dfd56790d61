"""The labs' guides, every command in its order, and every change of the settings where it stands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tableflow_assets.cli import tableflow as command
from tableflow_assets.settings.settings import Settings

ROOT = Path(__file__).parents[1]
GUIDES = ["shift-left", "river-hotels"]


def steps_of(guide: str) -> Iterator[tuple[str, str]]:
    """("sh", command) and ("yaml", settings), in their order."""
    text = (ROOT / "docs" / "labs" / f"{guide}.md").read_text()
    for kind, block in re.findall(r"```(sh|yaml)\n(.*?)```", text, flags=re.DOTALL):
        yield from ((kind, line) for line in ([block] if kind == "yaml" else block.splitlines()))


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_can_be_followed(
    guide: str, session_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = yaml.safe_load((ROOT / "tableflow.yaml").read_text())
    # Tables of this guide alone; the topics are those of the labs, which other tests feed as well.
    settings["namespace"] = "lab_" + guide.replace("-", "_")
    file = tmp_path / "tableflow.yaml"
    file.write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("TABLEFLOW_CONFIG", str(file))
    monkeypatch.setenv("TABLEFLOW_STATE", str(session_settings.state_dir))
    done = 0
    for kind, text in steps_of(guide):
        if kind == "yaml":
            settings["products"] |= yaml.safe_load(text)["products"]
            file.write_text(yaml.safe_dump(settings))
            continue
        program, *arguments = shlex.split(text)
        assert program == ".venv/bin/tableflow"
        finished = CliRunner().invoke(command, arguments)
        assert finished.exit_code == 0, f"{text}\n{finished.output}\n{finished.exception}"
        done += 1
    assert done > 10
