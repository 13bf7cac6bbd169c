"""Reductions that end where a `where` of the point says: Halide asks for whole parts of their loops, of inputs, too."""

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, X, Y, finish, func_named, image, make_space, some_machine

from metol import _core, autoschedule
from metol.lower import Call
from metol.pipeline import extract
from metol.targets import propose_rfactors
from metol.targets.cpu import CpuMachine

DEPTH = 64
LONG = 4096
SIZES = 48, 40
WIDE = 4096
ROLLOUTS = 200


def domain(condition: str, count: int, point: hl.Var) -> hl.RDom:
    k = hl.RDom([(0, count)], "k")
    if condition == "point":
        k.where(k.x <= point)
    elif condition == "number":
        k.where(k.x % 3 != 1)
    return k


def sums(condition: str) -> hl.Pipeline:
    source, summed, output = image(*SIZES, DEPTH), hl.Func("summed"), hl.Func("output")
    k = domain(condition, DEPTH, Y)
    summed[X, Y] = 0
    summed[X, Y] += source[X, Y, k.x]
    output[X, Y] = summed[X, Y] + 1
    return finish(output, sizes=SIZES)


@pytest.mark.parametrize("condition", ["point", "number", "none"])
def test_only_loops_that_end_by_the_point_stay_whole(condition: str) -> None:
    dag = extract(sums(condition))
    func = func_named(dag, "summed")
    stage = dag.stages[dag.funcs[func].stages[1]]
    assert (stage.has_predicate, stage.ends_by_point) == (condition != "none", condition == "point")
    (loop,) = (number for number, dim in enumerate(stage.loops) if dim.is_reduction)
    space = make_space(dag)
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    splits = set()
    for number in range(ROLLOUTS):
        nest = leaves.take([number]).describe()[func].stages[1]
        splits.add(tuple(trips for level in nest.levels if (trips := level[loop]) > 1))
    assert (splits == {(DEPTH,)}) == (condition == "point")


@pytest.mark.parametrize("condition", ["point", "number", "none"])
def test_nor_are_they_factored(condition: str) -> None:
    output, summed, source = hl.Func("output"), hl.Func("summed"), image(SIZES[0], LONG)
    k = domain(condition, LONG, X)
    summed[X] = 0
    summed[X] += source[X, k.x]
    output[X] = summed[X] + 1
    dag = extract(finish(output, sizes=SIZES[:1]))
    space = make_space(dag)
    func = dag.funcs[func_named(dag, "summed")]
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    nests = (leaves.take([number]).describe() for number in range(ROLLOUTS))
    at_root = next(nest for nest in nests if nest[func_named(dag, "summed")].placement == _core.Placement.ROOT)
    machine = CpuMachine.default(threads=4)
    assert bool(propose_rfactors(machine, dag, at_root, [func.stages[1]])) == (condition != "point")


def sums_of_lengths(depth: int, *, condition: str = "read") -> hl.Pipeline:
    """Sums down columns, in an output of one dimension, which Halide makes no right vectors of."""
    lengths, source, summed = hl.ImageParam(hl.Int(32), 1, "lengths"), image(WIDE, depth), hl.Func("summed")
    k = domain(condition, depth, X)
    if condition != "point":
        k.where(k.x < lengths[X])
    summed[X] = 0
    summed[X] += source[X, k.x]
    lengths.set_estimates([(0, WIDE)])
    return finish(summed, sizes=(WIDE,))


def proposed(pipeline: hl.Pipeline) -> list[_core.Rfactor]:
    """What is proposed where the output runs in tasks already."""
    dag = extract(pipeline)
    space = make_space(dag)
    (func,) = dag.outputs
    nest = space.rollout(space.root(), [0]).describe()
    options = propose_rfactors(CpuMachine.default(threads=4), dag, nest, [dag.funcs[func].stages[1]])
    return [rfactor for each in options for rfactor in each]


@pytest.mark.parametrize("depth", [LONG, 500, 509])
def test_where_the_end_is_read_they_are_factored_in_whole_parts(depth: int) -> None:
    factors = [factor for rfactor in proposed(sums_of_lengths(depth)) for *_, factor in rfactor.splits]
    assert factors
    assert all(depth % factor == 0 for factor in factors)


def test_but_not_where_a_place_ends_them() -> None:
    assert proposed(sums_of_lengths(LONG, condition="point")) == []


def test_sums_that_end_where_is_read_run_in_vectors() -> None:
    result = autoschedule(sums_of_lengths(500), target=SOME_TARGET, machine=some_machine(), threads=2)
    assert (result.origin, result.fallbacks) == ("search", ())
    calls = {one.call for one in result.schedule.directives if one.stage == 1}
    assert {Call.VECTORIZE, Call.RFACTOR} <= {one.call for one in result.schedule.directives}
    assert Call.VECTORIZE in calls
