from dataclasses import replace

import pytest
from small_pipelines import PIPELINES, some_machine

from metol import _core
from metol.errors import SearchError
from metol.pipeline import extract
from metol.search import Annealed, BeamSearch, Budget, Refined
from metol.targets.cpu import cpu_parameters

MODEL = _core.CostModel()
GREEDY = BeamSearch(width=1)


def space_of(name: str) -> _core.Space:
    dag = extract(PIPELINES[name]())
    return _core.Space(dag, cpu_parameters(some_machine(), dag), _core.SpaceOptions(), 1)


@pytest.mark.parametrize("name", ["pyramid", "convolution", "two_outputs", "no_dimension"])
def test_annealing_is_never_worse_than_what_it_follows(name: str) -> None:
    space = space_of(name)
    start = GREEDY.search(space, MODEL, Budget.start())
    for hottest in (0.01, 10.0):
        found = Annealed(GREEDY, hottest=hottest, sweeps=4).search(space, MODEL, Budget.start())
        assert found.cost_seconds <= start.cost_seconds
        assert found.cost_seconds == space.cost(found.state, MODEL)[0]


def test_annealing_finds_what_descent_alone_misses() -> None:
    space = space_of("sums_output")
    descended = Refined((GREEDY,)).search(space, MODEL, Budget.start())
    found = Annealed(Refined((GREEDY,)), hottest=0.2).search(space, MODEL, Budget.start())
    assert found.cost_seconds < descended.cost_seconds
    identities = [int(space.identity_hash(state)[0]) for state in (found.state, *found.alternatives)]
    assert int(space.identity_hash(descended.state)[0]) in identities[1:]
    assert len(set(identities)) == len(identities)


def test_seeds_walk_elsewhere() -> None:
    space = space_of("pyramid")
    counts = {
        Annealed(GREEDY, sweeps=4, seed=seed).search(space, MODEL, Budget.start()).candidates for seed in range(4)
    }
    assert len(counts) > 1


def test_more_walks_go_on_from_the_best() -> None:
    space = space_of("sums_output")
    one, two = (
        Annealed(GREEDY, hottest=0.2, sweeps=4, walks=walks).search(space, MODEL, Budget.start()) for walks in (1, 2)
    )
    assert two.cost_seconds <= one.cost_seconds
    assert two.candidates > one.candidates


def test_a_walk_that_gains_little_is_the_last() -> None:
    space = space_of("pyramid")
    plan = Annealed(GREEDY, hottest=0.2, sweeps=4, least_gain=0.99)
    one, more = (replace(plan, walks=walks).search(space, MODEL, Budget.start()) for walks in (1, 3))
    assert (more.candidates, more.cost_seconds) == (one.candidates, one.cost_seconds)


@pytest.mark.parametrize(
    "bad",
    [
        {"coldest": 0.0},
        {"coldest": 0.1, "hottest": 0.01},
        {"sweeps": 0},
        {"walks": 0},
        {"least_gain": -0.1},
        {"share": 0.0},
        {"share": 1.5},
    ],
)
def test_impossible_walks_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(SearchError, match=r"Temperatures fall|Annealing wants"):
        Annealed(GREEDY, **bad)
