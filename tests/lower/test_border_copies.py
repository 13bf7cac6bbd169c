"""What Halide does for the border of an image: it clamps the lanes of the left and right columns alone."""

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, ExactRuns, X, Y, finish, image, some_machine

import metol
from metol.lower import Call, Directive

SIZES = 320, 200


def stencil(*, has_border: bool) -> hl.Pipeline:
    source, output = image(*(side + 2 * (not has_border) for side in SIZES), pixel=hl.UInt(8)), hl.Func("output")
    around = hl.BoundaryConditions.repeat_edge(source) if has_border else source
    sums = hl.u16(0)
    for dy in range(3):
        for dx in range(3):
            sums += around[X + dx, Y + dy]
    output[X, Y] = hl.u8(sums // 9)
    return finish(output, sizes=SIZES)


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


def test_where_nothing_is_clamped_halide_splits_what_it_may() -> None:
    assert all(one.call is not Call.NEVER_PARTITION for one in found_for(has_border=False))


@pytest.mark.slow
def test_borders_are_right_at_every_size() -> None:
    def build() -> hl.Pipeline:
        return stencil(has_border=True)

    schedule = metol.autoschedule(build(), target=SOME_TARGET, machine=some_machine()).schedule
    ExactRuns("stencil_with_border", build).check(schedule)
