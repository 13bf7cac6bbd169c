"""Maximum over a disc: each pixel takes the largest value within a radius of 26 pixels.

A float colour image enters and leaves in the same size; the edge is repeated outwards. The disc is 53 columns of
different heights. Maxima over 1, 2, 4, ... 32 rows come from each other by doubling; a column of any height is covered
by two of them that overlap, and which ones is looked up per column.
"""

import math

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

_RADIUS = 26
# Two windows of the last size, 2 to the power of 5, are as high as the highest column, or higher.
_WINDOWS = 6
assert 2 << (_WINDOWS - 1) >= 2 * _RADIUS + 1


def _window_maxima(clamped: hl.Func, height: hl.Expr) -> hl.Func:
    """Return `[x, y, c, k]`: the maximum of 2 to the power of k rows from row y downwards, for y >= -_RADIUS.

    Rows below the image are all alike, so there the first one, with which every window starts, is the maximum.
    """
    x, y, c, k = (hl.Var(name) for name in "xyck")
    window = hl.Func("window")
    window[x, y, c, k] = clamped[x, y, c]
    rows = hl.RDom([(-_RADIUS, height + _RADIUS), (1, _WINDOWS - 1)], "rows")
    row, size = rows.x, rows.y
    half = hl.clamp(hl.i32(1) << (size - 1), 1, 1 << (_WINDOWS - 2))
    window[x, row, c, size] = hl.max(window[x, row, c, size - 1], window[x, row + half, c, size - 1])
    return window


def _column_maxima(window: hl.Func) -> hl.Func:
    """Return `[x, y, c, reach]`: the maximum from row y - reach to row y + reach."""
    x, y, c, reach = (hl.Var(name) for name in ("x", "y", "c", "reach"))
    column = hl.Func("column")
    points = 2 * reach + 1
    largest = hl.clamp(31 - hl.i32(hl.count_leading_zeros(points)), 0, _WINDOWS - 1)
    second = y + reach + 1 - hl.clamp(hl.i32(1) << largest, 1, points)
    column[x, y, c, reach] = hl.max(window[x, y - reach, c, largest], window[x, second, c, largest])
    return column


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    image = hl.ImageParam(hl.Float(32), 3, "input")
    clamped = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), (0, image.height())])
    column = _column_maxima(_window_maxima(clamped, image.height()))

    reach = hl.Func("reach")
    # Half a unit above the square: rounding cannot take the root of a square below its integer, nor any other to one.
    reach[x] = hl.i32(hl.sqrt(_RADIUS**2 + 0.5 - hl.f32(x * x)))

    offset = hl.RDom([(-_RADIUS, 2 * _RADIUS + 1)], "offset")
    disc, output = hl.Func("disc"), hl.Func("max_filter")
    disc[x, y, c] = column[x, y, c, _RADIUS]
    disc[x, y, c] = hl.max(disc[x, y, c], column[x + offset.x, y, c, hl.clamp(reach[offset.x], 0, _RADIUS)])
    output[x, y, c] = disc[x, y, c]

    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    return {"input": photograph(height, width, seed=seed, channels=channels)}


def _reference(inputs: Inputs) -> Array:
    image: Array = inputs["input"]
    height, width = image.shape[1:]
    padded = np.pad(image, ((0, 0), (_RADIUS, _RADIUS), (_RADIUS, _RADIUS)), mode="edge")

    def rows(offset: int) -> Array:
        return padded[:, _RADIUS + offset :][:, :height]

    column, result = rows(0), image
    for reach in range(_RADIUS + 1):
        column = np.maximum(column, np.maximum(rows(-reach), rows(reach)))
        for x in range(-_RADIUS, _RADIUS + 1):
            if math.isqrt(_RADIUS**2 - x**2) == reach:
                result = np.maximum(result, column[:, :, _RADIUS + x :][:, :, :width])
    return result


APP = App(
    name="max_filter",
    title="Maximum filter",
    description="Largest value in a disc of radius 26 around each pixel of a colour image, float32.",
    build=_build,
    output_shape=(3, HEIGHT, WIDTH),
    small_output_shape=(3, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=0, relative=0),
)
