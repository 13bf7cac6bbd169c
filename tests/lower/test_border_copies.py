"""What Halide does for the border of an image: it clamps the lanes of the left and right columns alone."""

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, ExactRuns, X, Y, finish, image, some_machine

import metol
from metol import _core
from metol.lower import Call, Directive, cpu_directives
from metol.pipeline import extract
from metol.targets.cpu import cpu_parameters

SIZES = 320, 200


def stencil(*, has_border: bool, sides: tuple[tuple[int, int], ...] = ()) -> hl.Pipeline:
    source, output = image(*(side + 2 * (not has_border) for side in SIZES), pixel=hl.UInt(8)), hl.Func("output")
    around = hl.BoundaryConditions.repeat_edge(source, *([list(sides)] if sides else [])) if has_border else source
    sums = hl.u16(0)
    for dy in range(3):
        for dx in range(3):
            sums += around[X + dx, Y + dy]
    output[X, Y] = hl.u8(sums // 9)
    return finish(output, sizes=SIZES)


def bordered() -> hl.Pipeline:
    return stencil(has_border=True)


def bordered_by_numbers() -> hl.Pipeline:
    """How large the input is at other sizes of the output, nobody says: the loops of its border are guarded."""
    return stencil(has_border=True, sides=((0, SIZES[0]), (0, SIZES[1])))


def found_for(*, has_border: bool) -> tuple[Directive, ...]:
    result = metol.autoschedule(stencil(has_border=has_border), machine=some_machine(), target=SOME_TARGET)
    assert result.origin == "search"
    return result.schedule.directives


def test_loops_across_the_lanes_have_no_copy_for_the_border() -> None:
    directives = [one for one in found_for(has_border=True) if one.branch == (0,)]
    (whole,) = (one for one in directives if one.call is Call.NEVER_PARTITION)
    (lanes,) = (one.args[0] for one in directives if one.call is Call.VECTORIZE)
    assert whole.args
    assert {loop.name.split("_")[0] for loop in whole.args} == {"y"}  # type: ignore[union-attr]
    assert lanes.name.startswith("x")  # type: ignore[union-attr]


def test_a_border_at_root_is_guarded_row_by_row() -> None:
    dag = extract(bordered_by_numbers(), target=SOME_TARGET)
    space = _core.Space(dag, cpu_parameters(some_machine(), dag), _core.SpaceOptions(), 1)
    edge = next(number for number, func in enumerate(dag.funcs) if func.is_boundary_condition)
    rows = dag.funcs[edge].args[1]
    leaves = space.rollout(space.root(), range(200))
    seen = 0
    for number in range(len(leaves)):
        state = leaves.take([number])
        schedule, directives = state.describe()[edge], cpu_directives(dag, state.describe())
        own = [one for one in directives if one.func == edge]
        fused = any(one.call is Call.FUSE for one in own)
        turns = schedule.stages and any(level[0] > 1 for level in schedule.stages[0].levels[:-1])
        if schedule.placement != _core.Placement.ROOT or fused or not turns or schedule.stages[0].vector_loop != 0:
            continue
        seen += 1
        (whole,) = (one for one in own if one.call is Call.NEVER_PARTITION)
        assert all(loop.name.startswith(rows) for loop in whole.args)  # type: ignore[union-attr]
    assert seen


def test_where_nothing_is_clamped_halide_splits_what_it_may() -> None:
    assert all(one.call is not Call.NEVER_PARTITION for one in found_for(has_border=False))


@pytest.mark.slow
def test_borders_are_right_at_every_size() -> None:
    schedule = metol.autoschedule(bordered(), target=SOME_TARGET, machine=some_machine()).schedule
    ExactRuns("stencil_with_border", bordered).check(schedule)
