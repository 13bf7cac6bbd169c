"""Loops over partial results of whole loops end where Halide is promised that they do: what it reads has no more."""

from collections.abc import Callable, Iterator
from functools import partial

import halide as hl
import pytest
from small_pipelines import X, Y, finish, func_named, image, make_gpu_space, some_machine

import metol
from metol import _core
from metol.lower import Call, Directive, Tail, cpu_directives, gpu_directives
from metol.options import SearchOptions
from metol.pipeline import PipelineDag, Rfactor, extract
from metol.targets.cpu import cpu_parameters

Z = hl.Var("z")
# No vector, and no block of a power of two, divides how many partial results there are.
PARTS, TERMS, SUMS = 57, 12, 40
ROLLOUTS = 60

Build = Callable[[], hl.Pipeline]


def sums(*, is_open: bool) -> hl.Pipeline:
    """Sums of an input, or of a Func that reads no more of one the more it computes."""
    source = image(PARTS, TERMS, SUMS)
    ends = [source.dim(d).extent() - 1 for d in range(3)]
    held, summed, output = hl.Func("held"), hl.Func("summed"), hl.Func("output")
    held[X, Y, Z] = source[tuple(hl.clamp(at, 0, end) for at, end in zip((X, Y, Z), ends, strict=True))]
    r = hl.RDom([(0, PARTS), (0, TERMS)], "r")
    summed[X] = 0
    summed[X] += (source if is_open else held)[r.x, r.y, X]
    output[X] = summed[X] - summed[X + 1]
    return finish(output, sizes=(SUMS - 1,))


BUILDS = {"input": partial(sums, is_open=True), "func": partial(sums, is_open=False)}


def in_parts(build: Build) -> PipelineDag:
    """The pipeline with a partial result for each iteration of the inner loop."""
    dag = extract(build())
    summed = func_named(dag, "summed")
    loop = next(loop.name for loop in dag.stages[dag.funcs[summed].stages[1]].loops if loop.is_reduction)
    return extract(build(), rfactors=[Rfactor(dag.funcs[summed].origin, 0, [], [(loop, "part")])])


def nests(space: _core.Space) -> Iterator[list[_core.FuncSchedule]]:
    rolled = space.rollout(space.root(), range(ROLLOUTS))
    return (rolled.take([number]).describe() for number in range(ROLLOUTS))


def cpu_space_of(dag: PipelineDag) -> _core.Space:
    return _core.Space(dag, cpu_parameters(some_machine(), dag), _core.SpaceOptions(), 1)


def test_loops_that_are_promised_to_end_are_told() -> None:
    dag = in_parts(BUILDS["func"])
    (made,) = (func for func in dag.funcs if "part" in func.args)
    told = [
        {
            loop.name
            for loop, is_told in zip(dag.stages[stage].loops, dag.stages[stage].promised_loops, strict=True)
            if is_told
        }
        for stage in made.stages
    ]
    assert told[0] == set()
    assert "part" in told[1]
    assert "x" not in told[1]


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize(("make_space", "lower"), [(cpu_space_of, cpu_directives), (make_gpu_space, gpu_directives)])
def test_no_tile_of_them_goes_further(
    name: str, make_space: Callable[[PipelineDag], _core.Space], lower: Callable[..., tuple[Directive, ...]]
) -> None:
    dag = in_parts(BUILDS[name])
    (made,) = (number for number, func in enumerate(dag.funcs) if "part" in func.args)
    tails = {
        directive.args[-1]
        for nest in nests(make_space(dag))
        for directive in lower(dag, nest)
        if (directive.func, directive.stage, directive.call) == (made, 1, Call.SPLIT)
        and directive.args[0].name.startswith("part")
        and not directive.args[0].name.endswith(("_tile", "_in"))
    }
    assert tails == {Tail.GUARD_WITH_IF}


def test_a_gpu_has_a_schedule_with_them() -> None:
    source, summed = image(PARTS, TERMS, SUMS, 16), hl.Func("summed")
    r = hl.RDom([(0, PARTS), (0, TERMS), (0, 16)], "r")
    summed[X] = 0
    summed[X] += source[r.x, r.y, X, r.z]
    options = SearchOptions(strategy="greedy", staging=False)
    result = metol.autoschedule(finish(summed, sizes=(SUMS,)), target="cuda", gpu="a100", options=options)
    assert Call.RFACTOR in {directive.call for directive in result.schedule.directives}
    assert result.fallbacks == ()
