"""The canary: a small kernel that nobody changes, timed in every round of a race, so that a drifting machine shows.

In: what times its rounds. Out: how far each round is off from the usual. It reads a picture larger than a core's caches
and calculates with every point, on all threads, so that a clock that drops, a neighbour on a core and a busy memory all
slow it down.
"""

import statistics
from collections import deque
from pathlib import Path
from typing import Any

from metol.lower import Call, Directive, Schedule, Tail, Var, describe_funcs

__all__ = ["Drift", "build", "canary_schedule", "save_schedule"]

_WIDTH, _HEIGHT = 2048, 768
# Taps of the stencil: enough that reading and calculating take about as long.
_TAPS = 7
_LANES = 8

# Rounds that tell what is usual: some seconds of a race.
_WINDOW = 9
_LEAST_ROUNDS = 3


def build() -> Any:
    """Build the kernel: a row of sums over one picture."""
    import halide as hl

    x, y = hl.Var("x"), hl.Var("y")
    source = hl.ImageParam(hl.Float(32), 2, "source")
    result = hl.Func("canary")
    result[x, y] = sum((source[x + tap, y] * hl.f32(tap + 0.5) for tap in range(_TAPS)), hl.f32(0.0))
    result.set_estimates([(0, _WIDTH), (0, _HEIGHT)])
    source.set_estimates([(0, _WIDTH + _TAPS - 1), (0, _HEIGHT)])
    return hl.Pipeline(result)


def canary_schedule() -> Schedule:
    """Return the schedule that it is always timed with."""
    pipeline = build()
    x, y = Var("x"), Var("y")
    directives = (
        Directive(_output(pipeline), 0, Call.SPLIT, (x, Var("xo"), Var("xi"), _LANES, Tail.GUARD_WITH_IF)),
        Directive(_output(pipeline), 0, Call.VECTORIZE, (Var("xi"),)),
        Directive(_output(pipeline), 0, Call.PARALLEL, (y,)),
    )
    return Schedule(funcs=describe_funcs(pipeline), directives=directives)


def save_schedule(folder: Path) -> Path:
    """Write the schedule into a folder, and return the file."""
    file = folder / "canary.json"
    canary_schedule().save(file)
    return file


def _output(pipeline: Any) -> int:
    return next(func.index for func in describe_funcs(pipeline) if func.output >= 0)


class Drift:
    """Tells from the canary's rounds whether the machine is as it was."""

    def __init__(self, tolerance: float = 0.12) -> None:
        """Take what share of the usual a round may be off by."""
        self._tolerance = tolerance
        self._recent: deque[float] = deque(maxlen=_WINDOW)
        self._first_ms: float | None = None

    @property
    def since_start(self) -> float:
        """How much slower the machine is than when the first rounds were taken: 1 for no change."""
        if self._first_ms is None or len(self._recent) < _LEAST_ROUNDS:
            return 1.0
        return statistics.median(self._recent) / self._first_ms

    def is_disturbed(self, canary_ms: float) -> bool:
        """Take a round of the canary, and tell whether what was timed beside it had better be timed again.

        A machine that stays slow is not disturbed: after some rounds that is what is usual.
        """
        usual = statistics.median(self._recent) if len(self._recent) >= _LEAST_ROUNDS else None
        self._recent.append(canary_ms)
        if self._first_ms is None and len(self._recent) == _LEAST_ROUNDS:
            self._first_ms = statistics.median(self._recent)
        return usual is not None and canary_ms > usual * (1 + self._tolerance)
