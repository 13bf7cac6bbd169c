"""Names of what loops are split into: none that a loop of the same Stage has."""

import halide as hl
import pytest
from slow_cases import slow_but
from small_pipelines import ExactRuns, image

import metol
from metol.lower.loop_names import free_base, loop_bases
from metol.options import SearchOptions
from metol.pipeline import extract

SIZES = (63, 47)  # of `chain`, which ExactRuns knows
COLLIDING = [("x", "x_o"), ("x_0", "x"), ("tasks", "tasks_1"), ("x_block", "x"), ("x", "x_thread"), ("blocks_0", "x_")]


def named(first: str, second: str) -> hl.Pipeline:
    """A stencil over loops of these names, and an update with a reduction loop of a name like theirs."""
    x, y, r = hl.Var(first), hl.Var(second), hl.RDom([(0, 3)], "x")
    source, sums, output = image(80, 60), hl.Func("sums"), hl.Func("output")
    sums[x, y] = source[x, y]
    sums[x, y] += source[x + r, y + 1]
    output[x, y] = sums[x, y] * sums[x + 1, y] - sums[x, y + 2]
    output.set_estimates([(0, size) for size in SIZES])
    return hl.Pipeline(output)


@pytest.mark.parametrize("target", ["host", pytest.param("host-cuda", marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", slow_but(COLLIDING[3:4], COLLIDING, further=COLLIDING[4:]))
def test_loops_may_have_any_names(names: tuple[str, str], target: str) -> None:
    # Of those at random for a GPU, some have more threads than a block may have.
    drawn = (("random", 1),) if target == "host" else ()
    for strategy, seed in (("greedy", 0), *drawn):
        options = SearchOptions(strategy=strategy, seed=seed, refine=strategy == "greedy")
        result = metol.autoschedule(named(*names), target=target, options=options)
        assert result.origin == "search", result.fallbacks
        if target == "host":
            ExactRuns("chain", lambda: named(*names)).check(result.schedule)


@pytest.mark.parametrize("names", COLLIDING)
def test_bases_are_no_beginnings_of_names(names: tuple[str, str]) -> None:
    dag = extract(named(*names))
    for stage in dag.stages:
        bases = [*loop_bases(stage), free_base(stage, "tasks"), free_base(stage, "blocks")]
        loops = [loop.name.replace("$", "_") for loop in stage.loops]
        for loop, base in zip([*loops, "", ""], bases, strict=True):
            assert not any(other.startswith(f"{base}_") for other in loops if other != loop)
        assert len(set(bases)) == len(bases)


def test_usual_names_stay_as_they_are() -> None:
    dag = extract(named("x", "y"))
    assert [loop_bases(stage) for stage in dag.stages[-3:]] == [("x", "y"), ("x_x_u1", "x_u1", "y_u1"), ("x", "y")]
