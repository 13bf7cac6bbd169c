"""What tuning leaves: the best schedule, by how much it is faster than what, and all that was measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metol.errors import MetolError
from metol.lower import Schedule
from metol.measure import Status
from metol.pipeline import strip_schedules
from metol.tune.record import Record

__all__ = ["TuningFailure", "TuningResult"]


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The outcome of tuning one pipeline."""

    label: str
    """The pipeline as the user named it."""
    best: Record
    """The record of the fastest schedule that was right: of the final race, where there was one."""
    history: tuple[Record, ...]
    """Everything that was measured in this run, in order, failures included."""
    speedup_over: Mapping[str, float]
    """How many times as fast the best is as the best of each origin: ``safe``, ``search``, a peer, and so on."""
    seconds: float
    """Wall-clock time."""
    overhead_seconds: float
    """Of that, the time in which nothing was compiled and nothing ran: searches, and the rest."""
    is_complete: bool
    """False where somebody interrupted it before the final race."""
    drift: float = 1.0
    """How many times as slow the machine was at the end as at the start, by the canary."""
    notes: tuple[str, ...] = ()
    """What a reader should know: peers that gave nothing, a schedule that was fast and wrong."""

    @property
    def schedule(self) -> Schedule:
        """The best schedule."""
        return self.best.to_schedule()

    @property
    def failures(self) -> tuple[Record, ...]:
        """What crashed, hung, was wrong, or was refused."""
        return tuple(record for record in self.history if record.status is not Status.OK)

    @property
    def trials(self) -> int:
        """Schedules that were compiled, those of the final race not counted."""
        return sum(not record.is_final and record.status is not Status.REFUSED for record in self.history)

    def apply(self, pipeline: Any) -> None:
        """Schedule a pipeline with the best, in place of whatever schedule it carries."""
        schedule = self.schedule
        strip_schedules(pipeline, [keep.func for keep in schedule.kept])
        schedule.apply(pipeline)

    def save(self, path: str | Path) -> None:
        """Write the best schedule, as `metol.load` reads it; as Python or C++ where the name ends so."""
        self.schedule.save(path)

    def to_python(self) -> str:
        """Return Python source that makes the same calls without Metol."""
        return self.schedule.to_python()

    def to_cpp(self) -> str:
        """Return a C++ header that makes the same calls without Metol."""
        return self.schedule.to_cpp()

    def summary(self) -> str:
        """Return one line for a person."""
        failed = sum(record.status is not Status.REFUSED for record in self.failures)
        parts = [
            f"{self.best.run_ms:.4g} ms ({self.best.origin})" if self.best.run_ms else self.best.origin,
            *(f"{gain:.2f}x {origin}" for origin, gain in self.speedup_over.items() if origin in ("safe", "search")),
            f"{self.trials} trials, {failed} failed, in {self.seconds:.0f} s",
            f"{self.overhead_seconds / max(self.seconds, 1e-9):.1%} of it outside compiling and running",
        ]
        return "; ".join(parts if self.is_complete else [*parts, "stopped early"])


@dataclass(frozen=True, slots=True)
class TuningFailure:
    """A pipeline of several that could not be tuned."""

    label: str
    """The pipeline as the user named it."""
    reason: str
    """Why not."""
    history: tuple[Record, ...] = ()
    """What was measured all the same."""
    error: MetolError | None = None
    """The error that ended it."""
