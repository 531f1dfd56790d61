"""`tableflow soak`: what it measures, its chart, and that a broken bound makes it fail."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from tableflow_assets.bench import soak_run
from tableflow_assets.bench.soak_run import Point, Report, Soak, files_bound
from tableflow_assets.cli import tableflow as cli
from tableflow_assets.commands import soak
from tableflow_assets.query.charts import Line, Panel, draw_lines, nice_step
from tableflow_assets.tableflow import Tableflow


def a_report() -> Report:
    points = [Point(n, 7 + n % 3, 9, 4, 20.0 + n, 30.0) for n in (10, 20, 30)]
    times = {"iceberg": 20.0, "delta": 30.0}
    return Report(30, 600, 60, points, [30], fresh_ms=times, end_ms=times)


class Played:
    """In place of the real run."""

    def __init__(self) -> None:
        self.report = a_report()
        self.folder, self.numbers = Path(), (0, 0, 0)

    def __call__(
        self, folder: Path, numbers: tuple[int, int, int], on_commit: Callable[[int], None]
    ) -> Report:
        self.folder, self.numbers = folder, numbers
        folder.mkdir(exist_ok=True)
        on_commit(1)
        return self.report


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Played:
    run = Played()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(soak, "run_soak", run)
    return run


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["soak", *arguments])


def parsed(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawn)  # noqa: S314  (our own)


def texts_of(drawn: str) -> set[str]:
    return set(parsed(drawn).itertext())


def test_a_soak_that_held(played: Played, tmp_path: Path) -> None:
    drawn = tmp_path / "soak.svg"
    numbers = ("--commits", "30", "--records", "20", "--maintain-every", "5")
    result = invoke(*numbers, "--chart", str(drawn), "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["ok"], told["most_files"], told["most_listed"]) == (True, 9, 9)
    assert told["ratios"] == {"iceberg": 1.0, "delta": 1.0}
    assert played.numbers == (30, 20, 5)
    assert not played.folder.exists()
    assert "Delta" in texts_of(drawn.read_text())


def test_a_broken_bound_fails_and_is_named(played: Played) -> None:
    played.report.problems.append("the table has [too] many files")
    result = invoke()
    assert result.exit_code == 1
    assert "the table has [too] many files" in result.stdout
    assert played.folder.exists()
    assert str(played.folder) in result.stderr


def test_the_chart_keeps_within_its_panel() -> None:
    points = [(10.0, 3.0), (20.0, 97.0), (30.0, 0.0)]
    panels = [Panel("Files & <more>", [Line("a", points), Line("b", points[:1])]), Panel("x", [])]
    drawn = draw_lines(panels, "commits", 300)
    assert "Files & <more>" in texts_of(drawn)
    (line, _) = parsed(drawn).iter("{http://www.w3.org/2000/svg}polyline")
    places = [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
    assert all(70 <= x <= 880 and 50 <= y <= 260 for x, y in places)
    assert places[1][1] < places[0][1] < places[2][1], "more is higher up"


def test_a_bound_is_dashed_and_has_no_points() -> None:
    drawn = draw_lines([Panel("Files", [Line("bound", [(1, 5.0), (9, 5.0)], dashed=True)])], "x")
    (line,) = parsed(drawn).iter("{http://www.w3.org/2000/svg}polyline")
    assert line.attrib["stroke-dasharray"]
    assert not list(parsed(drawn).iter("{http://www.w3.org/2000/svg}circle"))


@pytest.mark.parametrize(("largest", "step"), [(97, 20), (4, 1), (0.03, 0.01), (500, 100)])
def test_ticks_are_round(largest: float, step: float) -> None:
    assert nice_step(largest) == pytest.approx(step)


def test_the_bound_does_not_grow_with_the_commits() -> None:
    assert files_bound(50) < 150


def test_a_short_soak(tableflow: Tableflow, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that does other things, how long a query takes is nobody's guess."""
    monkeypatch.setattr(soak_run, "WANTED_RATIO", float("inf"))
    monkeypatch.setattr(soak_run, "REPEATS_AT_THE_END", 1)
    monkeypatch.setattr(soak_run, "LATE_EVERY", 3)
    told: list[int] = []
    report = Soak(tableflow, commits=6, records=10, maintain_every=6).run(told.append)
    assert report.ok, report.problems
    assert told == [1, 2, 3, 4, 5, 6]
    assert report.maintained == [6]
    assert report.points[0].files >= 6, "one of every commit, and perhaps more with late records"
    assert report.points[0].iceberg_ms > 0 < report.points[0].delta_ms
    assert report.fresh_ms.keys() == report.end_ms.keys() == {"iceberg", "delta"}

    monkeypatch.setattr(soak_run, "files_bound", lambda _: 1)
    report = Soak(tableflow, commits=2, records=2, maintain_every=2).run()
    assert any("files" in problem for problem in report.problems)
