"""What the report says, and that everything which may not be makes it say so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tableflow_assets.chaos.judge import Findings
from tableflow_assets.chaos.report import Fault, Report

KEYS = {"kills", "missing", "duplicated", "unexpected", "mirror", "hung"}
KEYS |= {"records", "seconds", "seed"}
KEYS |= {"by_kind", "boundaries_hit", "ok"}


def report(faults: list[Fault] | None = None, **changes: Any) -> Report:
    good = [Fault("kafka", hit=True), Fault("at_planned", hit=True, boundary="planned")]
    facts: dict[str, Any] = {"seed": 1, "planned": ["kafka", "at_planned"], "records": 10}
    return Report(**facts | {"faults": good if faults is None else faults} | changes)


def test_the_report_of_a_good_run() -> None:
    told = json.loads(json.dumps(report(seconds=12.34).to_json()))
    assert told.keys() >= KEYS
    assert told["ok"] is True
    assert (told["kills"], told["records"], told["seconds"], told["seed"]) == (2, 10, 12.3, 1)
    nothing = {"missing": 0, "duplicated": 0, "unexpected": 0, "mirror": 0, "hung": 0}
    assert told["by_kind"] == {
        "kafka": {"kills": 1} | nothing,
        "at_planned": {"kills": 1} | nothing,
    }
    assert told["boundaries_hit"] == {"planned": 1}


KAFKA = Fault("kafka", hit=True)
PLANNED = Fault("at_planned", hit=True, boundary="planned")


@pytest.mark.parametrize(
    "bad",
    [
        report([Fault("kafka", hit=True, findings=Findings(missing=1)), PLANNED]),
        report([Fault("kafka", hit=True, findings=Findings(duplicated=1)), PLANNED]),
        report([Fault("kafka", hit=True, findings=Findings(unexpected=1)), PLANNED]),
        report([Fault("kafka", hit=True, findings=Findings(mirror=1)), PLANNED]),
        report([Fault("kafka", hit=True, hung=1), PLANNED]),
        report([Fault("kafka", hit=False), PLANNED]),
        report([KAFKA, Fault("at_planned", hit=True)]),
        report([KAFKA]),
        report([], planned=[]),
        report(at_the_end=Findings(missing=1)),
        report(hung_outside_faults=1),
        report(records=0),
        report(problems=["Spark did not come back"]),
    ],
    ids=[
        *("missing", "duplicated", "unexpected", "mirror", "hung"),
        *("not hit", "boundary not reached"),
        *("fault left out", "no faults", "missing at the end", "clean run hung", "no records"),
        "problem",
    ],
)
def test_what_may_not_be(bad: Report) -> None:
    assert bad.ok is False
    assert bad.to_json()["ok"] is False


def test_differences_are_added_up_and_charged_to_their_kind() -> None:
    kafka = [
        Fault("kafka", hit=True, findings=Findings(missing=2, duplicated=1)),
        Fault("kafka", hit=True, findings=Findings(missing=1), hung=1),
    ]
    told = report([*kafka, PLANNED], at_the_end=Findings(unexpected=4)).to_json()
    assert (told["missing"], told["duplicated"], told["unexpected"], told["hung"]) == (3, 1, 4, 1)
    assert told["by_kind"]["kafka"] == {
        **{"kills": 2, "missing": 3, "duplicated": 1, "unexpected": 0, "mirror": 0, "hung": 1}
    }
    assert told["by_kind"]["at_planned"]["missing"] == 0


def test_a_fault_that_came_too_late_is_no_kill() -> None:
    told = report([Fault("kafka", hit=False), PLANNED]).to_json()
    assert told["kills"] == 1
    assert told["by_kind"]["kafka"]["kills"] == 0
