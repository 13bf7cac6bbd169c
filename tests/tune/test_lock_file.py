"""Saved schedules looked at again, on real pipelines: what still holds, and each way in which it may not."""

from dataclasses import replace
from pathlib import Path

import pytest

import metol
from metol import verification
from metol.errors import MetolError
from metol.findings import Check, Outcome
from metol.lower import Call, Directive, Measured, RVar, Schedule, Tail, Var
from metol.measure import PipelineSource, TimingPlan
from metol.tune import LockReport, check_lock_file, fingerprint, machine_identity

PIPELINES = """
import __main__
from pathlib import Path

import halide as hl

x, y = hl.Var("x"), hl.Var("y")

def ramp(value=0, name="ramp"):
    result = hl.Func(name)
    result[x, y] = x + y + value
    result.set_estimates([(0, 64), (0, 48)])
    return result

def other():
    return ramp(1)

def larger():
    return ramp().set_estimates([(0, 128), (0, 96)])

def renamed():
    return ramp(name="slope")

def differs():
    # Everywhere the same, but in the second child process that runs code: that is the one with the schedule.
    if not str(getattr(__main__, "__file__", "")).endswith("child.py"):
        return ramp()
    mark = Path(__file__).with_suffix(".built")
    is_second = mark.exists()
    mark.touch()
    return ramp(7 if is_second else 0)

def histogram():
    bins, window = hl.Func("bins"), hl.RDom([(0, 64)], "window")
    bins[x] = 0
    bins[(window.x * 7) % 16] += 1
    bins.set_estimates([(0, 16)])
    return bins
"""

# Enough for a time, however rough: what the tests compare it with is far away.
QUICK = TimingPlan(round_seconds=0.001, min_rounds=1, max_rounds=2)


def measured(run_ms: float) -> Measured:
    identity = machine_identity()
    return Measured(run_ms, None, 1, fingerprint(identity), str(identity["cpu"]), False, "2026-01-02T03:04:05Z")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / f"{tmp_path.name}.py").write_text(PIPELINES)
    return tmp_path


def source(folder: Path, function: str = "ramp") -> PipelineSource:
    return PipelineSource.parse(f"{folder / folder.name}.py:{function}")


@pytest.fixture
def found(folder: Path) -> Schedule:
    """A schedule of the ramp that was a million times slower when it was measured."""
    options = metol.SearchOptions(strategy="greedy")
    result = metol.autoschedule(source(folder).build(), threads=1, options=options)
    return replace(result.schedule, measured=measured(1e6))


def look_at(schedule: Schedule, folder: Path, function: str = "ramp") -> LockReport:
    schedule.save(folder / "lock.json")
    return check_lock_file(folder / "lock.json", source(folder, function), timing=QUICK)


def named(report: LockReport, name: str) -> Check:
    (check,) = (check for check in report.checks if check.name == name)
    return check


def failures(report: LockReport) -> list[str]:
    return [check.name for check in report.checks if check.outcome is Outcome.FAIL]


def test_schedule_that_fits_and_is_as_fast_holds(found: Schedule, folder: Path) -> None:
    report = look_at(found, folder)
    assert {check.outcome for check in report.checks} == {Outcome.OK}
    assert report.holds
    assert "awkward size" in named(report, "results").found
    assert report.speed is not None
    assert report.speed.now.threads == 1


def test_schedule_that_was_faster_does_not_hold(found: Schedule, folder: Path) -> None:
    report = look_at(replace(found, measured=measured(1e-9)), folder)
    assert failures(report) == []
    assert report.is_slower
    assert not report.holds
    assert "slower than when it was measured" in named(report, "speed").found


def test_wrong_result_fails(found: Schedule, folder: Path) -> None:
    report = look_at(found, folder, "differs")
    assert failures(report) == ["results"]
    assert "wrong_result" in named(report, "results").found
    assert report.speed is None


@pytest.mark.slow
def test_another_algorithm_fails_even_where_the_schedule_fits(found: Schedule, folder: Path) -> None:
    report = look_at(found, folder, "other")
    assert failures(report) == ["algorithm"]
    assert not report.holds
    assert report.speed is not None
    assert report.speed.obstacle


def test_other_sizes_are_told_and_their_times_not_compared(found: Schedule, folder: Path) -> None:
    report = look_at(replace(found, measured=measured(1e-9)), folder, "larger")
    assert report.holds
    assert named(report, "estimates").found == "made for ramp 64x48; here ramp 128x96"
    assert not report.is_slower


@pytest.mark.slow
def test_sizes_from_outside_take_precedence(found: Schedule, folder: Path) -> None:
    found.save(folder / "lock.json")
    sizes = {"ramp": [(0, 64), (0, 48)]}
    report = check_lock_file(folder / "lock.json", source(folder, "larger"), estimates=sizes, timing=QUICK)
    assert named(report, "estimates").outcome is Outcome.OK
    assert "64x48" in named(report, "results").found


def test_schedule_of_another_pipeline_is_not_run(found: Schedule, folder: Path) -> None:
    report = look_at(found, folder, "renamed")
    assert failures(report) == ["directives"]
    assert "does not fit this pipeline" in named(report, "directives").found
    assert report.speed is None


def test_directive_that_halide_refuses_fails(folder: Path) -> None:
    pipeline = source(folder, "histogram").build()
    plain = metol.autoschedule(pipeline, threads=1, options=metol.SearchOptions(strategy="greedy")).schedule
    racing = (
        Directive(0, 0, Call.PARALLEL, (Var("x"),)),
        Directive(0, 1, Call.PARALLEL, (RVar("window$x"),)),
    )
    report = look_at(replace(plain, directives=racing), folder, "histogram")
    assert failures(report) == ["directives"]
    assert "race" in named(report, "directives").found


def test_schedule_that_needs_more_than_the_algorithm_is_not_run(found: Schedule, folder: Path) -> None:
    split = Directive(0, 0, Call.SPLIT, (Var("x"), Var("xo"), Var("xi"), 16, Tail.ROUND_UP))
    report = look_at(replace(found, directives=(split,)), folder)
    assert failures(report) == ["bounds"]
    assert "it needs" in named(report, "bounds").found
    assert report.checks[-1].name == "bounds"


def test_schedule_for_another_kind_of_machine_is_not_run(found: Schedule, folder: Path) -> None:
    foreign = "arm-64-linux" if found.target.startswith("x86") else "x86-64-linux"
    report = look_at(replace(found, target=foreign), folder)
    assert failures(report) == ["target"]
    assert report.speed is None


def test_schedule_for_a_gpu_that_is_not_here_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: None)
    options = metol.SearchOptions(strategy="greedy")
    result = metol.autoschedule(source(folder).build(), target="cuda", gpu="a100", threads=1, options=options)
    report = look_at(result.schedule, folder)
    assert failures(report) == ["device"]
    assert named(report, "device").found == "nothing can be run, for there is no GPU here"
    assert (report.checks[-1].name, report.speed) == ("device", None)


def test_file_that_is_no_schedule_fails(folder: Path) -> None:
    (folder / "notes.json").write_text("some notes of mine")
    report = check_lock_file(folder / "notes.json", source(folder))
    assert [(check.name, check.outcome) for check in report.checks] == [("file", Outcome.FAIL)]
    assert "not valid JSON" in named(report, "file").found


def test_file_that_is_missing_is_a_mistake(folder: Path) -> None:
    with pytest.raises(MetolError, match=r"`.*missing.json` cannot be read: No such file"):
        check_lock_file(folder / "missing.json", source(folder))
