"""Loop nests one decision apart: what is taken over from the one they surround is what making each decision gives."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import PIPELINES, gpu_space, make_gpu_space, make_space

from metol import _core
from metol.cost import CostTerms
from metol.pipeline import extract
from metol.pipeline.random_programs import random_program

BUILDERS: dict[str, Callable[[], hl.Pipeline]] = {
    name: PIPELINES[name] for name in ("pyramid", "chain", "convolution", "two_outputs", "histogram")
}
BUILDERS |= {f"random {seed}": lambda seed=seed: random_program(seed).pipeline for seed in (3, 17, 42, 205)}


def walk(space: _core.Space, steps: int) -> list[tuple[_core.States, int, _core.States]]:
    """Go from neighbour to neighbour, mostly to better ones; the loop nests, what was changed, and what was around."""
    rng = np.random.default_rng(1)
    state = space.rollout(space.root(), [1])
    passed = []
    for _ in range(steps):
        position = int(rng.integers(space.decision_count))
        around = space.neighbours(state, position)
        passed.append((state, position, around))
        if len(around) > 0:
            best = np.argsort(space.cost(around, _core.CostModel()), kind="stable")
            state = around.take([int(best[min(len(best) - 1, int(rng.integers(4)))])])
    return passed


@pytest.mark.parametrize("name", BUILDERS)
def test_a_neighbour_is_what_its_decisions_lead_to(name: str) -> None:
    space = make_space(extract(BUILDERS[name]()))
    for _, _, around in walk(space, 60):
        for i, identity in enumerate(space.identity_hash(around)):
            again = space.replay(space.path(around.take([i])))
            assert space.identity_hash(again)[0] == identity


@pytest.mark.parametrize("name", BUILDERS)
def test_neighbours_do_not_depend_on_what_was_asked_before(name: str) -> None:
    dag = extract(BUILDERS[name]())
    space = make_space(dag)
    for state, position, around in walk(space, 12):
        fresh = make_space(dag)
        again = fresh.neighbours(fresh.replay(space.path(state)), position)
        assert fresh.identity_hash(again).tolist() == space.identity_hash(around).tolist()


def test_on_a_gpu_a_neighbour_is_what_its_decisions_lead_to() -> None:
    space = gpu_space(PIPELINES["pyramid"])[1]
    for _, _, around in walk(space, 20):
        for i, identity in enumerate(space.identity_hash(around)):
            again = space.replay(space.path(around.take([i])))
            assert space.identity_hash(again)[0] == identity


@pytest.mark.parametrize("name", BUILDERS)
def test_looking_around_tells_what_neighbours_cost(name: str) -> None:
    space = make_space(extract(BUILDERS[name]()))
    model = _core.CostModel()
    for state, position, around in walk(space, 20):
        found = space.look_around(state, position, model)
        assert found.costs.tolist() == space.cost(around, model).tolist()
        for i, identity in enumerate(space.identity_hash(around)):
            taken = found.take(i)
            assert space.identity_hash(taken)[0] == identity
            assert space.path(taken) == space.path(around.take([i]))
        with pytest.raises(IndexError):
            found.take(len(around))


def spaces_of(name: str, threads: int) -> list[_core.Space]:
    """Two spaces of one pipeline: what one has costed, the other does not know."""
    if name == "on a GPU":
        dag = extract(PIPELINES["pyramid"]())
        return [make_gpu_space(dag) for _ in range(2)]
    dag = extract(BUILDERS[name]())
    return [make_space(dag, threads=threads) for _ in range(2)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [*BUILDERS, "on a GPU"])
def test_costs_beyond_the_margin_are_told_as_infinity_and_all_others_exactly(name: str, threads: int) -> None:
    space, fresh = spaces_of(name, threads)
    model = _core.CostModel()
    left_off = 0
    passed = [(state, position, around) for state, position, around in walk(space, 40) if len(around) > 0]
    for i, (state, position, around) in enumerate(passed):
        costs = space.cost(around, model)
        rival = space.cost(state, model)[0] if i % 2 else np.inf
        margin = (1.0, 1.02, 1.5)[i % 3]
        limit = min(costs.min(), rival) * margin
        found = fresh.look_around(fresh.replay(space.path(state)), position, model, rival, margin)
        assert found.costs.tolist() == np.where(costs > limit, np.inf, costs).tolist()
        left_off += np.count_nonzero(costs > limit)
    assert left_off > 0


def test_costs_that_may_sink_again_are_told_to_the_end() -> None:
    space, fresh = spaces_of("pyramid", 1)
    rows = space.featurize(space.rollout(space.root(), [1]))
    shape = CostTerms.of(space).evaluate(rows.astype(np.float64)).shape[1:]
    model = _core.CostModel(7, np.random.default_rng(0).normal(size=shape).ravel().tolist())
    for state, position, around in walk(space, 20):
        found = fresh.look_around(fresh.replay(space.path(state)), position, model, 0.0, 1.0)
        assert found.costs.tolist() == space.cost(around, model).tolist()


def test_only_a_complete_loop_nest_has_neighbours() -> None:
    space = make_space(extract(BUILDERS["chain"]()))
    with pytest.raises(ValueError, match="complete"):
        space.look_around(space.root(), 0, _core.CostModel())
    with pytest.raises(ValueError, match="position"):
        space.neighbours(space.rollout(space.root(), [1]), space.decision_count)


def completed_step_by_step(space: _core.Space, states: _core.States) -> tuple[_core.States, list[float], int]:
    """Make the cheapest child of each state the next one, until nothing is left to decide."""
    candidates = 0
    while int(states.decisions_made[0]) < space.decision_count:
        children, parents = space.expand(states)
        costs = space.cost(children, _core.CostModel())
        candidates += len(children)
        states = children.take(
            [int(np.flatnonzero(parents == i)[np.argmin(costs[parents == i])]) for i in np.unique(parents)]
        )
    return states, space.cost(states, _core.CostModel()).tolist(), candidates


@pytest.mark.parametrize("is_sampled", [False, True])
@pytest.mark.parametrize("name", BUILDERS)
def test_greedy_completion_takes_the_cheapest_each_time(name: str, is_sampled: bool) -> None:
    space = make_space(extract(BUILDERS[name]()))
    if is_sampled:
        options = space.options
        options.sample_depth = 2
        space = space.restrict(options)
    leaf = space.rollout(space.root(), [5])
    for made in (0, space.decision_count // 2, space.decision_count):
        start = space.replay(space.path(leaf)[:made])
        states = space.sample(start, range(4)) if made < space.decision_count else start
        leaves, costs, candidates = space.complete_greedily(states, _core.CostModel())
        expected, expected_costs, expected_candidates = completed_step_by_step(space, states)
        assert space.identity_hash(leaves).tolist() == space.identity_hash(expected).tolist()
        assert (costs.tolist(), candidates) == (expected_costs, expected_candidates)
        for i in range(len(leaves)):
            assert space.path(leaves.take([i])) == space.path(expected.take([i]))
