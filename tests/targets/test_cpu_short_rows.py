"""Rows shorter than a line: where all of each is read, the next begins in the same line."""

import math

import halide as hl
import pytest
from small_pipelines import WIDE_TARGET, X, Y, finish, image, make_space

from metol import _core
from metol.pipeline import extract

ROWS = 4_000_000


def bytes_read(columns: int, read: int) -> float:
    """Return what the model says comes from memory for some of the columns of rows of floats."""
    source, output = image(columns, ROWS, pixel=hl.Float(32)), hl.Func("output")
    output[X, Y] = source[X, Y] / 2
    space = make_space(extract(finish(output, sizes=(read, ROWS)), target=WIDE_TARGET), target=WIDE_TARGET)
    leaves, costs, _ = space.complete_greedily(space.root(), _core.CostModel())
    assert math.isfinite(costs[0])
    column = list(space.feature_table()).index("bytes_into_l3")
    return float(space.featurize(leaves)[0].sum(axis=0)[column])


@pytest.mark.parametrize(("columns", "lines"), [(4, 1 / 4), (8, 1 / 2), (16, 1), (32, 2)])
def test_rows_that_are_read_whole_share_lines(columns: int, lines: float) -> None:
    assert bytes_read(columns, columns) == pytest.approx(lines * 64 * ROWS, rel=0.01)


def test_half_of_each_row_brings_its_line_in() -> None:
    assert bytes_read(16, 8) == pytest.approx(64 * ROWS, rel=0.01)
