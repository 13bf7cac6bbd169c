"""There is always a next decision; and where there is none, an error, and the safe schedule."""

from collections.abc import Callable
from dataclasses import replace

import halide as hl
import pytest
from small_pipelines import PIPELINES, X, Y, image, make_gpu_space

import metol
from metol import _core
from metol.errors import DeadEndError
from metol.options import SearchOptions
from metol.pipeline import extract
from metol.targets.gpu import GpuMachine, gpu_parameters

C, N = hl.Var("c"), hl.Var("n")


def long_and_deep() -> hl.Pipeline:
    """Three short loops, and one that would fill a warp."""
    source, output = image(4, 4, 4, 64), hl.Func("output")
    output[X, Y, C, N] = source[X, Y, C, N] * 2
    output.set_estimates([(0, 4), (0, 4), (0, 4), (0, 64)])
    return hl.Pipeline(output)


def sums_up_to_the_place() -> hl.Pipeline:
    """Rows that are few, and of each as many of many points as its number: a block has more rows than there are."""
    source, points, sums, output = image(128, 64, 4), hl.Func("points"), hl.Func("sums"), hl.Func("output")
    points[X, Y, C] = source[X, Y, C] * 2
    r = hl.RDom([(0, 64)])
    r.where(r.x <= C)
    sums[X, C] = 0.0
    sums[X, C] += points[X, r, C]
    output[X, C] = sums[X, C]
    output[X, 1] = hl.min(output[X, 1], sums[X, 3])
    output.set_estimates([(0, 128), (0, 4)])
    return hl.Pipeline(output)


BUILDERS = (long_and_deep, sums_up_to_the_place)


@pytest.mark.parametrize("build", BUILDERS)
def test_every_loop_nest_can_be_completed(build: Callable[[], hl.Pipeline]) -> None:
    space = make_gpu_space(extract(build()))
    leaves = space.rollout(space.root(), range(300))
    assert all(leaves.take([i]).describe() for i in range(300))


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("strategy", [pytest.param("random", marks=pytest.mark.exhaustive), "batch", "beam"])
def test_searches_end_with_a_schedule(strategy: str, build: Callable[[], hl.Pipeline]) -> None:
    for seed in range(3):
        options = SearchOptions(strategy=strategy, seed=seed, searches=4, budget_seconds=2)
        result = metol.autoschedule(build(), target="cuda", gpu="a100", options=options)
        assert result.origin == "search"


def gpu_without_registers() -> GpuMachine:
    """One on which nothing is legal."""
    machine = GpuMachine.preset("a100", threads=2)
    return replace(machine, capability=replace(machine.capability, max_registers_per_thread=1))


@pytest.mark.parametrize("strategy", ["random", "greedy", "beam", "mcts", "batch"])
def test_search_that_comes_to_nothing_gives_the_safe_schedule(strategy: str) -> None:
    options = SearchOptions(strategy=strategy, budget_seconds=2)
    result = metol.autoschedule(PIPELINES["pyramid"](), target="cuda", machine=gpu_without_registers(), options=options)
    assert result.origin == "safe"
    assert "switch fewer parts of the space off" in result.fallbacks[0]


def test_random_way_that_ends_raises() -> None:
    dag = extract(PIPELINES["pyramid"]())
    space = _core.Space(dag, gpu_parameters(gpu_without_registers(), dag), _core.SpaceOptions(), 1)
    with pytest.raises(DeadEndError, match="No candidate"):
        space.rollout(space.root(), range(4))
    state = space.expand(space.root())[0].take([0])
    with pytest.raises(DeadEndError, match="No candidate"):
        space.sample(state, range(4))
