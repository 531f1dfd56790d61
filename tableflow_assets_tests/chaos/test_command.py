"""`tableflow chaos`: its output, its exit code, and the folder it leaves or does not leave."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tableflow_assets.chaos.judge import Findings
from tableflow_assets.chaos.report import Fault, Report
from tableflow_assets.cli import tableflow
from tableflow_assets.commands import chaos

Run = Callable[..., Result]


class Played:
    """In place of the real run: what it was asked for, and the report that it makes."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.interrupted = False
        self.folder = Path()
        self.kills = 0
        self.faults = ""

    def __call__(
        self, folder: Path, kills: int, seed: int, faults: str, on_fault: object
    ) -> Report:
        self.folder, self.kills, self.faults = folder, kills, faults
        folder.mkdir(exist_ok=True)
        (folder / "stack.json").write_text("{}")
        if self.interrupted:
            raise KeyboardInterrupt
        done = [Fault("driver", hit=True, findings=self.findings)]
        return Report(seed, ["driver"], done, records=5)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Played:
    run = Played()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what is kept is pytest's to remove
    monkeypatch.setattr(chaos, "run_chaos", run)
    return run


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(tableflow, ["chaos", *arguments])


def test_all_held(played: Played) -> None:
    result = invoke("--kills", "7", "--seed", "3", "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["ok"], told["seed"], told["kills"], played.kills) == (True, 3, 1, 7)
    assert not played.folder.exists()


def test_the_group_of_faults_is_chosen(played: Played) -> None:
    assert invoke().exit_code == 0
    assert played.faults == "all"
    assert invoke("--faults", "maintenance").exit_code == 0
    assert played.faults == "maintenance"
    assert invoke("--faults", "weather").exit_code != 0


def test_a_missing_record_is_a_failure_and_its_traces_stay(played: Played) -> None:
    played.findings = Findings(missing=1)
    result = invoke("--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["ok"], told["missing"]) == (False, 1)
    assert played.folder.exists()
    assert str(played.folder) in result.stderr


@pytest.mark.parametrize(("missing", "verdict"), [(0, "All held"), (1, "FAILED")])
def test_for_people(played: Played, missing: int, verdict: str) -> None:
    played.findings = Findings(missing=missing)
    assert verdict in invoke().stdout


def test_folders_are_kept_on_request(played: Played, tmp_path: Path) -> None:
    assert invoke("--keep").exit_code == 0
    assert played.folder.exists()
    assert invoke("--state", str(tmp_path / "mine")).exit_code == 0
    assert played.folder == tmp_path / "mine"
    assert played.folder.exists()


def test_an_interrupted_run_leaves_nothing(played: Played) -> None:
    played.interrupted = True
    assert invoke("--json").exit_code != 0
    assert played.folder.name.startswith("tableflow-chaos-")
    assert not played.folder.exists()
