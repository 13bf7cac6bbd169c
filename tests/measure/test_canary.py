"""The canary: what counts as a disturbance, and that the kernel itself is a pipeline like any other."""

from pathlib import Path

import pytest

from metol.measure import LocalRunner, PipelineSource, RunOptions, Scheduler
from metol.measure.canary import Drift, canary_schedule, save_schedule


def told(drift: Drift, *rounds_ms: float) -> list[bool]:
    return [drift.is_disturbed(ms) for ms in rounds_ms]


def test_a_round_that_is_off_is_a_disturbance() -> None:
    assert told(Drift(tolerance=0.1), 10, 10, 10, 10.9, 11.2, 10) == [False, False, False, False, True, False]


def test_a_faster_round_is_none() -> None:
    assert told(Drift(), 10, 10, 10, 5) == [False] * 4


def test_nothing_is_told_before_it_is_known_what_is_usual() -> None:
    assert told(Drift(), 10, 20, 10, 20) == [False, False, False, True]


def test_a_machine_that_stays_slow_is_as_usual_after_some_rounds() -> None:
    answers = told(Drift(), *[10] * 9, *[20] * 9)
    assert answers[9], "the first slow round is off"
    assert not answers[-1]


def test_drift_is_how_much_slower_the_machine_has_become() -> None:
    drift = Drift()
    assert drift.since_start == 1
    told(drift, 10, 10)
    assert drift.since_start == 1, "two rounds tell nothing"
    told(drift, 10, *[20] * 9)
    assert drift.since_start == 2


def test_the_first_rounds_are_what_drift_is_measured_from() -> None:
    drift = Drift()
    told(drift, 30, 10, 20)
    assert drift.since_start == 1
    told(drift, *[10] * 9)
    assert drift.since_start == 0.5


@pytest.mark.slow
def test_the_canary_runs_with_its_schedule_and_is_right(brief_options: RunOptions, tmp_path: Path) -> None:
    source = PipelineSource.parse("metol.measure.canary:build")
    (row,) = LocalRunner(brief_options).run(source, [Scheduler.of_file(save_schedule(tmp_path))])
    assert row.verified, row.detail
    assert row.run_ms is not None


def test_the_canary_is_the_same_every_time(tmp_path: Path) -> None:
    assert save_schedule(tmp_path).read_text() == canary_schedule().to_json()
