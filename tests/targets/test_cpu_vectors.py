"""How many lanes the vectors of a Stage may have, and which loops around them keep copies for where conditions hold."""

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, C, X, Y, finish, func_named, image, make_space

from metol import _core
from metol.lower import Call, Var, cpu_directives
from metol.pipeline import PipelineDag, extract

ROLLOUTS = 300


def lanes(dag: PipelineDag) -> dict[int, set[int]]:
    """Of the output's random loop nests, the widths of vectors, by their loop."""
    space = make_space(dag, target=SOME_TARGET)
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    found: dict[int, set[int]] = {}
    for number in range(ROLLOUTS):
        nest = leaves.take([number]).describe()[dag.outputs[0]].stages[0]
        found.setdefault(nest.vector_loop, set()).add(nest.vector_width)
    return found


def test_all_widths_between_those_of_the_types_are_offered() -> None:
    source, output = image(256, 64, pixel=hl.UInt(8)), hl.Func("output")
    output[X, Y] = hl.u8(hl.i32(source[X, Y]) * 1000 >> 8)
    assert lanes(extract(finish(output, sizes=(256, 64)))) == {0: {8, 16, 32}}


@pytest.mark.parametrize(("channels", "widths"), [(1, set()), (2, {2}), (3, {2}), (4, {4}), (5, {4}), (8, {8})])
def test_no_vector_has_more_lanes_than_an_output_has_points(channels: int, widths: set[int]) -> None:
    """Else the version with vectors would never run."""
    source, output = image(channels, 64, 64), hl.Func("output")
    output[C, X, Y] = source[C, X, Y] + hl.i16(1)
    found = lanes(extract(finish(output, sizes=(channels, 64, 64))))
    assert found.get(0, set()) == widths


def inside() -> hl.Pipeline:
    """Pixels through a border: vectors along rows are not dense, and tiles with a guard are not unrolled."""
    source, light, output = image(64, 64, 3, pixel=hl.UInt(8)), hl.Func("light"), hl.Func("output")
    source.dim(0).set_stride(3)
    source.dim(2).set_stride(1).set_bounds(0, 3)
    padded = hl.BoundaryConditions.repeat_edge(source, [(0, 64), (0, 64), (hl.Expr(), hl.Expr())])
    light[X, Y] = hl.u16(padded[X, Y, 0]) + padded[X, Y, 1] + padded[X, Y, 2]
    output[X, Y] = light[X - 1, Y] + light[X + 1, Y] + light[X, Y - 1] + light[X, Y + 1]
    return finish(output, sizes=(64, 64))


def test_the_loop_around_a_tile_that_is_not_unrolled_is_split_into_parts() -> None:
    dag = extract(inside())
    space = make_space(dag, target=SOME_TARGET)
    func = func_named(dag, "light")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    seen = 0
    for number in range(ROLLOUTS):
        schedules = leaves.take([number]).describe()
        if schedules[func].placement != _core.Placement.AT:
            continue
        calls = [d for d in cpu_directives(dag, schedules) if d.func == func]
        order = next((d.args for d in calls if d.call is Call.REORDER), ())
        laid_out = {d.args[0] for d in calls if d.call in (Call.VECTORIZE, Call.UNROLL)}
        whole = {loop for d in calls if d.call is Call.NEVER_PARTITION for loop in d.args}
        turning = [loop for loop in order if loop not in laid_out and isinstance(loop, Var)]
        in_tile = [loop for loop in turning if loop.name.endswith("_i")]
        outside = [loop for loop in turning if loop.name.endswith("_o")]
        *_, tile = schedules[func].stages[0].levels
        has_tile = in_tile and all(tile[dag.funcs[func].args.index(loop.name[:-2])] > 1 for loop in in_tile)
        if has_tile and outside and len(in_tile) + len(outside) == len(turning):
            seen += 1
            assert outside[0] not in whole
            assert set(outside[1:]) <= whole
    assert seen >= 3
