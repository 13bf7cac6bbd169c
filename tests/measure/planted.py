"""Builders of pipelines for the tests of `measure`: honest ones, and ones that go wrong when built a second time.

The reference schedule is built first and must succeed; what is built afterwards is what a scheduler gets.
"""

import os
import time
from pathlib import Path

import halide as hl

x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")

WIDTH, HEIGHT = 320, 200


def _is_built_again() -> bool:
    """Whether a process has built before; tests copy this file into a folder of their own."""
    mark = Path(__file__).with_suffix(".built")
    was_built = mark.exists()
    mark.touch()
    return was_built


def blur() -> hl.Pipeline:
    """A stencil that reads beyond its output on all sides, and a scalar."""
    source = hl.ImageParam(hl.UInt(8), 2, "source")
    gain = hl.Param(hl.Float(32), "gain")
    rows, result = hl.Func("rows"), hl.Func("result")
    rows[x, y] = hl.f32(source[x - 1, y]) + hl.f32(source[x + 2, y])
    result[x, y] = (rows[x, y - 1] + rows[x, y + 1]) * gain
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(-1, WIDTH + 3), (-1, HEIGHT + 2)])
    gain.set_estimate(0.25)
    print("a builder may print")  # noqa: T201
    return hl.Pipeline(result)


def blur_by_size() -> hl.Pipeline:
    """The same stencil, and a result that depends on how large its input is."""
    source = hl.ImageParam(hl.UInt(8), 2, "source")
    rows, result = hl.Func("rows"), hl.Func("result")
    rows[x, y] = hl.f32(source[x - 1, y]) + hl.f32(source[x + 2, y])
    result[x, y] = rows[x, y] + source.width()
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(-1, WIDTH + 3), (0, HEIGHT)])
    return hl.Pipeline(result)


def rounded_quarters() -> hl.Func:
    """Rounding shifts of 16 bits: of scalars the sum overflows first, in vectors Halide makes one operation of both."""
    source = hl.ImageParam(hl.Int(16), 2, "source")
    result = hl.Func("rounded_quarters")
    result[x, y] = (source[x, y] + hl.i16(2)) >> hl.i16(2)
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def wide_numbers() -> hl.Func:
    """Numbers of 64 bits without a sign, in and out."""
    source = hl.ImageParam(hl.UInt(64), 2, "source")
    result = hl.Func("wide_numbers")
    result[x, y] = source[x, y] * 3 + hl.u64(y)
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def doubles() -> hl.Func:
    """Doubles that were always doubles."""
    source, result = hl.ImageParam(hl.Float(64), 1, "source"), hl.Func("result")
    result[x] = source[x] + source[x + 1]
    source.set_estimates([(0, WIDTH + 1)])
    result.set_estimates([(0, WIDTH)])
    return result


def doubled_singles() -> hl.Func:
    """Doubles that a float of half their size went into."""
    source, result = hl.ImageParam(hl.Float(64), 1, "source"), hl.Func("result")
    result[x] = hl.f64(hl.f32(source[x]) * hl.f32(source[x + 1])) + source[x]
    source.set_estimates([(0, WIDTH + 1)])
    result.set_estimates([(0, WIDTH)])
    return result


def interleaved() -> hl.Func:
    """Channels innermost, in and out; the input has a boundary condition, and floats are rounded to bytes."""
    source = hl.ImageParam(hl.UInt(8), 3, "source")
    source.dim(0).set_stride(3)
    source.dim(2).set_bounds(0, 3).set_stride(1)
    clamped = hl.BoundaryConditions.repeat_edge(source, [(0, source.width()), (0, source.height())])
    result = hl.Func("interleaved")
    result[x, y, c] = hl.u8_sat(hl.f32(clamped[x - 1, y, c]) * hl.f32(0.4) + clamped[x + 1, y, c])
    result.output_buffer().dim(0).set_stride(3)
    result.output_buffer().dim(2).set_bounds(0, 3).set_stride(1)
    result.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    source.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return result


def pair() -> hl.Func:
    """A Tuple of a float and an integer."""
    source = hl.ImageParam(hl.Float(32), 2, "source")
    result = hl.Func("pair")
    result[x, y] = (source[x, y] * 2, hl.i32(source[x, y] * 100))
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def histogram() -> hl.Func:
    """A scatter into few bins, and a read of them that depends on data."""
    source = hl.ImageParam(hl.UInt(8), 2, "source")
    bins, result = hl.Func("bins"), hl.Func("ranks")
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    i = hl.Var("i")
    bins[i] = 0
    bins[hl.i32(source[r.x, r.y])] += 1
    result[x, y] = bins[hl.i32(source[x, y])]
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    source.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def _constant(value: int) -> hl.Func:
    result = hl.Func("constant")
    result[x, y] = x + y + value
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def aborts() -> hl.Func:
    if _is_built_again():
        print("going down", flush=True)  # noqa: T201
        os.abort()
    return _constant(0)


def hangs() -> hl.Func:
    if _is_built_again():
        time.sleep(600)
    return _constant(0)


def always_hangs() -> hl.Func:
    time.sleep(600)
    return _constant(0)


def differs() -> hl.Func:
    return _constant(7 if _is_built_again() else 0)


def errs_at_third() -> hl.Func:
    """Right, but where it is built for the third time."""
    count = Path(__file__).with_suffix(".count")
    with count.open("a") as file:
        file.write(".")
    return _constant(7 if count.stat().st_size == 3 else 0)


def _built_by() -> str:
    """Who builds, where a result that differs from the first reference is judged again."""
    count = Path(__file__).with_suffix(".count")
    with count.open("a") as file:
        file.write(".")
    return ("reference", "schedule", "exact reference", "witness")[count.stat().st_size - 1]


def _long_sums(*, is_wrong: bool) -> hl.Func:
    """Sums that one row of float additions makes about 1 % too large."""
    total, result = hl.Func("total"), hl.Func("result")
    r = hl.RDom([(0, 1 << 10), (0, 1 << 10)], "r")
    total[x] = hl.f32(0)
    total[x] += hl.select(hl.f32(r.x) >= 0, hl.f32(0.1), 0)
    result[x] = total[x] * hl.select(hl.Expr(is_wrong) & (x == 5), hl.f32(1.002), hl.f32(1))
    result.set_estimates([(0, 40)])
    return result


def long_sums() -> hl.Func:
    return _long_sums(is_wrong=False)


def long_sums_one_wrong() -> hl.Func:
    """A schedule of them has one point wrong, by less than the first reference is off."""
    return _long_sums(is_wrong=_built_by() == "schedule")


def _rounded(wrong: hl.Expr | bool, *, is_otherwise: bool) -> hl.Func:
    """Integers from floats, 16 of which are rounded otherwise, and those that are wrong."""
    source, result = hl.ImageParam(hl.Float(32), 2, "source"), hl.Func("rounded")
    is_next_to = hl.Expr(is_otherwise) & (x % 80 == 3) & (y % 50 == 7)
    result[x, y] = hl.i32(hl.floor(source[x, y] * 1000)) + hl.select(is_next_to, 1, 0) + hl.select(wrong, 9, 0)
    source.set_estimates([(0, WIDTH), (0, HEIGHT)])
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def rounds_by_one_place() -> hl.Func:
    """What the schedule alone multiplies by is off in the last place."""
    source, result = hl.ImageParam(hl.Float(32), 2, "source"), hl.Func("rounded")
    factor = 3000 * (1 + 2**-23) if _built_by() == "schedule" else 3000
    result[x, y] = hl.i32(hl.floor(source[x, y] * hl.f32(factor)))
    source.set_estimates([(0, WIDTH), (0, HEIGHT)])
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def rounds_otherwise() -> hl.Func:
    """The device of the schedule, and of the witness, rounds otherwise than the references."""
    return _rounded(wrong=False, is_otherwise=_built_by() in ("schedule", "witness"))


def rounds_otherwise_alone() -> hl.Func:
    """The schedule alone does."""
    return _rounded(wrong=False, is_otherwise=_built_by() == "schedule")


def rounds_otherwise_one_wrong() -> hl.Func:
    """Beside that, the schedule has the last corner wrong."""
    by = _built_by()
    corner = (x == WIDTH - 1) & (y == HEIGHT - 1) & hl.Expr(by == "schedule")
    return _rounded(corner, is_otherwise=by in ("schedule", "witness"))


def rounds_otherwise_column_wrong() -> hl.Func:
    """Beside that, the schedule and the witness have the last column wrong."""
    by = _built_by()
    is_otherwise = by in ("schedule", "witness")
    return _rounded((x == WIDTH - 1) & hl.Expr(is_otherwise), is_otherwise=is_otherwise)


def compares_nan() -> hl.Func:
    """What is no number is not below four, by IEEE 754, and Halide lets a processor find otherwise."""
    source, root, result = hl.ImageParam(hl.Float(32), 1, "source"), hl.Func("root"), hl.Func("result")
    root[x] = hl.sqrt(-1 - source[x])
    result[x] = hl.select(root[x] < 4, 41, 1)
    source.set_estimates([(0, 40)])
    result.set_estimates([(0, 40)])
    return result


def runs_forever() -> hl.Func:
    if not _is_built_again():
        return _constant(0)
    r = hl.RDom([(0, 2**30), (0, 2**30)], "r")
    total, result = hl.Func("total"), hl.Func("constant")
    total[x] = 0
    total[x] += hl.i32(hl.sin(hl.f32(r.x * x + r.y)) * 3)
    result[x, y] = total[x % 7] + y
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def needs_all_memory() -> hl.Func:
    if not _is_built_again():
        return _constant(0)
    table, result = hl.Func("table"), hl.Func("constant")
    table[x, y, c] = x * y + c
    result[x, y] = table[x, y, 0] + table[x, y, 30_000_000]
    result.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return result


def is_scheduled() -> hl.Func:
    """Carries a schedule that must not reach any scheduler."""
    result = _constant(0)
    result.parallel(y).vectorize(x, 8)
    return result


def has_no_estimate() -> hl.Func:
    result = hl.Func("constant")
    result[x, y] = x + y
    return result


def returns_a_number() -> int:
    return 3


def is_broken() -> hl.Func:
    raise ValueError("there is a mistake in this builder")
