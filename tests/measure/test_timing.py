import itertools
import random
from collections.abc import Iterator

import pytest

import metol.measure.timing
from metol.measure import TimingPlan
from metol.measure.timing import has_settled, interval_of, median_of, take_samples

PLAN = TimingPlan(min_rounds=3, max_rounds=9, spread=0.01)


def test_take_samples_warms_up_and_batches_short_runs() -> None:
    counter = itertools.count()
    samples = take_samples(lambda: next(counter), 0.02)
    assert samples
    assert all(sample > 0 for sample in samples)
    assert next(counter) > 10 * len(samples)


def test_take_samples_takes_one_where_there_is_no_time() -> None:
    assert len(take_samples(lambda: None, 0.0)) == 1


class Stopwatch:
    """Stands in for the clock: a run takes as long as the script says."""

    def __init__(self, *seconds: float) -> None:
        self.runs = 0
        self._now = 0.0
        self._script: Iterator[float] = itertools.chain(seconds, itertools.repeat(seconds[-1]))

    def perf_counter(self) -> float:
        return self._now

    def run(self) -> None:
        self.runs += 1
        self._now += next(self._script)


def samples_of(stopwatch: Stopwatch, monkeypatch: pytest.MonkeyPatch, seconds: float, give_up_ms: float) -> list[float]:
    with monkeypatch.context() as patch:
        patch.setattr(metol.measure.timing, "time", stopwatch)
        return take_samples(stopwatch.run, seconds, give_up_ms)


def test_take_samples_gives_up_after_one_slow_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stopwatch = Stopwatch(2.0)
    assert samples_of(stopwatch, monkeypatch, 0.5, give_up_ms=1500) == [2000]
    assert stopwatch.runs == 1


def test_take_samples_does_not_judge_a_short_run_by_its_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = samples_of(Stopwatch(0.25, 0.0625), monkeypatch, 0.5, give_up_ms=100)
    assert samples == [62.5] * 8


def test_take_samples_waits_for_a_device_once_a_batch() -> None:
    calls: list[str] = []
    take_samples(lambda: calls.append("run"), 0.05, wait=lambda: calls.append("wait"))
    first_wait, waits = calls.index("wait"), calls.count("wait")
    assert first_wait == 1
    assert calls[-1] == "wait"
    assert calls.count("run") > 10 * waits


def test_has_settled_wants_its_rounds() -> None:
    assert not has_settled([[1.0], [1.0]], PLAN)
    assert has_settled([[1.0], [1.0], [1.0]], PLAN)


def test_has_settled_wants_agreement_between_rounds_not_within_them() -> None:
    noisy_within = [[1.0, 2.0, 3.0]] * 3
    drifting = [[1.0] * 100, [1.2] * 100, [1.4] * 100]
    assert has_settled(noisy_within, PLAN)
    assert not has_settled(drifting, PLAN)


def test_has_settled_ignores_one_disturbed_round() -> None:
    assert has_settled([[1.0], [1.001], [5.0], [0.999], [1.0]], PLAN)


def test_intervals_hold_the_median_about_as_often_as_they_say() -> None:
    noise = random.Random(0)
    for count in (2, 3, 5, 12, 25):
        tries = [[[noise.gauss(100, 1)] for _ in range(count)] for _ in range(1000)]
        held = sum(low <= 100 <= high for low, high in map(interval_of, tries))
        assert 850 <= held <= 985
        assert all(low <= median_of(rounds).ms <= high for rounds in tries[:9] for low, high in [interval_of(rounds)])
    assert interval_of([[2.0, 3.0]]) is None, "one round says nothing about others"
