"""Programs judged by fits that have not seen them, on a GPU whose times were invented."""

from dataclasses import replace

import numpy as np
import pytest
from measured_programs import planner_of, program_of, sampled

from metol.targets.gpu import GpuMachine
from metol.train import FeatureTable, make_table
from metol.train.scores import score
from metol.train.split import split_without

torch = pytest.importorskip("torch")

from metol.train.fit import FitOptions  # noqa: E402
from metol.train.hold_one_out import HeldOut, HoldOneOut, fit_all, hold_one_out  # noqa: E402
from metol.train.predict import predict  # noqa: E402

BRIEF = FitOptions(members=1, epochs=3, constant_steps=200)
NAMES = tuple(program_of(seed, 6) for seed in range(10))
DEAR = "shared_turns", "sectors"


@pytest.fixture(scope="module")
def table() -> FeatureTable:
    """On this GPU traffic takes ten times as long as its data sheet lets the analytical model believe."""
    machine = GpuMachine.preset("h100", threads=2)
    made = make_table((sampled(name, 8, gpu="h100") for name in NAMES), lambda _: machine)
    factor = np.array([10.0 if term in DEAR else 1.0 for term in made.terms])
    seconds = np.zeros(len(made.seconds))
    np.add.at(seconds, made.sample_of_row, made.analytical @ factor)
    return replace(made, seconds=seconds)


@pytest.fixture(scope="module")
def judged(table: FeatureTable) -> HoldOneOut:
    return hold_one_out(table, BRIEF, NAMES[:4])


@pytest.mark.slow
def test_fits_predict_programs_that_they_have_not_seen_better_than_the_analytical_model(judged: HoldOneOut) -> None:
    assert [one.program for one in judged.programs] == list(NAMES[:4])
    assert judged.trained.r2 > judged.analytical.r2
    errors = [
        np.mean([np.abs(np.log(getattr(one, model) / one.measured)).mean() for one in judged.programs])
        for model in ("analytical", "trained")
    ]
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize(
    ("trained", "is_better"),
    [
        ([1, 2, 3, 4, 5, 6], True),
        ([1, 3, 2, 4, 6, 5], True),
        ([2, 1, 3, 4, 5, 6], False),  # the order is better, but its best is not
        ([6, 5, 4, 3, 2, 1], False),
    ],
)
def test_better_is_a_better_order_and_no_worse_choice(trained: list[float], is_better: bool) -> None:
    measured, analytical = np.arange(1.0, 7.0), np.array([1.0, 4, 3, 2, 6, 5])
    held_out = HeldOut("app:blur", measured, analytical, np.array(trained, dtype=float))
    assert HoldOneOut((held_out,)).is_better == is_better


@pytest.mark.slow
def test_what_is_held_out_changes_nothing_about_its_prediction(table: FeatureTable, judged: HoldOneOut) -> None:
    shifted = table.seconds.copy()
    shifted[table.program_of_sample == 0] *= np.linspace(1, 9, int((table.program_of_sample == 0).sum()))
    (again,) = hold_one_out(replace(table, seconds=shifted), BRIEF, NAMES[:1]).programs
    np.testing.assert_array_equal(again.trained, judged.programs[0].trained)
    assert not np.array_equal(again.measured, judged.programs[0].measured)


@pytest.mark.slow
def test_scores_are_those_of_the_predictions(table: FeatureTable, judged: HoldOneOut) -> None:
    one = judged.programs[0]
    own = table.select([0])
    np.testing.assert_array_equal(one.measured, own.seconds)
    np.testing.assert_array_equal(one.analytical, own.analytical_seconds)
    plain, ours = one.scores()
    assert plain == score(own.analytical_seconds, own.seconds, own.program_of_sample, own.programs)
    notes = judged.notes()
    assert notes["analytical"]["programs"] == notes["analytical and network"]["programs"] == 4
    assert notes["held_out"][NAMES[0]][1]["regret"] == round(ours.regret, 4)
    shown = judged.table()
    assert [row[0] for row in shown.rows] == list(NAMES[:4])
    assert shown.rows[0][1:3] == (str(len(own.seconds)), f"{plain.r2:.3f}")
    assert shown.summary[0][0] == "all"


def test_programs_that_tell_no_order_or_are_not_there_are_passed_over(table: FeatureTable) -> None:
    few = np.flatnonzero((table.program_of_sample != 1) | (np.cumsum(table.program_of_sample == 1) <= 4))
    rows = np.isin(table.sample_of_row, few)
    place = np.full(len(table.seconds), -1)
    place[few] = np.arange(len(few))
    short = replace(
        table,
        rows=table.rows[rows],
        operations=table.operations[rows],
        analytical=table.analytical[rows],
        values=table.values[rows],
        sample_of_row=place[table.sample_of_row[rows]],
        program_of_sample=table.program_of_sample[few],
        seconds=table.seconds[few],
    )
    assert hold_one_out(short, BRIEF, [NAMES[1], "app:blur"]).programs == ()


def test_time_that_is_up_leaves_out_what_is_not_done(table: FeatureTable) -> None:
    told: list[str] = []
    judged = hold_one_out(table, BRIEF, NAMES[:3], tell=told.append, is_over=lambda: len(told) >= 1)
    assert [one.program for one in judged.programs] == list(NAMES[:1])
    nothing = hold_one_out(table, BRIEF, NAMES[:3], is_over=lambda: True)
    assert nothing.programs == ()
    assert not nothing.is_better
    assert nothing.notes()["held_out"] == {}
    assert nothing.table().rows == ()


@pytest.mark.exhaustive
def test_several_processes_fit_what_one_does(table: FeatureTable, judged: HoldOneOut) -> None:
    found = hold_one_out(table, BRIEF, NAMES[:2], workers=2)
    for one, other in zip(found.programs, judged.programs[:2], strict=True):
        np.testing.assert_array_equal(one.trained, other.trained)


def test_weights_are_fitted_to_all_programs(table: FeatureTable) -> None:
    weights = fit_all(table, BRIEF)
    assert weights.features == table.features
    errors = [np.abs(np.log(seconds / table.seconds)).mean() for seconds in (predict(weights, table), table.seconds)]
    assert errors[0] < np.abs(np.log(table.analytical_seconds / table.seconds)).mean()


def test_the_core_predicts_what_was_fitted_on_a_gpu(table: FeatureTable) -> None:
    weights = fit_all(table, BRIEF)
    assert (weights.units > 0).any(), "terms of Anderson 2021 that the analytical model does not know"
    predicted = predict(weights, table)
    for number in (0, 7):
        planner = planner_of(NAMES[number], "h100")
        expected = []
        for sample in sampled(NAMES[number], 8, gpu="h100").samples:
            form, state = planner.state_of(sample.to_nest())
            expected.append(float(form.space.cost(state, weights.model(form.space))[0]))
        np.testing.assert_allclose(predicted[table.program_of_sample == number], expected, rtol=1e-5)


@pytest.mark.parametrize("count", [2, 5, 12, 40])
def test_few_programs_are_split_all_the_same(count: int) -> None:
    # By their hashes, none of them would stop a fit early.
    names, hashes = [str(n) for n in range(count)], [f"{20 * n + 7:016x}" for n in range(count)]
    split = split_without(names, hashes, ("0",) if count > 2 else ())
    assert split.held_out == ((0,) if count > 2 else ())
    assert split.training
    assert split.stopping
    assert sorted(split.training + split.stopping + split.held_out) == list(range(count))
    assert len(split.stopping) <= max(1, count // 5)
