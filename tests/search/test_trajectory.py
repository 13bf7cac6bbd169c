"""Loop nests one decision apart: what is taken over from the one they surround is what making each decision gives."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import PIPELINES, gpu_space, make_space

from metol import _core
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
