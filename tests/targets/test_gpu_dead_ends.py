"""Loop nests of Funcs with more dimensions than a block of threads: there is always a next decision."""

import halide as hl
import pytest
from small_pipelines import X, Y, image, make_gpu_space

import metol
from metol.options import SearchOptions
from metol.pipeline import extract

C, N = hl.Var("c"), hl.Var("n")


def long_and_deep() -> hl.Pipeline:
    """Three short loops, and one that would fill a warp."""
    source, output = image(4, 4, 4, 64), hl.Func("output")
    output[X, Y, C, N] = source[X, Y, C, N] * 2
    output.set_estimates([(0, 4), (0, 4), (0, 4), (0, 64)])
    return hl.Pipeline(output)


def test_threads_can_be_chosen_where_no_three_loops_fill_a_warp() -> None:
    space = make_gpu_space(extract(long_and_deep()))
    leaves = space.rollout(space.root(), range(300))
    assert all(leaves.take([i]).describe() for i in range(300))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["random", "batch", "beam"])
def test_searches_end_with_a_schedule(strategy: str) -> None:
    for seed in range(3):
        options = SearchOptions(strategy=strategy, seed=seed, searches=4, budget_seconds=2)
        result = metol.autoschedule(long_and_deep(), target="cuda", gpu="a100", options=options)
        assert result.origin == "search"
