"""The outcome of the faults, by kind and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tableflow_assets.base.boundary import Boundary
from tableflow_assets.chaos.judge import NOTHING_WRONG, Findings
from tableflow_assets.chaos.kinds import AT_BOUNDARY


@dataclass(frozen=True)
class Fault:
    """One fault and what was wrong after it."""

    kind: str
    hit: bool
    findings: Findings = NOTHING_WRONG
    hung: int = 0
    boundary: Boundary | None = None


@dataclass
class Report:
    seed: int
    planned: Sequence[str]
    faults: list[Fault] = field(default_factory=list)
    at_the_end: Findings = NOTHING_WRONG
    hung_outside_faults: int = 0
    records: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)  # anything else that must not happen
    complaints: Counter[str] = field(default_factory=Counter)  # of drivers whose server was down
    crashes: Counter[str] = field(default_factory=Counter)  # the same, but unexpected errors

    @property
    def kills(self) -> int:
        return sum(fault.hit for fault in self.faults)

    @property
    def hung(self) -> int:
        return self.hung_outside_faults + sum(fault.hung for fault in self.faults)

    @property
    def findings(self) -> Findings:
        return sum((fault.findings for fault in self.faults), self.at_the_end)

    @property
    def boundaries_hit(self) -> dict[str, int]:
        return dict(Counter(fault.boundary for fault in self.faults if fault.boundary))

    @property
    def ok(self) -> bool:
        """All faults happened as planned and did no harm."""
        boundaries = {AT_BOUNDARY[kind] for kind in self.planned if kind in AT_BOUNDARY}
        return (
            self.kills == len(self.planned) > 0
            and self.records > 0
            and self.findings.ok
            and not self.hung
            and not self.problems
            and boundaries <= self.boundaries_hit.keys()
        )

    def by_kind(self) -> dict[str, dict[str, int]]:
        return {kind: self._of(kind) for kind in sorted(set(self.planned))}

    def _of(self, kind: str) -> dict[str, int]:
        faults = [fault for fault in self.faults if fault.kind == kind]
        findings = sum((fault.findings for fault in faults), NOTHING_WRONG)
        return {
            "kills": sum(fault.hit for fault in faults),
            "missing": findings.missing,
            "duplicated": findings.duplicated,
            "unexpected": findings.unexpected,
            "mirror": findings.mirror,
            "hung": sum(fault.hung for fault in faults),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "kills": self.kills,
            "missing": self.findings.missing,
            "duplicated": self.findings.duplicated,
            "unexpected": self.findings.unexpected,
            "mirror": self.findings.mirror,
            "hung": self.hung,
            "records": self.records,
            "dead_letters": self.dead_letters,
            "seconds": round(self.seconds, 1),
            "seed": self.seed,
            "by_kind": self.by_kind(),
            "boundaries_hit": self.boundaries_hit,
            "problems": self.problems,
            "complaints": dict(self.complaints),
            "crashes": dict(self.crashes),
            "ok": self.ok,
        }
