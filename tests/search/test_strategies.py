"""What every search strategy must do: the same checks for all."""

import time
from dataclasses import replace

import numpy as np
import pytest
from slow_cases import slow_but
from small_pipelines import PIPELINES, WIDE_TARGET, make_space, some_machine

from metol import _core
from metol.errors import SearchError
from metol.options import SearchOptions
from metol.pipeline import extract
from metol.search import (
    Annealed,
    Batch,
    BeamSearch,
    Budget,
    Discrepancies,
    Frozen,
    MonteCarlo,
    RandomSearch,
    Restarts,
    Sampled,
    SearchResult,
    Strategy,
)
from metol.targets.cpu import cpu_parameters

STRATEGIES: dict[str, Strategy] = {
    "beam": BeamSearch(width=8, passes=3),
    "greedy": BeamSearch(width=1),
    "beam with dropout": BeamSearch(width=8, passes=3, dropout=0.3, seed=7),
    "random": RandomSearch(samples=50, seed=3),
    "refined random": SearchOptions(strategy="random").make(),
    "refined beam": SearchOptions(beam_width=4, passes=2).make(),
    "refined greedy": SearchOptions(strategy="greedy").make(),
    "sampled beam": Sampled(BeamSearch(width=8, passes=3), depth=2, seed=3),
    "discrepancies of greedy": Discrepancies(BeamSearch(width=1)),
    "restarts after greedy": Restarts(BeamSearch(width=1), patience=2, most=3, width=2),
    "restarts and discrepancies": Restarts(BeamSearch(width=1), Discrepancies, patience=2, most=3, width=2),
    "annealed greedy": Annealed(BeamSearch(width=1), sweeps=8),
    "Monte Carlo": MonteCarlo(trees=3, iterations=6),
    "Monte Carlo as in the paper": MonteCarlo(
        trees=3, iterations=6, guidance="time", widening=1, widening_power=1, shares_equal=False
    ),
    "greedy Monte Carlo": MonteCarlo(trees=2, greedy_trees=2, iterations=2),
    "frozen beam": Frozen(BeamSearch(width=8, passes=3)),
    "sampled beam, deeper with each pass": Sampled(BeamSearch(width=8, passes=3), depth=None, seed=3),
    "beam with penalties of what proved bad": BeamSearch(width=8, passes=3, bad_penalty=10, scouts=False),
    "batch": Batch(searches=6, width=4, passes=3),
    "batch without filters": Batch(searches=3, width=4, passes=2, sampling=False, freezing=False, seed=5),
}
SAMPLE = ("pyramid", "convolution", "two_outputs", "no_dimension")
MODEL = _core.CostModel()
GREEDY = BeamSearch(width=1)


@pytest.fixture(params=STRATEGIES, scope="module")
def strategy(request: pytest.FixtureRequest) -> Strategy:
    return STRATEGIES[request.param]


def space_of(name: str, threads: int = 1) -> _core.Space:
    return make_space(extract(PIPELINES[name]()), threads=threads)


def path_of(space: _core.Space, result: SearchResult) -> list[tuple[int, ...]]:
    return space.path(result.state)


@pytest.mark.parametrize("name", SAMPLE)
def test_result_is_a_complete_loop_nest_of_its_cost(strategy: Strategy, name: str) -> None:
    space = space_of(name)
    found = strategy.search(space, MODEL, Budget.start())
    assert found.is_complete
    assert found.state.decisions_made.tolist() == [space.decision_count]
    assert found.cost_seconds == space.cost(found.state, _core.CostModel(1))[0]
    # What is drawn at random is costed when it is complete.
    is_random = any(name in repr(strategy) for name in ("Random", "MonteCarlo"))
    assert found.candidates >= (1 if is_random else space.decision_count)
    assert all(
        s.placement != _core.Placement.UNSCHEDULED for s in found.state.describe() if s.func in space.decision_funcs
    )


@pytest.mark.parametrize("name", slow_but(SAMPLE[:1], SAMPLE[:2]))
def test_result_does_not_depend_on_threads(strategy: Strategy, name: str) -> None:
    paths = []
    for threads in (1, 4):
        space = space_of(name, threads)
        paths.append(path_of(space, strategy.search(space, MODEL, Budget.start())))
    assert paths[0] == paths[1]


def test_result_does_not_depend_on_what_is_remembered(strategy: Strategy) -> None:
    space = space_of("pyramid")
    first, again = (path_of(space, strategy.search(space, MODEL, Budget.start())) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("budget", [Budget.start(0.0), Budget(is_cancelled=lambda: True)], ids=["time", "cancel"])
def test_a_spent_budget_still_gives_an_answer(strategy: Strategy, budget: Budget) -> None:
    space = space_of("pyramid")
    found = strategy.search(space, MODEL, budget)
    assert not found.is_complete
    assert found.state.decisions_made.tolist() == [space.decision_count]
    # One greedy descent of a few dozen children each, not the whole search.
    assert (
        found.candidates < strategy.search(space, MODEL, Budget.start()).candidates or strategy == STRATEGIES["greedy"]
    )


def test_cancelling_midway_ends_the_search(strategy: Strategy) -> None:
    space = space_of("pyramid")
    asked: list[int] = []

    def is_cancelled() -> bool:
        asked.append(1)
        return len(asked) > 5

    found = strategy.search(space, MODEL, Budget.start(is_cancelled=is_cancelled))
    assert not found.is_complete
    assert found.state.decisions_made.tolist() == [space.decision_count]


def test_result_is_better_than_chance(strategy: Strategy) -> None:
    space = space_of("convolution")
    leaves = space.rollout(space.root(), range(101))
    found = strategy.search(space, MODEL, Budget.start())
    assert found.cost_seconds < np.median(space.cost(leaves, MODEL))


def test_restricted_space_is_respected(strategy: Strategy) -> None:
    options = _core.SpaceOptions()
    options.allow_compute_at = False
    space = space_of("pyramid").restrict(options)
    found = strategy.search(space, MODEL, Budget.start())
    assert all(s.placement != _core.Placement.AT for s in found.state.describe())


def test_refinement_never_makes_it_worse() -> None:
    for name in SAMPLE:
        space = space_of(name)
        greedy = BeamSearch(width=1).search(space, MODEL, Budget.start())
        refined = SearchOptions(strategy="greedy").make().search(space, MODEL, Budget.start())
        assert refined.cost_seconds <= greedy.cost_seconds


def test_dropout_with_another_seed_looks_elsewhere() -> None:
    space = space_of("convolution")
    results = [
        BeamSearch(width=2, passes=1, dropout=0.5, seed=seed).search(space, MODEL, Budget.start()) for seed in range(6)
    ]
    assert len({tuple(path_of(space, result)) for result in results}) > 1


@pytest.mark.parametrize("bad", [{"width": 0}, {"passes": 0}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_bad_options_raise(bad: dict[str, float]) -> None:
    with pytest.raises(SearchError):
        BeamSearch(**bad)


def test_alternatives_are_other_complete_loop_nests(strategy: Strategy) -> None:
    space = space_of("pyramid")
    found = strategy.search(space, MODEL, Budget.start())
    states = (found.state, *found.alternatives)
    assert len({int(space.identity_hash(state)[0]) for state in states}) == len(states)
    assert all(state.decisions_made.tolist() == [space.decision_count] for state in found.alternatives)
    assert all(space.cost(state, MODEL)[0] >= found.cost_seconds for state in found.alternatives)


@pytest.mark.parametrize("name", ["beam", "refined beam"])
def test_a_beam_names_alternatives(name: str) -> None:
    assert STRATEGIES[name].search(space_of("pyramid"), MODEL, Budget.start()).alternatives


@pytest.mark.parametrize("name", SAMPLE)
def test_discrepancies_are_never_worse_than_what_they_start_from(name: str) -> None:
    greedy = GREEDY.search(space_of(name), MODEL, Budget.start())
    found = Discrepancies(GREEDY).search(space_of(name), MODEL, Budget.start())
    assert found.cost_seconds <= greedy.cost_seconds
    assert found.candidates > greedy.candidates or space_of(name).decision_count <= 1


def test_discrepancies_find_what_greed_alone_misses() -> None:
    dag = extract(PIPELINES["boundary"]())
    space = _core.Space(dag, cpu_parameters(some_machine(), dag), _core.SpaceOptions(), 1)
    costs = {
        width: Discrepancies(GREEDY, width=width).search(space, MODEL, Budget.start()).cost_seconds for width in (1, 8)
    }
    greedy = GREEDY.search(space, MODEL, Budget.start()).cost_seconds
    assert costs[8] <= costs[1] <= greedy
    assert costs[8] < greedy


def test_descent_from_discrepancies_that_are_about_as_good_pays() -> None:
    ratios = []
    for name in PIPELINES:
        space = make_space(extract(PIPELINES[name]()), target=WIDE_TARGET)
        without, with_slack = (
            Discrepancies(GREEDY, slack=slack).search(space, MODEL, Budget.start()).cost_seconds for slack in (0.0, 0.1)
        )
        ratios.append(with_slack / without)
    assert np.exp(np.mean(np.log(ratios))) < 1
    assert max(ratios) < 1.01


def test_discrepancies_leave_the_rest_of_the_budget() -> None:
    inner = GREEDY
    found = Discrepancies(inner, share=0.5).search(
        space_of("pyramid"), MODEL, Budget(1000.0, started=time.monotonic() - 600)
    )
    assert not found.is_complete
    assert found.candidates == inner.search(space_of("pyramid"), MODEL, Budget.start()).candidates


def test_the_rest_of_a_budget_runs_from_now() -> None:
    budget = replace(Budget.start(8), started=time.monotonic() - 6)
    rest = budget.rest()
    assert 1 < rest.seconds <= 2
    assert not rest.part(0.5).is_spent()
    assert budget.part(0.5).is_spent()
    assert replace(budget, seconds=3.0).rest().is_spent()
    assert Budget.start().rest().seconds is None
    assert Budget.start(is_cancelled=lambda: True).rest().is_spent()


@pytest.mark.parametrize(("width", "slack", "share"), [(0, 0.1, 0.5), (8, -0.1, 0.5), (8, 0.1, 0.0), (8, 0.1, 1.5)])
def test_discrepancies_of_nothing_are_refused(width: int, slack: float, share: float) -> None:
    with pytest.raises(SearchError, match="at least one bucket"):
        Discrepancies(GREEDY, width=width, slack=slack, share=share)


@pytest.mark.parametrize("name", SAMPLE)
def test_restarts_are_never_worse_than_what_they_follow(name: str) -> None:
    space = space_of(name)
    start = GREEDY.search(space, MODEL, Budget.start())
    found = Restarts(GREEDY, patience=3, most=4).search(space, MODEL, Budget.start())
    assert found.cost_seconds <= start.cost_seconds
    assert found.candidates > start.candidates


def test_restarts_find_what_greed_alone_misses() -> None:
    space = space_of("pyramid")
    start = GREEDY.search(space, MODEL, Budget.start())
    found = Restarts(GREEDY, patience=8, most=8).search(space, MODEL, Budget.start())
    assert found.cost_seconds < start.cost_seconds
    assert path_of(space, SearchResult(found.alternatives[0], 0.0, 0, True)) != path_of(space, found)


def test_restarts_end_where_nothing_better_is_found() -> None:
    space = space_of("no_dimension")
    for patience in (1, 2):
        ended = Restarts(GREEDY, patience=patience, most=50).search(space, MODEL, Budget.start())
        few = Restarts(GREEDY, patience=patience, most=patience).search(space, MODEL, Budget.start())
        assert ended.cost_seconds == GREEDY.search(space, MODEL, Budget.start()).cost_seconds
        assert ended.candidates == few.candidates


def test_what_restarts_find_is_gone_on_from() -> None:
    space = space_of("pyramid")
    seen: list[Strategy] = []

    def after(strategy: Strategy) -> Strategy:
        seen.append(strategy)
        return Discrepancies(strategy)

    plain = Restarts(GREEDY, patience=8, most=8).search(space, MODEL, Budget.start())
    found = Restarts(GREEDY, after, patience=8, most=8).search(space, MODEL, Budget.start())
    assert len(seen) == 1
    assert seen[0].search(space, MODEL, Budget.start()).cost_seconds == plain.cost_seconds
    assert found.cost_seconds <= plain.cost_seconds


@pytest.mark.parametrize("bad", [{"patience": 0}, {"most": 0}, {"share": 0.0}, {"share": 1.5}])
def test_restarts_without_any_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(SearchError, match="Restarts want"):
        Restarts(GREEDY, **bad)
