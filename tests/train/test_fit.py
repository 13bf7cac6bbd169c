"""Fits to times that were invented by a rule that a network can learn: they learn it, and all that predict agree."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from measured_programs import planner_of, program_of, sampled

from metol.cost import Member, Weights
from metol.errors import MetolError, WeightsError
from metol.train import FeatureTable, evaluate_weights, make_table, score_models, summary_of
from metol.train.predict import predict, spread
from metol.train.scores import score
from metol.train.split import Split

torch = pytest.importorskip("torch")

from metol.train.fit import FIRST_SHARE, FitOptions, Fitted, _shape, find_scaling, find_units, fit, make_batch  # noqa: E402
from metol.train.network import CoefficientNetwork, deviation_of, predict_seconds  # noqa: E402

SEEDS = tuple(range(12))
SPLIT = Split(tuple(range(8)), (8, 9), (10, 11))
BRIEF = FitOptions(deviation_price=2.0, members=1, epochs=30, patience=30, learning_rate=0.01)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads that wait for each other on a busy machine take a hundred times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def slower_by_its_rows(table: FeatureTable) -> FeatureTable:
    """A table whose times are the analytical ones times a factor that grows with the points of its rows."""
    column = np.log1p(table.rows[:, table.features.index("points_computed_total")])
    factor = np.exp(0.15 * (column - column.mean()))
    seconds = np.zeros(len(table.seconds))
    np.add.at(seconds, table.sample_of_row, table.analytical.sum(axis=1) * factor)
    return replace(table, seconds=2.5 * seconds)


@pytest.fixture(scope="module")
def table() -> FeatureTable:
    return slower_by_its_rows(make_table(sampled(program_of(seed), 8) for seed in SEEDS))


@pytest.fixture(scope="module")
def fitted(table: FeatureTable) -> Fitted:
    return fit(table, SPLIT, BRIEF)


def assert_same(one: Weights, other: Weights) -> None:
    for ours, theirs in zip(one.members, other.members, strict=True):
        for each in fields(Member):
            np.testing.assert_array_equal(getattr(ours, each.name), getattr(theirs, each.name))
    np.testing.assert_array_equal(one.units, other.units)


@pytest.mark.slow
def test_the_loss_falls(table: FeatureTable) -> None:
    (history,) = fit(table, SPLIT, replace(BRIEF, constant_steps=0)).history
    first, last = history[0], history[-1]
    assert last[0] < 0.5 * first[0]
    assert min(score for _, score in history) < 0.5 * first[1]


@pytest.mark.slow
def test_constant_gains_are_learned_first(table: FeatureTable) -> None:
    brief = replace(BRIEF, epochs=1)
    ((first,),) = fit(table, SPLIT, brief).history
    ((without,),) = fit(table, SPLIT, replace(brief, constant_steps=0)).history
    assert first[1] < 0.7 * without[1]


@pytest.mark.slow
def test_what_features_add_to_constant_gains_has_its_price(table: FeatureTable) -> None:
    batch = make_batch(table, find_units(table, "residual"))
    deviations = []
    for price in (0.0, FitOptions().deviation_price):
        weights = fit(table, SPLIT, replace(BRIEF, deviation_price=price)).weights
        network = CoefficientNetwork.of(weights.members[0])
        z = network(batch.features, batch.operations)
        deviations.append(float(deviation_of(z, network, batch).detach()))
    assert deviations[1] < 0.1 * deviations[0]


def test_the_fit_predicts_better_than_the_analytical_model(fitted: Fitted, table: FeatureTable) -> None:
    judged = table.select(SPLIT.held_out)
    rest = judged.seconds, judged.program_of_sample, judged.programs
    ours, theirs = (score(seconds, *rest) for seconds in (predict(fitted.weights, judged), judged.analytical_seconds))
    assert ours.r2 > theirs.r2
    errors = [
        np.abs(np.log(seconds / judged.seconds)).mean()
        for seconds in (predict(fitted.weights, judged), judged.analytical_seconds)
    ]
    assert errors[0] < 0.5 * errors[1]


def test_what_is_kept_is_what_was_best_on_what_stops_early(table: FeatureTable) -> None:
    options = replace(BRIEF, epochs=20, patience=3, learning_rate=0.3)
    (history,) = fit(table, SPLIT, options).history
    scores = [score for _, score in history]
    assert len(history) <= 20
    assert len(history) - 1 - int(np.argmin(scores)) <= 3


@pytest.mark.slow
def test_a_seed_gives_the_same_weights(table: FeatureTable) -> None:
    options = replace(BRIEF, epochs=3, members=2)
    assert_same(fit(table, SPLIT, options).weights, fit(table, SPLIT, options).weights)
    one, other = fit(table, SPLIT, options).weights.members
    assert not np.array_equal(one.gain_biases, other.gain_biases)
    (again,) = fit(table, SPLIT, replace(options, members=1, seed=1)).weights.members
    np.testing.assert_array_equal(again.gain_biases, other.gain_biases)


@pytest.mark.parametrize(("training", "stopping", "message"), [((), (0,), "fit to"), ((0, 1), (), "stop by")])
def test_too_few_programs_are_an_error_that_says_what_is_missing(
    training: tuple[int, ...], stopping: tuple[int, ...], message: str, table: FeatureTable
) -> None:
    with pytest.raises(MetolError, match=rf"too few.*left to {message}.*`metol train generate --resume`"):
        fit(table, Split(training, stopping, ()), BRIEF)


def test_a_mode_that_there_is_not_is_an_error() -> None:
    with pytest.raises(MetolError, match="no mode `trees`; there are residual, network"):
        FitOptions("trees")


@pytest.mark.parametrize("mode", ["residual", "network"])
@pytest.mark.parametrize("members", [1, 3])
def test_numpy_and_the_core_agree(members: int, mode: str, table: FeatureTable) -> None:
    weights = fit(table, SPLIT, replace(BRIEF, mode=mode, members=members, epochs=6)).weights
    predicted = predict(weights, table)
    for number in (0, 5, 11):
        planner = planner_of(table.programs[number])
        samples = sampled(table.programs[number], 8).samples
        expected = []
        for sample in samples:
            form, state = planner.state_of(sample.to_nest())
            expected.append(float(form.space.cost(state, weights.model(form.space))[0]))
        np.testing.assert_allclose(predicted[table.program_of_sample == number], expected, rtol=1e-5)
    assert not np.allclose(predicted, table.analytical_seconds, rtol=1e-2)


@pytest.mark.parametrize("mode", ["residual", "network"])
def test_pytorch_and_numpy_agree(mode: str, table: FeatureTable) -> None:
    units = find_units(table, mode)
    torch.manual_seed(1)
    network = CoefficientNetwork(_shape(table, BRIEF), *find_scaling(table))
    # Away from where nothing is corrected.
    torch.nn.init.normal_(network.gains.weight, std=0.3)
    torch.nn.init.normal_(network.gains.bias, std=0.3)
    weights = fit(table, SPLIT, replace(BRIEF, mode=mode, epochs=1)).weights
    weights = replace(weights, members=(network.export(),), units=units)
    with torch.no_grad():
        found = predict_seconds(network, make_batch(table, units)).numpy()
    np.testing.assert_allclose(found, predict(weights, table), rtol=1e-5)


def test_a_fresh_network_corrects_next_to_nothing(table: FeatureTable) -> None:
    weights = fit(table, SPLIT, replace(BRIEF, epochs=1, learning_rate=1e-12, constant_steps=0)).weights
    ratio = predict(weights, table) / table.analytical_seconds
    # Terms that the analytical model does not know have a share of the time from the beginning.
    assert np.median(np.abs(np.log(ratio))) < 0.1


def test_terms_that_the_analytical_model_knows_have_no_unit(table: FeatureTable) -> None:
    is_known = table.analytical.any(axis=0)
    assert is_known.any()
    units = find_units(table, "residual")
    assert (units[is_known] == 0).all()
    assert (find_units(table, "network")[is_known] > 0).all()
    assert (find_units(table, "network")[~table.values.any(axis=0)] == 0).all()


def test_a_term_that_the_analytical_model_does_not_know_comes_alive(table: FeatureTable) -> None:
    units = find_units(table, "residual")
    totals = np.zeros((len(table.seconds), len(units)))
    np.add.at(totals, table.sample_of_row, table.values.astype(np.float64))
    ratios = totals / table.analytical_seconds[:, None]
    # One that all samples have, and that is least like the rest of their time.
    usable = [term for term in np.flatnonzero(units) if (totals[:, term] > 0).all()]
    unknown = max(usable, key=lambda term: np.log(ratios[:, term]).std())
    dear = replace(table, seconds=table.analytical_seconds * (1 + ratios[:, unknown] / np.median(ratios[:, unknown])))
    (member,) = fit(dear, SPLIT, BRIEF).weights.members
    assert member.gain_biases[unknown] > 10 * FIRST_SHARE


def test_networks_of_an_ensemble_differ_in_what_they_predict(table: FeatureTable) -> None:
    weights = fit(table, SPLIT, replace(BRIEF, members=3, epochs=4)).weights
    assert (spread(weights, table) > 0).all()
    np.testing.assert_array_equal(spread(replace(weights, members=weights.members[:1]), table), 0)


def test_a_feature_of_the_whole_program_is_not_used(fitted: Fitted) -> None:
    (member,) = fitted.weights.members
    column = fitted.weights.features.index("working_set_at_root")
    assert not member.schedule_weights[column].any()
    assert member.schedule_weights.any(axis=1).sum() > 10


def test_a_fit_tells_how_it_goes(table: FeatureTable) -> None:
    told: list[str] = []
    fit(table, SPLIT, replace(BRIEF, members=2, epochs=2), told.append)
    assert [line.split(":")[0] for line in told] == ["network 1 of 2", "network 2 of 2"]


def test_models_are_judged_by_what_was_held_out(table: FeatureTable) -> None:
    # A hash whose number is a multiple of 20 is held out, as is the next; then three stop early.
    named = replace(table, algorithms=tuple(f"{20 * n + n % 12 // 2:016x}" for n in range(12)))
    result = score_models(named, FitOptions(members=1, epochs=2))
    assert set(result.predicted) == {"analytical", "analytical and network"}
    assert result.judged.programs == table.programs[:4]
    assert set(result.notes()["analytical"]) == {"programs", "r2", "rank_correlation", "regret"}
    again = evaluate_weights(result.weights, named, only_held_out=True)
    assert again.notes() == result.notes()
    assert len(evaluate_weights(result.weights, named).judged.programs) == 12


def test_programs_to_judge_by_may_be_named(table: FeatureTable) -> None:
    named = replace(table, algorithms=tuple(f"{20 * n + n % 12 // 2:016x}" for n in range(12)))
    result = score_models(named, FitOptions(members=1, epochs=2), held_out=table.programs[3:5])
    assert result.judged.programs == table.programs[3:5]
    with pytest.raises(MetolError, match="There are no samples of app:blur"):
        score_models(named, FitOptions(members=1, epochs=2), held_out=["app:blur"])


@pytest.mark.slow
def test_what_the_model_could_have_been_is_judged_too(table: FeatureTable, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    named = replace(table, algorithms=tuple(f"{20 * n + n % 12 // 2:016x}" for n in range(12)))
    with pytest.importorskip("threadpoolctl").threadpool_limits(1):
        result = score_models(named, FitOptions(members=1, epochs=2), compare=True)
    assert set(result.scores) == {"analytical", "analytical and network", "network alone", "analytical and trees"}
    for file in result.save_plots(tmp_path / "plots"):
        assert file.read_bytes().startswith(b"\x89PNG")


def test_where_nothing_is_held_out_is_an_error(table: FeatureTable, fitted: Fitted) -> None:
    seen = replace(table, algorithms=("000000000000000f",) * 12)
    with pytest.raises(MetolError, match="none of them is held out"):
        score_models(seen, FitOptions(members=1, epochs=1))
    with pytest.raises(MetolError, match="None of these programs is held out"):
        evaluate_weights(fitted.weights, seen, only_held_out=True)


def test_weights_about_other_features_are_not_judged(table: FeatureTable, fitted: Fitted) -> None:
    odd = replace(fitted.weights, features=fitted.weights.features[::-1])
    with pytest.raises(WeightsError, match="other features"):
        evaluate_weights(odd, table)


def test_weights_tell_what_they_were_fitted_to(table: FeatureTable) -> None:
    programs = [sampled(program_of(seed), 8) for seed in SEEDS]
    assert summary_of([*programs, replace(programs[0], samples=())], table) == {
        "programs": 12,
        "samples": 96,
        "machines": ["some"],
        "targets": [programs[0].target],
        "threads": [2],
        "generations": [0],
    }
