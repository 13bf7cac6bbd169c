"""Outputs that read where a loaded value says: as of others, loops are shifted inwards, for each point is asked for."""

import functools

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, C, ExactRuns, X, Y, finish, image, some_machine

import metol
from metol.lower import Call, Directive

SIZES = 96, 64


def remapped(*, is_interleaved: bool = False) -> hl.Pipeline:
    """Each pixel is read where a map says; of three channels side by side, if so wished."""
    moved = image(*SIZES, name="moved")
    column = hl.clamp(moved[X, Y], 0, SIZES[0] - 1)
    output = hl.Func("output")
    if not is_interleaved:
        output[X, Y] = image(*SIZES)[column, Y] * 3 + X
        return finish(output, sizes=SIZES)
    source = image(*SIZES, 3, pixel=hl.UInt(8))
    output[X, Y, C] = source[column, Y, C] // 2
    output.output_buffer().dim(0).set_stride(3)
    output.output_buffer().dim(2).set_bounds(0, 3).set_stride(1)
    return finish(output, sizes=(*SIZES, 3))


@functools.cache
def found(*, is_interleaved: bool) -> tuple[Directive, ...]:
    result = metol.autoschedule(
        remapped(is_interleaved=is_interleaved), machine=some_machine(target=SOME_TARGET), target=SOME_TARGET
    )
    assert result.origin == "search"
    return result.schedule.directives


@pytest.mark.parametrize("is_interleaved", [False, True])
def test_such_outputs_have_a_version_for_sizes_of_a_tile(is_interleaved: bool) -> None:
    directives = found(is_interleaved=is_interleaved)
    assert any(one.call is Call.SPECIALIZE for one in directives)
    assert any(one.call is Call.VECTORIZE for one in directives if one.branch == (0,))
    # With all sizes constant compilers spread gathers out.
    assert all(one.call is not Call.SPECIALIZE_SIZE for one in directives)


@pytest.mark.slow
def test_they_are_right_at_every_size() -> None:
    schedule = metol.autoschedule(remapped(), machine=some_machine(), target=SOME_TARGET).schedule
    ExactRuns("remapped", remapped).check(schedule)
