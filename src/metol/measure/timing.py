"""Timing a compiled pipeline: batches long enough for the clock, in rounds short enough to take turns.

A round warms up, then takes samples for a fixed time. Rounds of several schedules alternate, so that a machine that
drifts favours none of them, and go on until the median of each is known well enough.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["TimingPlan", "has_settled", "take_samples"]


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How long to time one schedule."""

    round_seconds: float = 0.2
    """A round takes samples for this long, and at least one."""
    min_rounds: int = 5
    """Fewer rounds never settle anything."""
    max_rounds: int = 25
    """Rounds after which the median is taken as it is."""
    limit_seconds: float = 12.0
    """A schedule that has been timed this long gets no further round; a very slow one has a single sample then."""
    spread: float = 0.005
    """Wanted standard error of the median, relative to it."""


# A batch shorter than this is at the mercy of the clock, of interrupts, and of the cost of the call from Python.
MIN_SAMPLE_SECONDS = 0.002


def take_samples(run: Callable[[], object], seconds: float) -> list[float]:
    """Run for about `seconds` and return milliseconds per run, one for each batch.

    The first run is a warm-up, for another process has just had the caches; it also sizes the batch.
    """
    run()
    batch = 1
    while (elapsed := _time_batch(run, batch)) < MIN_SAMPLE_SECONDS:
        batch = max(batch + 1, math.ceil(batch * 1.2 * MIN_SAMPLE_SECONDS / max(elapsed, 1e-7)))
    samples = [1e3 * elapsed / batch]
    end = time.perf_counter() + seconds - elapsed
    while time.perf_counter() < end:
        samples.append(1e3 * _time_batch(run, batch) / batch)
    return samples


def has_settled(rounds: Sequence[Sequence[float]], plan: TimingPlan) -> bool:
    """Whether the median of the rounds' medians is known to within `plan.spread`.

    The standard error of a median is 1.2533 σ/√n, and σ is 1.4826 times the median absolute deviation (both for normal
    noise); rounds, not samples, are counted, because samples within one round share the state of the machine.
    """
    if len(rounds) < plan.min_rounds:
        return False
    medians = [statistics.median(samples) for samples in rounds]
    centre = statistics.median(medians)
    deviation = 1.4826 * statistics.median(abs(m - centre) for m in medians)
    return 1.2533 * deviation / math.sqrt(len(medians)) <= plan.spread * centre


def _time_batch(run: Callable[[], object], batch: int) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        run()
    return time.perf_counter() - start
