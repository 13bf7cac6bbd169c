"""Pipelines that say what the strides of their buffers are: padded rows, upside down, every other element."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import C, X, Y, finish, image, make_gate, schedule_with

import metol
from metol import SearchOptions
from metol.lower import safe_directives
from metol.measure.case import BufferShape
from metol.pipeline import extract

Build = Callable[[], hl.Pipeline]
QUICK = SearchOptions(strategy="greedy")
SIZE = (160, 80)


def stencil(source: hl.ImageParam) -> hl.Func:
    rows, output = hl.Func("rows"), hl.Func("output")
    rows[X, Y] = source[X, Y] * 2 + source[X, Y + 1]
    output[X, Y] = rows[X, Y] + rows[X, Y + 1]
    return output


def padded_input() -> hl.Pipeline:
    source = image(SIZE[0], SIZE[1] + 2)
    source.dim(1).set_stride(192)
    return finish(stencil(source), sizes=SIZE)


def padded_output() -> hl.Pipeline:
    output = stencil(image(SIZE[0], SIZE[1] + 2))
    output.output_buffer().dim(1).set_stride(192)
    return finish(output, sizes=SIZE)


def every_other_element() -> hl.Pipeline:
    source = image(SIZE[0], SIZE[1] + 2)
    source.dim(0).set_stride(2)
    return finish(stencil(source), sizes=SIZE)


def as_wide_as_estimated() -> hl.Pipeline:
    source = image(SIZE[0], SIZE[1] + 2)
    source.dim(1).set_stride(SIZE[0])
    return finish(stencil(source), sizes=SIZE)


def three_of_four_bytes() -> hl.Pipeline:
    source = image(*SIZE, 3, pixel=hl.UInt(8))
    source.dim(0).set_stride(4)
    source.dim(2).set_bounds(0, 3).set_stride(1)
    output = hl.Func("output")
    output[X, Y, C] = hl.u16(source[X, Y, C]) * 2
    return finish(output, sizes=(*SIZE, 3))


def upside_down() -> hl.Pipeline:
    source = image(SIZE[0], SIZE[1] + 2)
    source.dim(1).set_stride(-192)
    return finish(stencil(source), sizes=SIZE)


def output_upside_down() -> hl.Pipeline:
    output = stencil(image(SIZE[0], SIZE[1] + 2))
    output.output_buffer().dim(1).set_stride(-SIZE[0])
    return finish(output, sizes=SIZE)


BUILDS = (
    padded_input,
    padded_output,
    every_other_element,
    as_wide_as_estimated,
    three_of_four_bytes,
    upside_down,
    output_upside_down,
)


@pytest.mark.parametrize("build", BUILDS)
def test_searched_schedules_are_accepted_and_verified(build: Build) -> None:
    result = metol.autoschedule(build(), options=QUICK, threads=2, verify=True)
    assert (result.origin, result.fallbacks) == ("search", ())


@pytest.mark.parametrize("build", BUILDS)
def test_safe_schedule_is_accepted(build: Build) -> None:
    directives = safe_directives(extract(build()), vector_bytes=32)
    assert make_gate(build).refusal(schedule_with(build, directives)) == ""


@pytest.mark.parametrize(
    ("order", "gaps", "strides", "span"),
    [
        ((0, 1, 2), (), (1, 5, 20), 60),
        ((2, 0, 1), (), (3, 1 * 3 * 5, 1), 60),
        ((0, 1, 2), (0, 8, 0), (1, 8, 32), 4 + 3 * 8 + 2 * 32 + 1),
        ((2, 0, 1), (4, 0, 0), (4, 20, 1), 4 * 4 + 3 * 20 + 2 + 1),
        ((0, 1, 2), (2, 0, 0), (2, 10, 40), 4 * 2 + 3 * 10 + 2 * 40 + 1),
    ],
)
def test_shapes_lie_in_memory_as_their_strides_say(
    order: tuple[int, ...], gaps: tuple[int, ...], strides: tuple[int, ...], span: int
) -> None:
    shape = BufferShape("int32", (0, 0, 0), (5, 4, 3), order, gaps)
    assert shape.strides == strides
    assert np.prod(shape.memory_shape) == span
    view = shape.view(np.arange(span, dtype=np.int32).reshape(shape.memory_shape))
    assert view.shape == (3, 4, 5)
    assert view[2, 3, 4] == span - 1
    assert view[0, 0, 1] == strides[0]
    assert BufferShape.of_array(view) == shape
    np.testing.assert_array_equal(shape.view(shape.to_memory(view)), view)


def test_what_lies_upside_down_begins_at_its_end() -> None:
    shape = BufferShape("int32", (0, 0), (5, 4), (0, 1), (0, -8))
    assert shape.strides == (1, -8)
    view = shape.view(np.arange(3 * 8 + 5, dtype=np.int32))
    assert (view[0, 0], view[0, 4], view[3, 0]) == (24, 28, 0)
    assert BufferShape.of_array(view) == shape
    np.testing.assert_array_equal(shape.view(shape.to_memory(view)), view)


def test_strides_of_what_is_empty_do_not_matter() -> None:
    shape = BufferShape.of_array(np.zeros((3, 0), np.int32))
    assert (shape.gaps, shape.memory_shape) == ((), (3, 0))
