"""Collecting: a line for each program, in order, until the budget is spent; and what is of no use leaves a note."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from some_weights import some_weights

from metol.errors import MetolError, WeightsError
from metol.lower import Schedule
from metol.measure import Measurement, PipelineSource, RunOptions, Status, TogetherPlan
from metol.options import SearchOptions
from metol.planner import Planner
from metol.train import Collector, CollectPlan, DrawPlan, SampleFiles, collect, make_table
from metol.train.draw import ORIGINS
from metol.train.samples import sample_id
from metol.tune import TuningBudget

ANY_TIME = (0.0, 1e9)
PLAN = CollectPlan(
    most_funcs=4,
    sizes=(1,),
    run_ms=ANY_TIME,
    threads=1,
    timeout_seconds=60,
    draw=DrawPlan(4),
    timing=TogetherPlan(rounds=1, round_seconds=0.005),
)
ONE = TuningBudget(trials=1)


def program(seed: int, size: int = 1) -> str:
    return f"random:{seed}/least_funcs=3/most_funcs=4/size={size}"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PipelineSource, RunOptions, TogetherPlan]]:
    """Measure nothing: the second of the schedules hangs, and the others take a millisecond; what was asked for."""
    asked: list[tuple[PipelineSource, RunOptions, TogetherPlan]] = []

    def measure(
        source: PipelineSource, schedules: Sequence[Schedule], options: RunOptions, plan: TogetherPlan
    ) -> tuple[Measurement, ...]:
        asked.append((source, options, plan))
        row = Measurement(source.label, "#", run_ms=1.0, run_ms_samples=(1.1, 1.0), compile_seconds=0.12345)
        late = Measurement(source.label, "#").with_failure(Status.TIMEOUT, "over 60 s: " + "." * 1000)
        return tuple(late if number == 1 else row for number in range(len(schedules)))

    monkeypatch.setattr("metol.train.collect.measure_together", measure)
    return asked


@pytest.fixture
def files(tmp_path: Path) -> SampleFiles:
    return SampleFiles(tmp_path / "samples")


def collected(files: SampleFiles, plan: CollectPlan = PLAN, budget: TuningBudget = ONE, **more: object) -> list[str]:
    return [one.program for one in Collector(files, plan).run(budget, **more)]


def test_a_program_becomes_a_line_with_all_its_samples(stand_in: list, files: SampleFiles) -> None:
    assert collected(files) == [program(0)]
    (one,) = files.load()
    assert (one.program, one.threads, one.generation, one.has_fixed_sizes, one.note) == (program(0), 1, 0, True, "")
    assert one.versions["metol"]
    assert one.versions["halide"]
    assert one.machine
    assert len(one.samples) == 4
    for sample in one.samples:
        assert sample.origin in ORIGINS
        assert sample.id == sample_id(one.algorithm, one.target, sample.nest)
    ran = one.samples[0]
    assert (ran.status, ran.rounds_ms, ran.compile_seconds, ran.detail) == (Status.OK, (1.1, 1.0), 0.123, "")
    late = one.samples[1]
    assert (late.status, late.run_ms, late.rounds_ms) == (Status.TIMEOUT, None, ())
    assert late.detail.startswith("over 60 s")
    assert len(late.detail) <= 200


def test_samples_are_measured_as_the_plan_says(stand_in: list, files: SampleFiles) -> None:
    collected(files, replace(PLAN, first_seed=3))
    ((source, options, timing),) = stand_in
    assert str(source) == program(3)
    assert (options.threads, options.timeout_seconds, options.seed) == (1, 60, 3)
    assert timing == PLAN.timing


def test_sizes_take_turns(stand_in: list, files: SampleFiles) -> None:
    plan = replace(PLAN, sizes=(1, 2, 4), first_seed=4)
    assert collected(files, plan, TuningBudget(trials=3)) == [program(4, 2), program(5, 4), program(6, 1)]


def test_a_second_run_goes_on_with_the_next_program(stand_in: list, files: SampleFiles) -> None:
    assert collected(files) == [program(0)]
    assert collected(files, budget=TuningBudget(trials=2)) == [program(1), program(2)]
    assert len(stand_in) == 3
    assert [one.program for one in files.load()] == [program(0), program(1), program(2)]


def test_another_generation_measures_the_same_programs_again(stand_in: list, files: SampleFiles) -> None:
    collected(files)
    assert collected(files, replace(PLAN, generation=1)) == [program(0)]
    assert [one.generation for one in files.load()] == [0, 1]


def test_weights_guide_the_draws(stand_in: list, files: SampleFiles, tmp_path: Path) -> None:
    space = Planner(PipelineSource.parse(program(0)).build(), SearchOptions()).form().space
    some_weights(space, gain=1.0).save(tmp_path / "weights.npz")
    plan = replace(PLAN, weights=str(tmp_path / "weights.npz"), generation=1)
    collected(files)
    collected(files, plan)
    by_analytical, by_weights = ({sample.id for sample in one.samples} for one in files.load())
    assert by_analytical != by_weights


def test_weights_that_cannot_be_read_end_it_at_once(stand_in: list, files: SampleFiles, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"missing\.npz"):
        collected(files, replace(PLAN, weights=str(tmp_path / "missing.npz")))
    assert files.programs() == frozenset()


def test_each_program_is_there_before_the_next_begins(stand_in: list, files: SampleFiles) -> None:
    for number, _ in enumerate(Collector(files, PLAN).run(TuningBudget(trials=2))):
        assert len(files.load()) == number + 1


@pytest.mark.parametrize("run_ms", [(1e8, 1e9), (0.0, 1e-9)])
def test_a_program_predicted_too_quick_or_too_slow_leaves_a_note(
    run_ms: tuple[float, float], stand_in: list, files: SampleFiles
) -> None:
    plan = replace(PLAN, run_ms=run_ms)
    two = list(itertools.islice(Collector(files, plan).run(ONE), 2))
    assert [one.program for one in two] == [program(0), program(1)]
    for one in two:
        assert one.samples == ()
        assert one.note.startswith("predicted to take ")
    assert stand_in == []
    assert files.programs() == {(program(0), 0), (program(1), 0)}


def test_programs_of_no_use_do_not_count(stand_in: list, files: SampleFiles) -> None:
    names = [program(0), program(1), program(2)]
    seconds = [_predicted_seconds(name) for name in names]
    slowest = seconds.index(max(seconds))
    plan = replace(PLAN, run_ms=(2 * 0.99e3 * seconds[slowest], 1e9))
    assert collected(files, plan) == names[: slowest + 1]
    assert [bool(one.samples) for one in files.load()] == [False] * slowest + [True]


def _predicted_seconds(name: str) -> float:
    from metol.train.collect import _SEARCH

    options = replace(_SEARCH, weights="analytical")
    found = Planner(PipelineSource.parse(name).build(), options, threads=1).search()
    assert found.result is not None
    return found.result.cost_seconds


def test_what_cannot_be_measured_leaves_its_reason(
    stand_in: list, files: SampleFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> tuple[Measurement, ...]:
        raise MetolError("The reference fails. " + "." * 1000)

    monkeypatch.setattr("metol.train.collect.measure_together", fail)
    (one,) = itertools.islice(Collector(files, PLAN).run(ONE), 1)
    assert one.samples == ()
    assert one.note.startswith("The reference fails.")
    assert len(one.note) <= 200


def test_named_sources_are_measured_in_place_of_random_ones_however_long_they_take(
    stand_in: list, files: SampleFiles
) -> None:
    sources = [PipelineSource.parse(text) for text in ("app:blur", program(7))]
    plan = replace(PLAN, run_ms=(1e8, 1e9))
    assert collected(files, plan, TuningBudget(trials=9), sources=sources) == ["app:blur", program(7)]
    assert all(one.samples for one in files.load())
    assert collected(files, plan, TuningBudget(trials=9), sources=sources) == []


def test_who_is_cancelled_or_late_ends_between_programs(stand_in: list, files: SampleFiles) -> None:
    asked = iter([False, False, True])
    assert len(collected(files, budget=TuningBudget(trials=9), is_cancelled=lambda: next(asked))) == 2
    assert collected(files, budget=TuningBudget(seconds=1e-9)) == []


def test_the_samples_of_a_seed_are_always_the_same(
    stand_in: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "_SEARCH", replace(collect._SEARCH, budget_seconds=None))
    folders = [SampleFiles(tmp_path / name) for name in ("one", "other")]
    for each in folders:
        collected(each)
    one, other = (each.load()[0] for each in folders)
    assert one.samples == other.samples


@pytest.mark.slow
def test_real_measurements_become_samples_that_load_and_can_be_learned_from(files: SampleFiles) -> None:
    plan = replace(PLAN, draw=DrawPlan(5))
    assert collected(files, plan) == [program(0)]
    (one,) = files.load()
    ran = [sample for sample in one.samples if sample.status is Status.OK]
    assert len(ran) >= 4, [sample.detail for sample in one.samples]
    assert all(len(sample.rounds_ms) == 1 and sample.run_ms > 0 for sample in ran)
    table = make_table([one])
    assert table.programs == (program(0),)
    assert len(table.seconds) == len(ran)
