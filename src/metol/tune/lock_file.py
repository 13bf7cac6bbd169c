"""A schedule file as a lock file: does it still fit its pipeline and this machine, and is it still as fast?

In: a file that `Schedule.save` wrote, and the recipe of a pipeline. Out: a `LockReport` with a `Check` for each fact.
What is lowered, compiled and run is so in child processes.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from metol.errors import MetolError, RefusedDirectiveError, ScheduleFormatError, ScheduleMismatchError
from metol.findings import Check, Outcome
from metol.framing import block_limits, buffer_sizes, frame_of, read_pipeline
from metol.lower import Measured, Schedule, load
from metol.measure import Acceptance, Measurement, PipelineSource, RunOptions, TimingPlan, verify_schedule
from metol.pipeline import EstimateMap, strip_schedules
from metol.targets import choose_machine, parse_target
from metol.tune.lock_facts import Speed, compare_algorithms, compare_estimates, compare_targets, compare_versions
from metol.tune.machine_identity import fingerprint, machine_identity
from metol.verification import missing_device

__all__ = ["LockReport", "check_lock_file"]


@dataclass(frozen=True, slots=True)
class LockReport:
    """What became of a schedule since it was saved."""

    checks: tuple[Check, ...]
    """The facts, in the order in which they were looked at; the first that leaves no sense in the rest is the last."""
    speed: Speed | None = None
    """How fast it is and was; None where it cannot be run."""

    @property
    def is_slower(self) -> bool:
        """Whether it is slower than it was."""
        return self.speed is not None and self.speed.is_slower

    @property
    def holds(self) -> bool:
        """Whether nothing fails, and it is not slower."""
        return not self.is_slower and all(check.outcome is not Outcome.FAIL for check in self.checks)

    @property
    def lacks_device(self) -> bool:
        """Whether nothing fails but that this machine has not what the schedule runs on."""
        failed = {check.name for check in self.checks if check.outcome is Outcome.FAIL}
        return bool(failed) and failed <= {_TARGET, _DEVICE}

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "checks": [check.to_dict() for check in self.checks],
            "is_slower": self.is_slower,
            "speed": None if self.speed is None else asdict(self.speed),
        }


def check_lock_file(
    path: Path,
    source: PipelineSource,
    *,
    estimates: EstimateMap | None = None,
    threads: int | None = None,
    tolerance: float = 0.1,
    timing: TimingPlan | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> LockReport:
    """Look whether a saved schedule still fits a pipeline and this machine, and is as fast as it was.

    Args:
        path: The file.
        source: The pipeline.
        estimates: Sizes and parameter values that the pipeline does not tell, by name.
        threads: Threads to run with; by default as many as it was measured with, or all.
        tolerance: How much longer it may take than it did, relative to that, without being slower.
        timing: How long to time it.
        progress: Told about each step.

    Raises:
        MetolError: There is no such file, or the pipeline cannot be built or has no estimates.
    """
    try:
        locked = _load(path)
    except ScheduleFormatError as error:
        return LockReport((Check("file", Outcome.FAIL, str(error)),))
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if locked.measured is None else locked.measured.threads
    target = locked.target or _host()
    options = RunOptions(threads=threads, target=target, timing=timing or TimingPlan())
    return _Examination(locked, source, estimates, options, progress).report(tolerance)


@dataclass(frozen=True, slots=True)
class _Examination:
    """One schedule, and what it is looked at with."""

    locked: Schedule
    source: PipelineSource
    estimates: EstimateMap | None
    options: RunOptions
    progress: Callable[[str], None]

    def report(self, tolerance: float) -> LockReport:
        """Look at one fact after the other, as long as there is sense in it."""
        self.progress(f"{self.source.label}: reading")
        pipeline = self.source.build()
        read = read_pipeline(pipeline, self.estimates, "")
        here = frame_of(pipeline, read, self.options.target, ())
        checks = [*_facts(self.locked, here), self._apply()]
        if _prevents_a_run(checks):
            return LockReport(tuple(checks))
        self.progress(f"{self.source.label}: lowering")
        target = self.options.target
        limits = block_limits(choose_machine(parse_target(target), threads=self.options.threads))
        with Acceptance(pipeline, buffer_sizes(read), target=target, limits=limits) as acceptance:
            refusal = acceptance.refusal(self.locked)
        if refusal:
            return LockReport((*checks, Check(_BOUNDS, Outcome.FAIL, refusal, "Schedule the pipeline anew.")))
        checks.append(Check(_BOUNDS, Outcome.OK, "Halide lowers it, and it asks of no buffer more than the algorithm"))
        if missing := missing_device(self.options.target):
            return LockReport((*checks, Check(_DEVICE, Outcome.FAIL, f"nothing can be run, for {missing}", _ELSEWHERE)))
        row = verify_schedule(
            self.source, self.locked, options=self.options, progress=self.progress, estimates=self.estimates
        )
        if not row.verified:
            return LockReport((*checks, Check(_RESULTS, Outcome.FAIL, row.problem, "Do not use it; schedule anew.")))
        checks.append(Check(_RESULTS, Outcome.OK, row.detail))
        is_same = (self.locked.algorithm_hash, self.locked.estimates) == (here.algorithm_hash, here.estimates)
        speed = Speed(self.locked.measured, _measured_now(row, self.options), is_same, tolerance)
        return LockReport((*checks, speed.to_check()), speed)

    def _apply(self) -> Check:
        """Make the calls on a pipeline that is thrown away."""
        pipeline = self.source.build()
        strip_schedules(pipeline, [keep.func for keep in self.locked.kept])
        try:
            self.locked.apply(pipeline)
        except (ScheduleMismatchError, RefusedDirectiveError) as error:
            return Check(_DIRECTIVES, Outcome.FAIL, " ".join(str(error).split()))
        return Check(_DIRECTIVES, Outcome.OK, "they fit the Funcs and loops of the pipeline")


_TARGET, _DIRECTIVES, _BOUNDS, _DEVICE, _RESULTS = "target", "directives", "bounds", "device", "results"
_ELSEWHERE = "Check it where there is one; `metol schedule --verify` compiles kernels for CUDA without."


def _facts(locked: Schedule, here: Schedule) -> tuple[Check, ...]:
    counts = f"{len(locked.directives)} directives for {len(locked.funcs)} Funcs"
    return (
        Check("file", Outcome.OK, counts),
        *compare_versions(locked, here),
        compare_targets(locked.target, _host()),
        compare_algorithms(locked, here),
        compare_estimates(locked, here),
    )


def _prevents_a_run(checks: list[Check]) -> bool:
    """Whether there is nothing to run, or nothing to run it on; another algorithm may be scheduled alike."""
    return any(check.outcome is Outcome.FAIL and check.name in (_TARGET, _DIRECTIVES) for check in checks)


def _load(path: Path) -> Schedule:
    try:
        return load(path)
    except OSError as error:
        raise MetolError(f"`{path}` cannot be read: {error.strerror}. Name a file that `--json` wrote.") from error


def _host() -> str:
    return str(parse_target(None).to_string())


def _measured_now(row: Measurement, options: RunOptions) -> Measured:
    assert row.run_ms is not None, "a row that is verified has been timed"
    identity = machine_identity(choose_machine(parse_target(options.target), threads=options.threads))
    return Measured(
        run_ms=row.run_ms,
        interval_ms=row.interval_ms,
        threads=options.threads,
        machine=fingerprint(identity),
        cpu=str(identity["cpu"]),
        is_cold=False,
        made_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
