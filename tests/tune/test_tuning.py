"""Tuning for real: small pipelines, real children, real files. Nothing here depends on how fast the machine is."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import planted_failures
import pytest
from brief_timing import BRIEF_RACES
from planted_failures import COMPILER_ERROR, CRASH, GREED, HANG, WRONG_RESULT

import metol
from metol import SearchOptions, verification
from metol.errors import GivenInputError, MissingDeviceError, RecordError, SearchError, TuningError
from metol.measure import PipelineSource, SourceKind, Status, verify_schedule
from metol.tune import (
    FinalRace,
    Problem,
    Record,
    Records,
    TunerOptions,
    TuningBudget,
    TuningFailure,
    TuningProgress,
    TuningResult,
    TuningSettings,
    autotune,
    mode_budget,
    settings_of_mode,
    tune_all,
)

# Code for one size compiles in a fifteenth of the time of code for any.
QUICK = SearchOptions(beam_width=4, passes=1, discrepancies=False, fixed_sizes=True)
BRIEF_FINAL = FinalRace(finalists=2, processes=1)
# Who wins is no matter here, only that all run.
NO_PEERS = TuningSettings(TunerOptions(peers=(), batch=6), BRIEF_FINAL, plan=BRIEF_RACES)


@pytest.fixture
def source(tmp_path: Path) -> PipelineSource:
    file = shutil.copy(planted_failures.__file__, tmp_path)
    return PipelineSource(SourceKind.FILE, str(file), "brighten")


def tune(pipeline: object, trials: int, records: Path | None = None, **more) -> TuningResult:
    more = {"settings": NO_PEERS, "options": QUICK, "threads": 1, "budget": TuningBudget(trials=trials), **more}
    return autotune(pipeline, records=records, **more)


def trials_of(result: TuningResult) -> list[Record]:
    return [record for record in result.history if not record.is_final and record.status is not Status.REFUSED]


@pytest.mark.slow
def test_planted_failures_are_recorded_and_the_best_is_right(
    source: PipelineSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    monkeypatch.setenv("METOL_PLANTED", str(folder))
    settings = replace(NO_PEERS, timeout_seconds=8, memory_bytes=8 * 2**30)
    result = tune(source, 12, tmp_path / "tuning.db", settings=settings)
    expected = {
        COMPILER_ERROR: (Status.COMPILE_FAILED, "planted: no such instruction"),
        CRASH: (Status.RUN_FAILED, "SIGSEGV"),
        HANG: (Status.TIMEOUT, "over 8 s"),
        GREED: (Status.OUT_OF_MEMORY, "20.0 GiB"),
        WRONG_RESULT: (Status.WRONG_RESULT, "differ"),
    }
    failed = [(record.status, record.detail) for record in result.failures if record.status is not Status.REFUSED]
    for status, text in expected.values():
        assert any(status is found and text in detail for found, detail in failed), (status, text, failed)
    assert result.is_complete
    monkeypatch.delenv("METOL_PLANTED")
    row = verify_schedule(source, result.schedule)
    assert row.verified, row.problem
    with Records(tmp_path / "tuning.db") as database:
        assert database.all() == result.history


@pytest.mark.slow
def test_resumed_tuning_measures_nothing_twice_but_the_best(source: PipelineSource, tmp_path: Path) -> None:
    file = tmp_path / "tuning.db"
    first = tune(source, 8, file)
    second = tune(source, 8, file)
    assert {record.key for record in first.history} == {record.key for record in second.history}
    again = {r.schedule for r in trials_of(first)} & {r.schedule for r in trials_of(second)}
    # The search's own, the safe schedule, and the best few of before are measured beside what is new.
    assert len(again) < len(trials_of(second))
    neighbours = {r.schedule for r in trials_of(first) if r.origin in ("sample", "neighbour")}
    repeated = {r.schedule for r in trials_of(second) if r.origin in ("sample", "neighbour")}
    assert not neighbours & repeated
    with Records(file) as database:
        assert len(database.all()) == len(first.history) + len(second.history)
        assert len(database.sessions()) == 2


@pytest.mark.slow
def test_schedule_of_another_machine_is_a_seed_and_no_measurement(source: PipelineSource, tmp_path: Path) -> None:
    best = tune(source, 2).best
    elsewhere = replace(best, key=replace(best.key, machine="f" * 16), run_ms=1e-6)
    file = tmp_path / "tuning.db"
    with Records(file) as database:
        database.add(elsewhere)
    result = tune(source, 8, file)
    assert result.best.run_ms > 1e-6
    assert result.best.key.machine != "f" * 16
    with Records(file) as database:
        assert database.best(result.best.key).key == result.best.key


@pytest.mark.slow
def test_budget_too_small_for_a_trial_measures_the_beams_result_once(source: PipelineSource) -> None:
    result = tune(source, 1, budget=0.01)
    (record,) = result.history
    assert record.origin == "search"
    assert result.best is record
    assert record.is_verified


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["greedy", "beam"])
def test_mode_of_one_search_measures_its_result_alone(mode: str, source: PipelineSource) -> None:
    result = autotune(source, mode=mode, options=QUICK, threads=1, settings=NO_PEERS)
    assert [record.origin for record in result.history] == ["search"]


def test_mode_of_samples_has_so_many_trials_and_nothing_else() -> None:
    _, settings = settings_of_mode("sample-32", QUICK, TuningSettings())
    assert mode_budget("sample-32", None) == TuningBudget(trials=32)
    assert mode_budget("sample-32", "1min") == TuningBudget(60, 32)
    assert settings.tuner.sample_share == 1
    assert settings.tuner.peers == ()


@pytest.mark.slow
def test_pipeline_that_cannot_run_leaves_the_others_alone(source: PipelineSource, tmp_path: Path) -> None:
    builder = tmp_path / "broken.py"
    builder.write_text(BROKEN)
    broken = PipelineSource(SourceKind.FILE, str(builder), "build")
    with Problem(broken, threads=1, options=QUICK) as one, Problem(source, threads=1, options=QUICK) as other:
        failure, result = tune_all([one, other], TuningBudget(trials=4), NO_PEERS)
    assert isinstance(failure, TuningFailure)
    assert "reference" in failure.reason
    assert isinstance(result, TuningResult)


BROKEN = """
import sys
import halide as hl

def build():
    if sys.argv[0].endswith("child.py"):
        raise RuntimeError("planted")
    x = hl.Var("x")
    result = hl.Func("result")
    result[x] = x
    result.set_estimates([(0, 64)])
    return result
"""


@pytest.mark.slow
def test_cancelled_tuning_keeps_what_was_measured(source: PipelineSource, tmp_path: Path) -> None:
    steps: list[TuningProgress] = []
    with (
        Records(tmp_path / "tuning.db") as database,
        Problem(source, threads=1, options=QUICK) as problem,
    ):
        (result,) = tune_all(
            [problem],
            TuningBudget(trials=100),
            NO_PEERS,
            records=database,
            progress=steps.append,
            is_cancelled=lambda: any(step.trials for step in steps),
        )
        assert isinstance(result, TuningResult)
        assert not result.is_complete
        assert database.all() == result.history
    assert not any(record.is_final for record in result.history)
    assert steps[-1].best_ms is not None


@pytest.mark.slow
def test_result_applies_to_the_pipeline_and_reloads(tmp_path: Path) -> None:
    pipeline = planted_failures.brighten()
    result = tune(pipeline, 2)
    result.apply(pipeline)
    result.save(tmp_path / "best.json")
    assert metol.load(tmp_path / "best.json").directives == result.schedule.directives
    assert "result" in result.label


def test_mode_that_does_not_exist_is_an_error(source: PipelineSource) -> None:
    with pytest.raises(TuningError, match="no mode `best`; there are greedy, beam, sample-32, tune"):
        autotune(source, mode="best")


def test_input_of_the_wrong_type_is_an_error(source: PipelineSource) -> None:
    with pytest.raises(GivenInputError, match="source"):
        autotune(source, inputs={"source": 3})


def test_an_input_that_is_too_small_is_an_error(source: PipelineSource) -> None:
    with pytest.raises(GivenInputError, match=r"in dimension 0, and outputs of .* give a larger one"):
        autotune(source, inputs={"source": np.zeros((3, 5), np.uint8)})


def test_records_that_cannot_be_written_are_an_error(source: PipelineSource, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is a folder"):
        autotune(source, records=tmp_path)


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("cuda", MissingDeviceError, "Schedules for CUDA cannot be run, for there is no GPU here"),
        ("opencl", MissingDeviceError, "Schedules for OpenCL cannot be run, for there is no OpenCL device here"),
        ("host", SearchError, "`grouping` makes kernels for a GPU"),
    ],
)
def test_what_cannot_be_measured_here_is_told_before_anything_is_spent(
    target: str, error: type[Exception], message: str, source: PipelineSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "detect_gpu", lambda: None)
    monkeypatch.setattr(verification, "has_opencl_device", lambda: False)
    with pytest.raises(error, match=message):
        Problem(source, target=target, options=SearchOptions(strategy="grouping"))
