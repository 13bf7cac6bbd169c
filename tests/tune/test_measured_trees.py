"""Trees whose next root the clock chooses: what they propose lies below what was fastest, until all is decided."""

from dataclasses import replace

import halide as hl
import pytest
from measured import record_of
from small_pipelines import chain, pyramid

from metol import _core
from metol.errors import TuningError
from metol.options import SearchOptions
from metol.planner import Planner
from metol.tune import TUNING_STRATEGIES, TuningSettings, settings_of_strategy, tuning_strategy
from metol.tune.measured_trees import MeasuredTrees
from metol.tune.proposals import Proposal
from metol.tune.residuals import Residuals
from metol.tune.standings import Standing, Standings

MODEL = _core.CostModel()
OPTIONS = SearchOptions(strategy="greedy", budget_seconds=None, trees=4, tree_iterations=8)


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(chain(), OPTIONS, threads=2)


def plant(planner: Planner, seed: int = 0, simulation: str = "random") -> MeasuredTrees:
    plan = replace(OPTIONS.monte_carlo, seed=seed, simulation=simulation)
    return MeasuredTrees(planner, [planner.form()], plan, 1.0)


def measure(batch: list[Proposal], standings: Standings) -> None:
    """Note run times in which the last proposal of a batch is the fastest, and faster than all before."""
    for proposal in batch:
        score_ms = 1000.0 / (1 + len(standings))
        standings.note_tried(proposal.text)
        standings.add(Standing(proposal, record_of(proposal, score_ms), score_ms))


@pytest.mark.parametrize("corrects", [False, True])
def test_batches_are_new_and_what_they_say_they_are(planner: Planner, corrects: bool) -> None:
    standings = Standings()
    plan = replace(OPTIONS.monte_carlo, simulation="random")
    residuals = Residuals(planner, standings) if corrects else None
    trees = MeasuredTrees(planner, [planner.form()], plan, 1.0, residuals)
    for share in (0.0, 0.2, 0.4):
        batch = trees.next_batch(4, share, standings, MODEL)
        assert len({proposal.text for proposal in batch}) == len(batch) == 4
        assert not {proposal.text for proposal in batch} & set(standings.tried)
        for proposal in batch:
            form, state = planner.state_of(proposal.nest)
            assert planner.schedule_of(form, state, proposal.nest) == proposal.schedule
            assert float(form.space.cost(state, MODEL)[0]) == pytest.approx(proposal.predicted_seconds)
        measure(batch, standings)


def test_roots_follow_the_fastest_however_slow_the_model_thinks_it() -> None:
    planner = Planner(pyramid(), OPTIONS, threads=2)
    trees, standings = plant(planner), Standings()
    depths = []
    for share in (0.0, 0.25, 0.5, 0.75):
        batch = trees.next_batch(4, share, standings, MODEL)
        depths.append(len(trees.made))
        if standings.best is not None:
            assert standings.best.proposal.nest.path[: depths[-1]] == trees.made
        measure(batch, standings)
    assert depths[0] == 0
    assert depths == sorted(depths)
    assert depths[-1] >= int(0.75 * planner.form().space.decision_count)


def test_simulations_repeat_the_fastest(planner: Planner) -> None:
    def changes(simulation: str) -> int:
        """Decisions, at least, in which what comes after one batch differs from the fastest in that."""
        trees, standings = plant(planner, simulation=simulation), Standings()
        measure(trees.next_batch(4, 0.0, standings, MODEL), standings)
        assert standings.best is not None
        fastest = standings.best.proposal.nest.path
        # All that can be proposed from here on, tried or not.
        batch = trees.next_batch(1000, 0.0, standings, MODEL)
        return min(
            sum(mine != theirs for mine, theirs in zip(proposal.nest.path, fastest, strict=True)) for proposal in batch
        )

    assert changes("repeat") < changes("random")


def test_trees_begin_again_where_all_is_decided(planner: Planner) -> None:
    trees, standings = plant(planner), Standings()
    measure(trees.next_batch(4, 0.0, standings, MODEL), standings)
    batch = trees.next_batch(4, 1.0, standings, MODEL)
    assert batch
    assert len(trees.made) == 0


def test_a_seed_tells_what_is_proposed(planner: Planner) -> None:
    first, again, other = (
        [proposal.text for proposal in plant(planner, seed).next_batch(4, 0.0, Standings(), MODEL)]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_pipeline_of_one_loop_nest_is_given_up() -> None:
    output = hl.Func("output")
    output[()] = 1
    single = Planner(hl.Pipeline(output), OPTIONS, threads=1)
    trees, standings = plant(single), Standings()
    for _ in range(5):
        batch = trees.next_batch(4, 0.0, standings, MODEL)
        measure(batch, standings)
    assert batch == []


def test_strategies_by_name() -> None:
    options, settings = settings_of_strategy("mcts+real", OPTIONS, TuningSettings())
    assert options == OPTIONS
    assert settings.tuner.trees == OPTIONS.monte_carlo
    options, settings = settings_of_strategy("mcts", OPTIONS, TuningSettings())
    assert options.strategy == "mcts"
    assert settings.tuner.trees is None
    with pytest.raises(TuningError, match="there are beam, greedy, random, mcts, batch, grouping, mcts\\+real"):
        settings_of_strategy("ants", OPTIONS, TuningSettings())
    assert "mcts+real" in TUNING_STRATEGIES


@pytest.mark.parametrize(
    ("strategy", "mode", "options", "target", "chosen"),
    [
        (None, "tune", SearchOptions(), None, "mcts+real"),
        (None, "tune", SearchOptions(beam_width=8), "host", "mcts+real"),
        ("beam", "tune", SearchOptions(), None, "beam"),
        (None, "tune", SearchOptions(strategy="greedy"), None, None),
        (None, "sample-32", SearchOptions(), None, None),
        (None, "2x8", SearchOptions(), None, None),
        (None, "tune", SearchOptions(), "host-opencl", None),
        ("mcts+real", "tune", SearchOptions(), "host-opencl", "mcts+real"),
    ],
)
def test_trees_are_the_default_where_nothing_else_is_named(
    strategy: str | None, mode: str, options: SearchOptions, target: str | None, chosen: str | None
) -> None:
    assert tuning_strategy(strategy, mode, options, target) == chosen
