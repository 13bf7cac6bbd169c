"""Reductions of a whole image to a value, or to few: what Halide's `rfactor` accepts, with NumPy references.

Integers, and floats that are small integers, so that the order of a reduction changes no bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import halide as hl
import numpy as np
from small_pipelines import X, finish, image

from metol.lower import Schedule
from metol.measure.compiled import CompiledPipeline

WIDTH, HEIGHT = 700, 300
SIZES = ((WIDTH, HEIGHT), (257, 5), (3, 130), (1, 1))
BINS = 256

Arrays = tuple[np.ndarray, ...]
Step = Callable[[Sequence[hl.Expr], hl.Expr, hl.RDom], Sequence[hl.Expr]]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A pipeline of one input, and what it makes of it."""

    build: Callable[[], hl.Pipeline]
    """Makes the pipeline anew."""
    reference: Callable[[np.ndarray], Arrays]
    """What comes of a source, [rows, columns]: one array a component."""
    pixel: type = np.int32
    """Of the source."""

    def check(self, schedule: Schedule, target: str) -> None:
        """Run a schedule on sources of several sizes, and compare with NumPy to the last bit."""
        pipeline = self.build()
        schedule.apply(pipeline)
        code = CompiledPipeline.compile(pipeline, hl.Target(target)).code
        rng = np.random.default_rng(0)
        for width, height in SIZES:
            source = rng.integers(1, 200, (height, width)).astype(self.pixel)
            expected = self.reference(source)
            results = [np.zeros_like(array) for array in expected]
            code(hl.Buffer(source), *map(hl.Buffer, results))
            for result, array in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, array, err_msg=f"of {width} x {height}")


def _reduce(start: Sequence[hl.Expr], step: Step, *, pixel: hl.Type | None = None, where: bool = False) -> hl.Pipeline:
    """Reduce all points of the source, or some of them, to one value, or to a tuple."""
    source = image(WIDTH, HEIGHT, pixel=pixel)
    r = hl.RDom([(0, source.width()), (0, source.height())], "r")
    if where:
        r.where(r.x % 3 < 2)
    whole = hl.Func("whole")
    is_tuple = len(start) > 1
    whole[()] = tuple(start) if is_tuple else start[0]
    old = [whole[()][i] for i in range(len(start))] if is_tuple else [whole[()]]
    values = step(old, source[r.x, r.y], r)
    whole[()] = tuple(values) if is_tuple else values[0]
    return finish(whole, sizes=())


def _scalar(value: object, dtype: type) -> Arrays:
    return (np.array(value).astype(dtype),)


def _two_of_three(source: np.ndarray) -> np.ndarray:
    return source[:, np.arange(source.shape[1]) % 3 < 2]


def _words(source: np.ndarray) -> np.ndarray:
    return source.astype(np.uint32)


def _sum() -> hl.Pipeline:
    return _reduce([hl.i32(0)], lambda old, value, _: [old[0] + value])


def _sum_where() -> hl.Pipeline:
    return _reduce([hl.i32(0)], lambda old, value, _: [old[0] + value], where=True)


def _sum_of_floats() -> hl.Pipeline:
    return _reduce([hl.f32(0)], lambda old, value, _: [old[0] + value - 100], pixel=hl.Float(32))


def _product() -> hl.Pipeline:
    return _reduce([hl.u32(1)], lambda old, value, _: [old[0] * (hl.u32(value) * hl.u32(2) + hl.u32(1))])


def _largest() -> hl.Pipeline:
    return _reduce([hl.i32(-5)], lambda old, value, _: [hl.max(old[0], value)])


def _least() -> hl.Pipeline:
    return _reduce([hl.u8(255)], lambda old, value, _: [hl.min(old[0], value)], pixel=hl.UInt(8))


def _all() -> hl.Pipeline:
    return _reduce([hl.cast(hl.UInt(1), 1)], lambda old, value, _: [old[0] & (value != 5)])


def _any() -> hl.Pipeline:
    return _reduce([hl.cast(hl.UInt(1), 0)], lambda old, value, _: [old[0] | (value == 5)])


def place_of_largest(pixel: hl.Type) -> hl.Pipeline:
    """Find the largest of ranks of a type, and where it is, the last of those that are equal."""

    def step(old: Sequence[hl.Expr], value: hl.Expr, r: hl.RDom) -> list[hl.Expr]:
        place = r.x + 1024 * r.y
        rank = hl.cast(pixel, value) * hl.cast(pixel, value)
        return [hl.max(old[0], rank), hl.select(rank < old[0], old[1], place)]

    return _reduce([hl.cast(pixel, 0), hl.i32(-1)], step)


def _place_in(source: np.ndarray) -> Arrays:
    rows, columns = np.indices(source.shape)
    places = columns + 1024 * rows
    ranks = source * source
    return *_scalar(ranks.max(), np.uint32), *_scalar(places[ranks == ranks.max()].max(), np.int32)


def _sums_of_rows() -> hl.Pipeline:
    source, sums = image(WIDTH, HEIGHT), hl.Func("sums")
    r = hl.RDom([(0, source.width())], "r")
    sums[X] = 0
    sums[X] += source[r.x, X]
    return finish(sums, sizes=(HEIGHT,))


def _means_of_rows() -> hl.Pipeline:
    source, sums, means = image(WIDTH, HEIGHT), hl.Func("sums"), hl.Func("means")
    r = hl.RDom([(0, source.width())], "r")
    sums[X] = 0
    sums[X] += source[r.x, X]
    means[X] = sums[X] // source.width()
    return finish(means, sizes=(HEIGHT,))


def _bins(count: hl.Type) -> hl.Pipeline:
    source, bins = image(WIDTH, HEIGHT, pixel=hl.UInt(8)), hl.Func("bins")
    r = hl.RDom([(0, source.width()), (0, source.height())], "r")
    bins[X] = hl.cast(count, 0)
    bins[hl.i32(source[r.x, r.y])] += hl.cast(count, 1)
    return finish(bins, sizes=(BINS,))


def _counts(dtype: type) -> Callable[[np.ndarray], Arrays]:
    return lambda source: (np.bincount(source.ravel(), minlength=BINS).astype(dtype),)


REDUCTIONS = {
    "sum": Reduction(_sum, lambda source: _scalar(source.sum(), np.int32)),
    "sum_where": Reduction(_sum_where, lambda source: _scalar(_two_of_three(source).sum(), np.int32)),
    "sum_of_floats": Reduction(_sum_of_floats, lambda source: _scalar((source - 100).sum(), np.float32), np.float32),
    "product": Reduction(_product, lambda source: _scalar(np.prod(2 * _words(source) + 1, dtype=np.uint32), np.uint32)),
    "largest": Reduction(_largest, lambda source: _scalar(source.max(), np.int32)),
    "least": Reduction(_least, lambda source: _scalar(source.min(), np.uint8), np.uint8),
    "all": Reduction(_all, lambda source: _scalar((source != 5).all(), np.bool_)),
    "any": Reduction(_any, lambda source: _scalar((source == 5).any(), np.bool_)),
    "place_of_largest": Reduction(lambda: place_of_largest(hl.UInt(32)), _place_in),
    "sums_of_rows": Reduction(_sums_of_rows, lambda source: (source.sum(1).astype(np.int32),)),
    "bins": Reduction(lambda: _bins(hl.UInt(32)), _counts(np.uint32), np.uint8),
    "bins_of_16_bits": Reduction(lambda: _bins(hl.UInt(16)), _counts(np.uint16), np.uint8),
    "means_of_rows": Reduction(_means_of_rows, lambda source: ((source.sum(1) // source.shape[1]).astype(np.int32),)),
}
