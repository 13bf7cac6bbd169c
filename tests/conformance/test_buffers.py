"""Where inputs and outputs lie in memory: strides, alignment, wrappers, bound buffers, one place for two."""

from dataclasses import replace

import halide as hl
import numpy as np
import pytest
from verified_runs import QUICK, Inputs, check, image

import metol
from metol.errors import MetolError
from metol.lower import Tail

X, Y, C = hl.Var("x"), hl.Var("y"), hl.Var("c")


def interleaved() -> hl.Pipeline:
    """Three channels a pixel, in memory as in a file, in and out."""
    source = image(hl.UInt(8), "source", 80, 60, 3)
    gray, output = hl.Func("gray"), hl.Func("output")
    gray[X, Y] = hl.u16(source[X, Y, 0]) + source[X, Y, 1] * 2 + source[X, Y, 2]
    output[X, Y, C] = hl.u8(gray[X, Y] // 4) - source[X, Y, C] // 2
    for buffer in (source, output.output_buffer()):
        buffer.dim(0).set_stride(3)
        buffer.dim(2).set_stride(1)
        buffer.dim(2).set_bounds(0, 3)
    output.set_estimates([(0, 80), (0, 60), (0, 3)])
    return hl.Pipeline(output)


def test_interleaved_channels() -> None:
    check(interleaved, [(80, 60, 3)], [(2, 1, 3)], [(37, 5, 3)])


def arranged(strides: tuple[int, ...]) -> hl.Pipeline:
    """Memory in which another dimension than the first is dense, or which has pixels along another."""
    source = image(hl.UInt(8), "source", 48, 60, 3)
    blurred, output = hl.Func("blurred"), hl.Func("output")
    blurred[X, Y, C] = hl.u8((hl.u16(source[X, Y, C]) + source[hl.min(X + 1, 47), Y, C]) / 2)
    output[X, Y, C] = blurred[X, Y, C] + blurred[X, hl.min(Y + 1, 59), C] // 2
    for buffer in (source, output.output_buffer()):
        for dimension, stride in enumerate(strides):
            buffer.dim(dimension).set_stride(stride or hl.Expr())
    output.set_estimates([(0, 48), (0, 60), (0, 3)])
    return hl.Pipeline(output)


@pytest.mark.parametrize("strides", [(0, 1, 0), (0, 3, 1), (0, 0, 1), (64 * 60, 1, 60)])
def test_other_dimensions_are_dense(strides: tuple[int, ...]) -> None:
    check(lambda: arranged(strides), [(48, 60, 3)], [(4, 1, 3)], [(37, 5, 3)])


def any_stride() -> hl.Pipeline:
    """Strides that are told only when it runs."""
    source, output = image(hl.Int(32), "source", 82, 60), hl.Func("output")
    source.dim(0).set_stride(hl.Expr())
    output[X, Y] = source[X, Y] + source[X + 2, Y]
    output.output_buffer().dim(0).set_stride(hl.Expr())
    output.set_estimates([(0, 80), (0, 60)])
    return hl.Pipeline(output)


def test_strides_that_are_not_known() -> None:
    check(any_stride, [(80, 60)], [(1, 1)], [(37, 5)])


def aligned() -> hl.Pipeline:
    """Promises about alignment, and places that are not at 0."""
    source, output = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("output")
    source.set_estimates([(16, 112), (0, 60)])
    source.set_host_alignment(64)
    source.dim(0).set_min(16)
    source.dim(1).set_stride(source.dim(0).extent())
    output[X, Y] = source[X + 16, Y] * 2 + source[X + 20, Y]
    output.output_buffer().dim(0).set_min(0)
    output.output_buffer().dim(0).set_extent((output.output_buffer().dim(0).extent() // 4) * 4)
    output.set_estimates([(0, 96), (0, 60)])
    return hl.Pipeline(output)


def test_alignment_and_places() -> None:
    check(aligned, [(96, 60)], [(4, 1)], [(36, 5)])


def fixed_output() -> hl.Pipeline:
    """An output with every constraint there is; it needs no estimate."""
    source, output = image(hl.Int(32), "source", 66, 40), hl.Func("output")
    output[X, Y] = source[X, Y] - source[X + 2, Y]
    output.output_buffer().dim(0).set_bounds(0, 64)
    output.output_buffer().dim(1).set_bounds(0, 40).set_stride(64)
    return hl.Pipeline(output)


def test_constraints_of_an_output_are_its_estimate() -> None:
    check(fixed_output, [(64, 40)])


def wrapped() -> hl.Pipeline:
    """Wrappers of an input, of a Func for one consumer, and for all; all of them scheduled."""
    source = image(hl.Int(32), "source", 82, 62)
    first, second, output = hl.Func("first"), hl.Func("second"), hl.Func("output")
    first[X, Y] = source[X, Y] * 3
    second[X, Y] = first[X, Y] + first[X + 1, Y]
    output[X, Y] = second[X, Y] - first[X, Y + 1]
    staged, for_one, for_all = source.in_(), first.in_(second), second.in_()
    output.set_estimates([(0, 80), (0, 60)])
    staged.compute_at(output, Y)
    for_one.compute_root().vectorize(X, 8)
    first.compute_root()
    for_all.compute_at(output, X)
    second.compute_root()
    return hl.Pipeline(output)


def plain() -> hl.Pipeline:
    source = image(hl.Int(32), "source", 82, 62)
    first, second, output = hl.Func("first"), hl.Func("second"), hl.Func("output")
    first[X, Y] = source[X, Y] * 3
    second[X, Y] = first[X, Y] + first[X + 1, Y]
    output[X, Y] = second[X, Y] - first[X, Y + 1]
    output.set_estimates([(0, 80), (0, 60)])
    return hl.Pipeline(output)


def test_wrappers_of_the_user() -> None:
    pipeline = wrapped()
    result = metol.autoschedule(pipeline, options=QUICK, threads=2)
    # The wrappers are gone with the schedule that they were part of, and nothing else.
    assert [func.name for func in result.schedule.funcs] == ["source_im", "first", "second", "output"]
    again = check(plain, [(80, 60)], [(1, 1)], [(37, 5)])
    source = np.arange(82 * 62, dtype=np.int32).reshape(62, 82)
    other = plain()
    again.schedule.apply(other)
    np.testing.assert_array_equal(run(pipeline, source), run(other, source))


def run(pipeline: hl.Pipeline, source: np.ndarray) -> np.ndarray:
    output = np.zeros((60, 80), np.int32)
    code = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
    code(hl.Buffer(source), hl.Buffer(output))
    return output


def bound(pixels: np.ndarray, table: hl.Buffer) -> hl.Pipeline:
    """Nothing but the output has an estimate: a bound input, a constant image, a value."""
    source, gain = hl.ImageParam(hl.Int(32), 2, "source"), hl.Param(hl.Int(32), "gain")
    source.set(hl.Buffer(pixels))
    gain.set(3)
    scaled, output = hl.Func("scaled"), hl.Func("output")
    padded = hl.BoundaryConditions.repeat_edge(source)
    scaled[X, Y] = padded[X - 1, Y] * gain + padded[X + gain, Y]
    output[X, Y] = scaled[X, Y] + scaled[X, Y + 1] + table[X % 16]
    output.set_estimates([(0, 80), (0, 60)])
    return hl.Pipeline(output)


def test_bound_buffers_are_estimates() -> None:
    pixels = np.arange(80 * 60, dtype=np.int32).reshape(60, 80)
    table = hl.Buffer(np.arange(100, 116, dtype=np.int32))
    result = check(lambda: bound(pixels, table), [(80, 60)], [(1, 1)], inputs=Inputs({"source": (80, 60)}, {"gain": 3}))
    estimates = {e.name: e.bounds or e.value for e in result.schedule.estimates}
    assert estimates["source_im"] == ((0, 80), (0, 60))
    assert estimates["gain"] == 3


@pytest.mark.slow
def test_bound_buffers_serve_verification() -> None:
    pixels = np.arange(80 * 60, dtype=np.int32).reshape(60, 80)
    table = hl.Buffer(np.arange(100, 116, dtype=np.int32))
    result = metol.autoschedule(bound(pixels, table), options=QUICK, threads=2, verify=True)
    assert "80x60" in result.verification


def brighten(kind: hl.Type) -> hl.Pipeline:
    """A chain of points: each output point depends on the input point of the same place alone."""
    source = image(kind, "source", 640, 40)
    curve, output = hl.Func("curve"), hl.Func("output")
    curve[X, Y] = source[X, Y] * 3 + 1
    output[X, Y] = curve[X, Y] * curve[X, Y] + source[X, Y]
    output.set_estimates([(0, 640), (0, 40)])
    return hl.Pipeline(output)


@pytest.mark.parametrize("kind", ["UInt 8", "Int 32"])
def test_output_in_the_place_of_the_input(kind: str) -> None:
    family, bits = kind.split()
    type_ = getattr(hl, family)(int(bits))
    options = replace(QUICK, may_alias=True)
    result = metol.autoschedule(brighten(type_), options=options, threads=2)
    pipeline = brighten(type_)
    result.schedule.apply(pipeline)
    code = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
    rng = np.random.default_rng(0)
    for width, height in ((640, 40), (1, 1), (17, 3), (37, 5), (101, 41), (255, 2)):
        pixels = rng.integers(0, 200, (height, width)).astype(f"{family.lower()}{bits}")
        curve = pixels * 3 + 1
        expected = curve * curve + pixels
        buffer = hl.Buffer(pixels)
        code(buffer, buffer)
        np.testing.assert_array_equal(pixels, expected, err_msg=f"at {width}x{height}")


@pytest.mark.parametrize("may_alias", [False, True])
def test_output_recomputes_points_unless_it_may_alias(may_alias: bool) -> None:
    options = replace(QUICK, may_alias=may_alias)
    schedule = metol.autoschedule(brighten(hl.Int(32)), options=options, threads=2).schedule
    tails = {argument for directive in schedule.directives for argument in directive.args}
    assert (Tail.SHIFT_INWARDS in tails) is not may_alias


def promised() -> hl.Pipeline:
    """What an input says is where another Func is read, and never beyond 50: so says the author."""
    source, place = image(hl.Int(32), "source", 128, 48), image(hl.Int(32), "place", 64, 48)
    tripled, output = hl.Func("tripled"), hl.Func("output")
    tripled[X, Y] = source[X, Y] * 3 + 1
    output[X, Y] = tripled[hl.unsafe_promise_clamped(place[X, Y], 0, 50), Y] + tripled[X, Y]
    output.set_estimates([(0, 64), (0, 48)])
    return hl.Pipeline(output)


def test_where_random_inputs_break_a_promise_is_told() -> None:
    with pytest.raises(MetolError, match=r"promises bounds with `unsafe_promise_clamped`.*without `verify`"):
        metol.autoschedule(promised(), options=QUICK, threads=2, verify=True)
    assert metol.autoschedule(promised(), options=QUICK, threads=2).origin == "search"
