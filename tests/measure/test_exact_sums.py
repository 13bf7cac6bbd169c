"""The more exact reference: long sums of floats in parts."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import X, Y, finish

from metol.measure.at_root import schedule_at_root
from metol.measure.exact_sums import schedule_exactly

TENTH = float(np.float32(0.1))


# A Func, its extents, and how many tenths each of its points is.
Sum = tuple[hl.Func, tuple[int, ...], int]


def one_loop() -> Sum:
    total, r = hl.Func("total"), hl.RDom([(0, 999_983)])
    total[()] = hl.f32(0)
    total[()] += hl.select(r.x >= 0, hl.f32(0.1), 0)
    return total, (), 999_983


def many_loops() -> Sum:
    total, r = hl.Func("total"), hl.RDom([(0, 7), (0, 313), (3, 457), (0, 1)])
    total[X, Y] = hl.f32(0)
    total[X, Y] += hl.select(r.x + r.y + r.z + r.w >= 0, hl.f32(0.1), 0)
    return total, (3, 2), 7 * 313 * 457


def only_where() -> Sum:
    total, r = hl.Func("total"), hl.RDom([(0, 2_000_003)])
    r.where(r.x % 2 == 0)
    total[X] = hl.f32(0)
    total[X] += hl.select(r.x + X >= 0, hl.f32(0.1), 0)
    return total, (2,), 1_000_002


def with_another() -> Sum:
    both, total, r = hl.Func("both"), hl.Func("total"), hl.RDom([(0, 1_000_000)])
    both[X] = (hl.f32(0), 0)
    both[X] = (both[X][0] + hl.select(r.x >= 0, hl.f32(0.1), 0), both[X][1] + 1)
    total[X] = hl.select(both[X][1] == 1_000_000, both[X][0], 0)
    return total, (2,), 1_000_000


def realized(build: Callable[[], Sum], schedule: Callable[[hl.Pipeline], None]) -> np.ndarray:
    total, sizes, _ = build()
    pipeline = finish(total, sizes=sizes)
    schedule(pipeline)
    return np.array(pipeline.realize(list(sizes)))


@pytest.mark.parametrize("build", [one_loop, many_loops, only_where, with_another])
def test_sums_in_parts_are_exact_where_those_in_a_row_are_not(build: Callable[[], Sum]) -> None:
    _, _, terms = build()
    np.testing.assert_allclose(realized(build, schedule_exactly), TENTH * terms, rtol=5e-5)
    assert np.all(np.abs(realized(build, schedule_at_root) - TENTH * terms) > 1e-3 * TENTH * terms)


def test_short_sums_and_sums_of_integers_stay_as_they_are() -> None:
    names = []
    for value, terms in ((hl.f32(1), 1000), (hl.i32(1), 1 << 20)):
        total, r = hl.Func("total"), hl.RDom([(0, terms)])
        total[X] = 0 * value
        total[X] += hl.select(r.x >= 0, value, 0 * value)
        pipeline = finish(total, sizes=(4,))
        schedule_exactly(pipeline)
        names.append(total.rvars(0)[0].name())
        assert np.array(pipeline.realize([4])).tolist() == [terms] * 4
    assert not any("part" in name for name in names)
