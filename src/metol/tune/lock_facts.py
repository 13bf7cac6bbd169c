"""What a schedule file says beside what is here: versions, target, algorithm, sizes and time, one `Check` each.

In: the schedule of the file, and what the pipeline and this machine are now. Out: findings. Nothing is run here.
"""

from dataclasses import dataclass

from metol.findings import Check, Outcome
from metol.lower import Estimate, Measured, Schedule
from metol.targets.cpu import vector_isa

__all__ = ["Speed", "compare_algorithms", "compare_estimates", "compare_targets", "compare_versions"]

_ANEW = "Schedule the pipeline anew."


def compare_versions(locked: Schedule, here: Schedule) -> tuple[Check, Check]:
    """Compare the releases of Metol and of Halide."""
    return (
        _compare_version("Metol", locked.metol_version, here.metol_version, "This one may find a faster schedule."),
        _compare_version("Halide", locked.halide_version, here.halide_version, "Its code may be of another speed."),
    )


def _compare_version(name: str, was: str, now: str, advice: str) -> Check:
    if was == now:
        return Check(name, Outcome.OK, now)
    return Check(name, Outcome.WARN, f"made with {was or 'a version that it does not tell'}; this is {now}", advice)


def compare_targets(target: str, host: str) -> Check:
    """Tell whether this machine runs code for a Halide target, as far as its CPU goes."""
    name = "target"
    if not target:
        return Check(name, Outcome.WARN, f"the file tells none; taken for {host}")
    wanted, given = vector_isa(target).split("-"), vector_isa(host).split("-")
    if wanted[:3] != given[:3]:
        found = f"made for {'-'.join(wanted[:3])}; this machine is {'-'.join(given[:3])}"
        return Check(name, Outcome.FAIL, found, _ANEW)
    if missing := [feature for feature in wanted[3:] if feature not in given[3:]]:
        return Check(name, Outcome.FAIL, f"made for {target}; this machine has no {', '.join(missing)}", _ANEW)
    return Check(name, Outcome.OK, target)


def compare_algorithms(locked: Schedule, here: Schedule) -> Check:
    """Compare the hashes of the algorithms."""
    name, was, now = "algorithm", locked.algorithm_hash, here.algorithm_hash
    if not was:
        return Check(name, Outcome.WARN, "the file does not tell which it is for")
    if not now:
        return Check(name, Outcome.FAIL, f"made for {was}; this one cannot be described", _ANEW)
    if was != now:
        return Check(name, Outcome.FAIL, f"made for {was}; this one is {now}", _ANEW)
    return Check(name, Outcome.OK, was)


def compare_estimates(locked: Schedule, here: Schedule) -> Check:
    """Compare the sizes and values that the schedule was made for with those of the pipeline."""
    name = "estimates"
    if not locked.estimates:
        return Check(name, Outcome.WARN, "the file does not tell which sizes it is for")
    if locked.estimates == here.estimates:
        return Check(name, Outcome.OK, _sizes(locked.estimates))
    was = _sizes(tuple(estimate for estimate in locked.estimates if estimate not in here.estimates))
    now = _sizes(tuple(estimate for estimate in here.estimates if estimate not in locked.estimates))
    found = f"made for {was or 'fewer'}; here {now or 'there are fewer'}"
    return Check(name, Outcome.WARN, found, "Another schedule may be faster at these sizes.")


def _sizes(estimates: tuple[Estimate, ...]) -> str:
    return ", ".join(f"{estimate.name} {_size(estimate)}" for estimate in estimates)


def _size(estimate: Estimate) -> str:
    if estimate.value is not None:
        return f"= {estimate.value}"
    size = "x".join(str(extent) for _, extent in estimate.bounds) or "scalar"
    lows = [low for low, _ in estimate.bounds]
    return f"{size} from {', '.join(map(str, lows))}" if any(lows) else size


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a schedule is, beside how fast it was."""

    then: Measured | None
    """The time in the file."""
    now: Measured
    """The time that was measured just now."""
    is_same_problem: bool
    """Whether both are for the same algorithm and sizes."""
    tolerance: float
    """How much longer it may take than it did, relative to that, without being slower."""

    @property
    def obstacle(self) -> str:
        """Why the two cannot be compared; empty where they can."""
        then, now = self.then, self.now
        if then is None:
            return "no measured time in the file"
        if then.machine != now.machine:
            return f"measured on another machine ({then.cpu or then.machine})"
        if then.threads != now.threads:
            return f"measured with {then.threads} threads"
        if then.is_cold != now.is_cold:
            return "measured with empty caches"
        return "" if self.is_same_problem else "measured for another algorithm or other sizes"

    @property
    def is_slower(self) -> bool:
        """Whether it takes longer by more than the tolerance, and by more than the intervals leave to chance."""
        if self.then is None or self.obstacle or self.now.run_ms <= self.then.run_ms * (1 + self.tolerance):
            return False
        return self.now.range_ms[0] > self.then.range_ms[1]

    def to_check(self) -> Check:
        """Return the finding."""
        name, now = "speed", _time(self.now)
        if self.then is None:
            advice = "`metol records best --json` and `metol schedule --records --json` write the time of a record."
            return Check(name, Outcome.WARN, f"{now}; {self.obstacle}", advice)
        then = f"{_time(self.then)} on {self.then.made_at.partition('T')[0] or 'a day that it does not tell'}"
        if self.obstacle:
            return Check(name, Outcome.WARN, f"{now}; not compared with {then}, {self.obstacle}")
        if self.is_slower:
            ratio = self.now.run_ms / self.then.run_ms
            found = f"{now}: {ratio:.3g}x slower than when it was measured, {then}"
            return Check(name, Outcome.WARN, found, "Check again while nothing else runs here, then schedule it anew.")
        return Check(name, Outcome.OK, f"{now}; it was {then}")


def _time(measured: Measured) -> str:
    interval = "" if measured.interval_ms is None else " ({:.4g} to {:.4g})".format(*measured.interval_ms)
    return f"{measured.run_ms:.4g} ms{interval}"
