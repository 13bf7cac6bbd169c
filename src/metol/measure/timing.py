"""Timing a compiled pipeline: batches long enough for the clock, in rounds short enough to take turns.

A round warms up, then takes samples for a fixed time; with cold caches a sample is a single run. Rounds of several
schedules alternate, so that a machine that drifts favours none of them, and go on until the median of each is known
well enough.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Median", "TimingPlan", "has_settled", "interval_of", "median_of", "take_cold_samples", "take_samples"]


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
    is_cold: bool = False
    """Whether caches are emptied before each run (`cold_caches.py`), which takes time of the round, too."""


# A batch shorter than this is at the mercy of the clock, of interrupts, and of the cost of the call from Python.
MIN_SAMPLE_SECONDS = 0.002
# To wait for a GPU takes tens of microseconds.
MIN_DEVICE_SAMPLE_SECONDS = 0.02
# By which the median absolute deviation of 2, 3, ... values is multiplied, and the 97.5 % quantile of Student's
# distribution for so many.
_SMALL_SAMPLE = (1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107)
_STUDENT_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def take_samples(
    run: Callable[[], object],
    seconds: float,
    give_up_ms: float = math.inf,
    *,
    wait: Callable[[], object] | None = None,
) -> list[float]:
    """Run for about `seconds` and return milliseconds per run, one for each batch.

    Where `wait` is given, runs go on beside this thread, on a device: a batch ends when `wait` returns, and is longer,
    so that waiting counts for nothing. Sioutas et al. 2020, §5.1, wait once in 100 runs.

    The first run is a warm-up, for another process has just had the caches, and Halide's threads slept meanwhile: of a
    short run it tells nothing. Where it takes longer than `give_up_ms`, and than the whole round may, it is the only
    sample: nobody wants to know more of so slow a schedule.
    """
    least_seconds = MIN_SAMPLE_SECONDS if wait is None else MIN_DEVICE_SAMPLE_SECONDS
    warm_up_seconds = _time_batch(run, 1, wait)
    if warm_up_seconds > seconds and 1e3 * warm_up_seconds > give_up_ms:
        return [1e3 * warm_up_seconds]
    batch = 1
    while (elapsed := _time_batch(run, batch, wait)) < least_seconds:
        batch = max(batch + 1, math.ceil(batch * 1.2 * least_seconds / max(elapsed, 1e-7)))
    samples = [1e3 * elapsed / batch]
    end = time.perf_counter() + seconds - elapsed
    while time.perf_counter() < end:
        samples.append(1e3 * _time_batch(run, batch, wait) / batch)
    return samples


def take_cold_samples(run: Callable[[], object], empty_caches: Callable[[], object], seconds: float) -> list[float]:
    """Run for about `seconds`, emptying the caches before each run, and return milliseconds, one for each run.

    The first run warms up all the same: its memory gets its pages. What a run costs beside the pipeline, some
    microseconds of Python and of waking threads, no batch hides.
    """
    run()
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        empty_caches()
        samples.append(1e3 * _time_batch(run, 1))
    return samples


@dataclass(frozen=True, slots=True)
class Median:
    """A median that was estimated from rounds of samples."""

    ms: float
    """Milliseconds of a run."""
    error_ms: float
    """Standard error."""


def median_of(rounds: Sequence[Sequence[float]]) -> Median:
    """Estimate the median from the medians of rounds.

    The standard error of a median is 1.2533 σ/√n, and σ is 1.4826 times the median absolute deviation (both for normal
    noise); rounds, not samples, are counted, because samples within one round share the state of the machine.
    """
    medians = [statistics.median(samples) for samples in rounds]
    centre = statistics.median(medians)
    deviation = 1.4826 * statistics.median(abs(m - centre) for m in medians)
    return Median(centre, 1.2533 * deviation / math.sqrt(len(medians)))


def interval_of(rounds: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Return where the median is with a confidence of 95 %, in milliseconds; None for a single round.

    Student's quantiles, and the factors by which the deviation of few values is too small (C. Croux and P. J.
    Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale", 1992), make it wide where rounds
    are few: it holds the median in 88 to 97 of 100 cases, from 2 rounds on (normal noise).
    """
    count = len(rounds)
    if count < 2:
        return None
    median = median_of(rounds)
    small = _SMALL_SAMPLE[count - 2] if count - 2 < len(_SMALL_SAMPLE) else count / (count - 0.8)
    quantile = _STUDENT_95[count - 2] if count - 2 < len(_STUDENT_95) else 1.96 + 2.4 / (count - 1)
    reach = quantile * small * median.error_ms
    return max(0.0, median.ms - reach), median.ms + reach


def has_settled(rounds: Sequence[Sequence[float]], plan: TimingPlan) -> bool:
    """Whether the median of the rounds' medians is known to within `plan.spread`."""
    if len(rounds) < plan.min_rounds:
        return False
    median = median_of(rounds)
    return median.error_ms <= plan.spread * median.ms


def _time_batch(run: Callable[[], object], batch: int, wait: Callable[[], object] | None = None) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        run()
    if wait is not None:
        wait()
    return time.perf_counter() - start
