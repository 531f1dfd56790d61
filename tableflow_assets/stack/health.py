"""From what a server answers, look after look, to whether it is time to start it again.

A hung server must not be confused with a slow one: on a busy machine, answers take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# How long a server may go without a single right answer.
WRONG_SECONDS = 60.0  # it answers at once, and wrongly
HUNG_SECONDS = 120.0  # it does not answer, and does nothing
BUSY_SECONDS = 600.0  # it does not answer, and computes
FEWEST_LOOKS = 3
AT_ONCE_SECONDS = 2.0
# Even with forty others at two cores, a server that has something to compute gets more than that.
IDLE_CORES = 0.02
# Before each next restart. Where none helps, the last pause is the limit: one restart an hour.
PAUSES = (0.0, 60.0, 300.0, 900.0, 3600.0)
WELL_SECONDS = 1800.0  # after that long in good health, earlier restarts no longer count


@dataclass(frozen=True)
class Look:
    """One request to a server. Without ``failure``, the answer was right."""

    at: float  # when it ended, on a monotonic clock
    seconds: float
    failure: str = ""
    cores: float = 0.0  # that the server has used since the look before

    @property
    def patience(self) -> float:
        if self.seconds < AT_ONCE_SECONDS:
            return WRONG_SECONDS
        return HUNG_SECONDS if self.cores < IDLE_CORES else BUSY_SECONDS


@dataclass
class Health:
    """What is known of a server from the looks so far. ``problem``: what is wrong with it now."""

    problem: str = ""
    _failing_since: float | None = None
    _failed_looks: int = 0
    _patience: float = 0.0
    _restarts: list[float] = field(default_factory=list)

    def note(self, look: Look) -> bool:
        """Whether the server should be started again now."""
        if not look.failure:
            self._note_right_answer(look.at)
            return False
        if self._failing_since is None:
            self._failing_since = look.at - look.seconds
        self._failed_looks += 1
        self._patience = max(self._patience, look.patience)
        failing_for = look.at - self._failing_since
        self.problem = f"gave no right answer for {failing_for:.0f} s: {look.failure}"
        if self._restarts:
            self.problem += f" (started again {len(self._restarts)} times)"
        is_unwell = self._failed_looks >= FEWEST_LOOKS and failing_for >= self._patience
        if not is_unwell or look.at < self._may_restart_at:
            return False
        self._restarts.append(look.at)
        self._forget_looks()
        return True

    def _note_right_answer(self, now: float) -> None:
        self.problem = ""
        self._forget_looks()
        if self._restarts and now - self._restarts[-1] > WELL_SECONDS:
            self._restarts.clear()

    def _forget_looks(self) -> None:
        self._failing_since, self._failed_looks, self._patience = None, 0, 0.0

    @property
    def _may_restart_at(self) -> float:
        if not self._restarts:
            return 0.0
        return self._restarts[-1] + PAUSES[min(len(self._restarts), len(PAUSES) - 1)]
