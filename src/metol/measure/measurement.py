"""What a measurement is: one scheduler's schedule of one pipeline, run in a child process, as one row of a table.

A crash, a hang, an out-of-memory or a wrong result is a recorded outcome with a reason, never an exception.
"""

from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

__all__ = ["Measurement", "Status"]


class Status(str, Enum):
    """How far a schedule got. The values are what result files hold."""

    OK = "ok"
    SCHEDULE_FAILED = "schedule_failed"
    COMPILE_FAILED = "compile_failed"
    RUN_FAILED = "run_failed"
    WRONG_RESULT = "wrong_result"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"
    """By the gate, which looks at lowered code: nothing was compiled."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row: how long it took to find and compile a schedule, how fast it runs, and whether its result is right."""

    app: str
    """The pipeline's source as text, or the bare name of an application of the suite."""
    scheduler: str
    """The scheduler as the user wrote it, options included."""
    status: Status = Status.OK
    """What went wrong, or OK: scheduled, compiled, and right at the estimated size; `verified` asks for more."""
    schedule_seconds: float | None = None
    """Wall time of the scheduler alone: neither building the pipeline nor compiling."""
    compile_seconds: float | None = None
    """Wall time from the scheduled pipeline to machine code, without Halide's runtime."""
    run_ms: float | None = None
    """Median of the medians of the rounds."""
    run_ms_samples: tuple[float, ...] = ()
    """Milliseconds per run; each sample is the mean of one batch of runs."""
    verified: bool = False
    """Whether every result agreed with the reference schedule's, at the estimated size and at the awkward one. A row
    that is OK and not verified refuses the awkward size, with the error in `detail`."""
    detail: str = ""
    """Why it failed, with the last lines of the child's stderr; otherwise what was compared, and how closely."""
    interval_ms: tuple[float, float] | None = None
    """Where the median is with a confidence of 95 %, by how the rounds of samples differ."""

    @property
    def is_ok(self) -> bool:
        """Whether the schedule was found, compiled, ran and was not wrong."""
        return self.status is Status.OK

    @property
    def problem(self) -> str:
        """Why it is not verified, for people: what went wrong and how; the detail alone where nothing did."""
        return self.detail if self.is_ok else f"{self.status.value}: {self.detail}"

    @property
    def verified_ms(self) -> float | None:
        """Median run time in milliseconds, of a verified row alone."""
        return self.run_ms if self.verified else None

    def with_failure(self, status: Status, detail: str) -> "Measurement":
        """Return this row with a failure, and without its claim to be verified."""
        return replace(self, status=status, detail=detail, verified=False)

    def to_row(self) -> dict[str, Any]:
        """Return the row as it stands in a result file."""
        return asdict(self) | {"status": self.status.value, "run_ms_samples": list(self.run_ms_samples)}

    @staticmethod
    def from_row(row: dict[str, Any]) -> "Measurement":
        """Read a row of a result file."""
        interval = row.get("interval_ms")
        return Measurement(
            **{
                **row,
                "status": Status(row["status"]),
                "run_ms_samples": tuple(row["run_ms_samples"]),
                "interval_ms": None if interval is None else tuple(interval),
            }
        )
