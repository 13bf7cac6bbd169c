"""How long tuning may take: text such as ``10min`` or ``200 trials`` enters, a `TuningBudget` leaves, and its clock."""

import math
import re
import time
from dataclasses import dataclass

from metol.errors import TuningError

__all__ = ["Clock", "TuningBudget"]

_UNIT_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "m": 60.0, "min": 60.0, "minutes": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class TuningBudget:
    """What tuning may cost, in time or in trials, or both: the first that is spent ends it."""

    seconds: float | None = None
    """Wall-clock seconds, the final race included; None for no limit."""
    trials: int | None = None
    """Schedules that are compiled, those of the final race not counted; None for no limit."""

    def __post_init__(self) -> None:
        if self.seconds is None and self.trials is None:
            raise TuningError("Tuning needs a budget: seconds, such as 10min, or a number of trials.")
        if self.seconds is not None and not (0 < self.seconds < math.inf):
            raise TuningError(f"A budget is more than 0 seconds, not {self.seconds:g}.")
        if self.trials is not None and self.trials < 1:
            raise TuningError(f"A budget is at least 1 trial, not {self.trials}.")

    @staticmethod
    def parse(budget: "TuningBudget | str | float") -> "TuningBudget":
        """Read ``10min``, ``90s``, ``1h30min``, ``200 trials``, or a number of seconds.

        Raises:
            TuningError: it is none of these, or not positive.
        """
        if isinstance(budget, TuningBudget):
            return budget
        if isinstance(budget, int | float):
            return TuningBudget(seconds=float(budget))
        text = budget.strip().lower()
        trials = re.fullmatch(r"(\d+)\s*trials?", text)
        if trials:
            return TuningBudget(trials=int(trials.group(1)))
        parts = _PART.findall(text)
        is_whole = _PART.sub("", text).strip() == "" and parts
        if not is_whole or any(unit not in _UNIT_SECONDS for _, unit in parts if unit):
            raise TuningError(f"`{budget}` is no budget; write 10min, 90s, 1h30min or 200 trials.")
        return TuningBudget(seconds=sum(float(number) * _UNIT_SECONDS[unit or "s"] for number, unit in parts))


class Clock:
    """Counts what has been spent of a budget."""

    def __init__(self, budget: TuningBudget) -> None:
        """Start now."""
        self.budget = budget
        self.trials = 0
        self.reserve_seconds = 0.0
        """What is kept for final races, of all who share the budget."""
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the start."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float:
        """Wall-clock seconds that are left; infinite where time is not limited."""
        return math.inf if self.budget.seconds is None else max(0.0, self.budget.seconds - self.seconds)

    @property
    def trials_left(self) -> int | None:
        """Trials that are left; None where they are not limited."""
        return None if self.budget.trials is None else max(0, self.budget.trials - self.trials)

    @property
    def share(self) -> float:
        """The share of the budget that is spent, by whatever is spent most."""
        shares = [0.0]
        if self.budget.seconds is not None:
            shares.append(self.seconds / self.budget.seconds)
        if self.budget.trials is not None:
            shares.append(self.trials / self.budget.trials)
        return min(1.0, max(shares))
