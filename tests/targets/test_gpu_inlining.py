"""What a GPU's space inlines: as much as Halide, which writes out every call, lowers in seconds."""

import halide as hl
import pytest
from small_pipelines import X, Y, image, make_gpu_space

import metol
from metol import _core
from metol.options import SearchOptions
from metol.pipeline import PipelineDag, extract

# Loads that one point may have; a level has four of the one before, so five levels may be inlined.
_MOST = 1024


def levels(count: int) -> hl.Pipeline:
    """Each level sums up four points of the one before, so that nothing inlined is computed twice."""
    size = 4 << count
    func = image(size, size)
    for level in range(count + 1):
        finer, func = func, hl.Func(f"level_{level}")
        func[X, Y] = sum((finer[2 * X + dx, 2 * Y + dy] for dx in (0, 1) for dy in (0, 1)), hl.f32(0))
    func.set_estimates([(0, 2), (0, 2)])
    return hl.Pipeline(func)


def loads(dag: PipelineDag, schedules: list[_core.FuncSchedule], stage: int) -> int:
    """Those of a Stage, with everything inlined written out."""
    total = 0
    for edge in dag.stages[stage].edges:
        is_inlined = schedules[edge.producer].placement == _core.Placement.INLINE
        inside = loads(dag, schedules, dag.funcs[edge.producer].stages[0]) if is_inlined else 1
        total += sum(access.count for access in edge.accesses) * inside
    return total


def most_loads(dag: PipelineDag, schedules: list[_core.FuncSchedule]) -> int:
    """Those of the Stage that has most of them."""
    return max(loads(dag, schedules, stage) for stage in range(len(dag.stages)))


@pytest.mark.parametrize("count", [4, 8])
def test_expressions_have_an_end(count: int) -> None:
    dag = extract(levels(count))
    space = make_gpu_space(dag)
    leaves = space.rollout(space.root(), range(400))
    found = {most_loads(dag, leaves.take([i]).describe()) for i in range(400)}
    assert max(found) == _MOST
    assert (space.pruned_counts()["expression_too_long"] > 0) == (count > 4)


@pytest.fixture(scope="module")
def long_chain() -> metol.Result:
    return metol.autoschedule(levels(7), target="cuda", gpu="a100", options=SearchOptions(strategy="batch"))


@pytest.mark.slow
def test_a_long_chain_is_lowered_nearly_as_it_was_found(long_chain: metol.Result) -> None:
    # Where four levels are inline, Halide bounds what a block needs by the whole row; the next best is taken.
    assert long_chain.origin in ("search", "alternative")
    assert all("threads, and may have 1024" in refusal for refusal in long_chain.fallbacks)
