"""Rounds of samples: each is drawn by a model that knows all rounds before, and measured whole before the next."""

from collections.abc import Sequence
from dataclasses import replace

import planted_failures
import pytest
from measured import record_of
from small_pipelines import SOME_TARGET, chain, some_machine
from some_weights import some_weights
from test_tuning_run import StandIn

from metol import SearchOptions, _core
from metol.errors import TuningError
from metol.planner import Planner
from metol.search import Batch
from metol.tune import (
    Problem,
    Record,
    RoundPlan,
    TunerOptions,
    TuningBudget,
    TuningResult,
    TuningSettings,
    mode_budget,
    settings_of_mode,
    settings_of_strategy,
    tune_all,
)
from metol.tune.proposals import Proposal
from metol.tune.rounds import Rounds

OPTIONS = SearchOptions(beam_width=4, passes=1, budget_seconds=None)
BATCH = Batch(6, 4, 1)


class Noting:
    """Fits nothing, and notes what it was shown."""

    def __init__(self) -> None:
        self.shown: list[int] = []

    def retrain(self, problem: Problem, measured: Sequence[Record]) -> _core.CostModel:
        self.shown.append(len(measured))
        return problem.planner.model


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(chain(), OPTIONS, target=f"{SOME_TARGET}-cuda", gpu="a100", threads=2)


def test_rounds_times_samples_are_read() -> None:
    plan = RoundPlan.parse("20x80")
    assert plan is not None
    # Anderson et al. 2021, §6: a beam of 32 with 5 passes, and 79 greedy searches.
    assert (plan.rounds, plan.batch, plan.trials) == (20, Batch(80, 32, 5), 1600)
    assert [RoundPlan.parse(text) for text in ("tune", "sample-32", "20x", "x", "20x80x2")] == [None] * 5
    with pytest.raises(TuningError, match="not `0x80`"):
        RoundPlan.parse("0x80")


def test_batches_of_a_round_are_new_and_the_model_is_fitted_between_rounds(planner: Planner) -> None:
    rounds = Rounds(planner, planner.form(), RoundPlan(3, BATCH), lambda: False)
    tried: set[str] = set()
    drawn: dict[int, list[Proposal]] = {}
    fits: list[int] = []

    def fit_model() -> _core.CostModel:
        fits.append(len(tried))
        return some_weights(planner.form().space, seed=len(fits), gain=0.5).model(planner.form().space)

    while batch := rounds.next_batch(2, tried, fit_model):
        assert 1 <= len(batch) <= 2
        assert not {proposal.text for proposal in batch} & tried
        tried |= {proposal.text for proposal in batch}
        drawn.setdefault(rounds.begun, []).extend(batch)
    assert set(drawn) == {1, 2, 3}
    assert all(2 < len(found) <= BATCH.searches for found in drawn.values())
    assert fits == [0, len(drawn[1]), len(drawn[1]) + len(drawn[2])]
    for found in drawn.values():
        costs = [proposal.predicted_seconds for proposal in found]
        assert costs == sorted(costs)


def test_no_round_is_begun_when_time_is_up(planner: Planner) -> None:
    rounds = Rounds(planner, planner.form(), RoundPlan(3, BATCH), lambda: True)
    assert rounds.next_batch(2, (), lambda: pytest.fail("nobody asks for a model")) == []


def test_a_mode_of_rounds_brings_its_strategy_and_its_budget() -> None:
    settings = TuningSettings(TunerOptions(retrainer=Noting()))
    options, tuning = settings_of_mode("3x5", OPTIONS, settings)
    assert (options.strategy, options.searches) == ("batch", 5)
    assert tuning.tuner.rounds == RoundPlan(3, replace(BATCH, searches=5))
    assert tuning.tuner.peers == ()
    assert mode_budget("3x5", None, 2) == TuningBudget(trials=30)
    assert mode_budget("3x5", "1h") == TuningBudget(3600.0, 15)
    assert settings_of_strategy("batch", options, tuning) == (options, tuning)
    with pytest.raises(TuningError, match="by the strategy `batch`, and not by `mcts`"):
        settings_of_strategy("mcts", options, tuning)
    with pytest.raises(TuningError, match=r"fitted anew after each round; .*FineTuner\(is_fresh=True\)"):
        settings_of_mode("3x5", OPTIONS, TuningSettings())


def test_tuning_in_rounds_fits_once_a_round_and_ends_with_a_final_race() -> None:
    bench, noting = StandIn(), Noting()
    options, settings = settings_of_mode("3x5", OPTIONS, TuningSettings(TunerOptions(batch=2, retrainer=noting)))
    settings = replace(settings, open_workbench=lambda *_: bench)
    with Problem(
        planted_failures.brighten(), options=options, target=SOME_TARGET, machine=some_machine(threads=1)
    ) as problem:
        (result,) = tune_all([problem], TuningBudget(trials=100), settings)
    assert isinstance(result, TuningResult)
    # What the search found comes first; then each round is measured whole before the model is fitted again.
    assert len(noting.shown) == 3
    assert noting.shown == sorted(noting.shown)
    assert noting.shown[-1] > noting.shown[0] > 0
    samples = [record for record in result.history if record.origin == "sample"]
    assert 3 <= len(samples) <= 15
    assert result.best.is_final
    assert len(bench.measured) == len({record_of_schedule(schedule) for schedule in bench.measured})


def record_of_schedule(schedule: object) -> str:
    return record_of(Proposal("sample", schedule), 1.0).schedule_digest
