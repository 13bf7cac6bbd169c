"""Recursive blur in four passes: down, up, right and left, each a first-order filter that remembers the last pixel.

A float colour image enters and leaves in the same size. Columns are filtered forwards and backwards and the result is
transposed; the same a second time filters the rows and turns the image back (Adams et al. 2019, §6.1).
"""

from itertools import pairwise

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

# Share of the new pixel; the rest is memory.
_ALPHA = 0.1


def _blurred_columns(source: hl.Func | hl.ImageParam, name: str, size: hl.Expr, alpha: hl.Param) -> hl.Func:
    """Filter along the second dimension, of which `size` points exist, forwards and then backwards."""
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    blurred = hl.Func(name)
    blurred[x, y, c] = source[x, y, c]
    down = hl.RDom([(1, size - 1)], f"{name}_down")
    blurred[x, down.x, c] = alpha * source[x, down.x, c] + (1 - alpha) * blurred[x, down.x - 1, c]
    step = hl.RDom([(1, size - 1)], f"{name}_up")
    up = size - 1 - step.x
    blurred[x, up, c] = alpha * blurred[x, up, c] + (1 - alpha) * blurred[x, up + 1, c]
    return blurred


def _transposed(source: hl.Func, name: str) -> hl.Func:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    transposed = hl.Func(name)
    transposed[x, y, c] = source[y, x, c]
    return transposed


def _build() -> hl.Pipeline:
    image = hl.ImageParam(hl.Float(32), 3, "input")
    alpha = hl.Param(hl.Float(32), "alpha", _ALPHA)
    columns = _blurred_columns(image, "blurred_columns", image.height(), alpha)
    rows = _blurred_columns(_transposed(columns, "transposed"), "blurred_rows", image.width(), alpha)
    output = _transposed(rows, "iir_blur")
    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    alpha.set_estimate(_ALPHA)
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    return {"input": photograph(height, width, seed=seed, channels=channels), "alpha": _ALPHA}


def _reference(inputs: Inputs) -> Array:
    image: Array = inputs["input"].astype(np.float64)
    alpha = float(np.float32(inputs["alpha"]))
    for axis in (1, 2):
        lines = np.moveaxis(image, axis, 0)
        for order in (lines, lines[::-1]):
            for previous, line in pairwise(order):
                line *= alpha
                line += (1 - alpha) * previous
    return image.astype(np.float32)


APP = App(
    name="iir_blur",
    title="Recursive blur",
    description="First-order recursive filter of a colour image in all four directions, float32.",
    build=_build,
    output_shape=(3, HEIGHT, WIDTH),
    small_output_shape=(3, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=1e-5, relative=1e-4),
)
