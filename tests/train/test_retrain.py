"""Fine-tuning while tuning: what was measured is predicted better, as the core predicts it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from measured_programs import planner_of, program_of
from some_weights import some_weights

pytest.importorskip("torch")

from metol import _core
from metol.measure import Status
from metol.train import DrawPlan, FineTuner, draw_nests
from metol.train.table import table_of_nests

SLOWER = 3.0


def measured(count: int, gpu: str | None = None) -> tuple[SimpleNamespace, list[SimpleNamespace]]:
    """A problem, and records of its loop nests: all take so many times as long as the analytical model says."""
    planner = planner_of(program_of(0), gpu)
    drawn = draw_nests(planner, planner.search(), _core.CostModel(), DrawPlan(count), 0)
    records = []
    for one in drawn:
        form, state = planner.state_of(one.nest)
        ms = 1e3 * SLOWER * float(form.space.cost(state, _core.CostModel())[0])
        records.append(SimpleNamespace(status=Status.OK, nest=one.nest.to_json(), run_ms=ms))
    return SimpleNamespace(planner=planner, options=planner.options), records


def errors(problem: SimpleNamespace, records: list[SimpleNamespace], model: _core.CostModel) -> np.ndarray:
    """Of the logarithms of times, as the core predicts them."""
    found = []
    for record in records:
        form, state = problem.planner.state_of(_nest(record))
        found.append(np.log(1e3 * form.space.cost(state, model)[0] / record.run_ms))
    return np.array(found)


def _nest(record: SimpleNamespace) -> object:
    from metol.candidates import Nest

    return Nest.from_json(record.nest)


def test_what_was_measured_is_predicted_better() -> None:
    problem, records = measured(12)
    model = FineTuner().retrain(problem, records)
    before, after = errors(problem, records, problem.planner.model), errors(problem, records, model)
    np.testing.assert_allclose(before, -np.log(SLOWER), rtol=1e-6)
    assert np.abs(after).mean() < 0.5 * np.abs(before).mean()


def test_on_a_gpu_what_was_measured_is_predicted_better_too() -> None:
    problem, records = measured(12, "a100")
    model = FineTuner(is_fresh=True).retrain(problem, records)
    before, after = errors(problem, records, problem.planner.model), errors(problem, records, model)
    assert np.abs(after).mean() < 0.5 * np.abs(before).mean()


def test_a_fresh_fit_begins_at_nothing_whatever_weights_there_are(tmp_path: Path) -> None:
    problem, records = measured(12)
    file = tmp_path / "weights.npz"
    some_weights(problem.planner.form().space, gain=2.0).save(file)
    others = SimpleNamespace(planner=problem.planner, options=replace(problem.options, weights=str(file)))
    gains = [
        tuner.weights(each, records).members[0].gain_biases
        for tuner in (FineTuner(), FineTuner(is_fresh=True))
        for each in (problem, others)
    ]
    assert gains[0].tobytes() != gains[1].tobytes()
    np.testing.assert_array_equal(gains[2], gains[3])


def test_of_a_few_measurements_nothing_is_learned() -> None:
    problem, records = measured(3)
    assert FineTuner().retrain(problem, records) is problem.planner.model


def test_what_the_core_does_not_know_of_a_part_is_not_used() -> None:
    problem, records = measured(12)
    table = table_of_nests(problem.planner, {record.nest: record.run_ms for record in records})
    (member,) = FineTuner()._blank(table).members
    assert not member.schedule_weights[table.features.index("working_set_at_root")].any()


def test_decisions_of_another_release_are_left_out() -> None:
    problem, records = measured(3)
    seconds = {record.nest: 1.0 for record in records}
    table = table_of_nests(problem.planner, {**seconds, "{}": 1.0})
    assert table is not None
    assert len(table.seconds) == 3
    assert table_of_nests(problem.planner, {"{}": 1.0}) is None
