"""Harris corner detection: gradients of the luminance, their covariance over 3x3 pixels, and the corner response.

A float colour image enters, a float response leaves that is smaller by a margin of two pixels on each side, so that
no boundary condition is needed. Twelve small stencils and pointwise stages (Harris and Stephens 1988).
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

# One pixel for the gradient, one for the sum over its neighbourhood.
_MARGIN = 2
_SENSITIVITY = 0.04


def _box_sum(source: hl.Func, name: str) -> hl.Func:
    x, y = hl.Var("x"), hl.Var("y")
    total = hl.Func(name)
    total[x, y] = sum(source[x + dx, y + dy] for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    return total


def _product(left: hl.Func, right: hl.Func, name: str) -> hl.Func:
    x, y = hl.Var("x"), hl.Var("y")
    product = hl.Func(name)
    product[x, y] = left[x, y] * right[x, y]
    return product


def _build() -> hl.Pipeline:
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Float(32), 3, "input")

    gray = hl.Func("gray")
    red, green, blue = (image[x + _MARGIN, y + _MARGIN, c] for c in range(3))
    gray[x, y] = hl.f32(0.299) * red + hl.f32(0.587) * green + hl.f32(0.114) * blue

    gradient_x, gradient_y = hl.Func("gradient_x"), hl.Func("gradient_y")
    smoothing = ((-1, 1), (0, 2), (1, 1))
    gradient_x[x, y] = sum(w * (gray[x + 1, y + d] - gray[x - 1, y + d]) for d, w in smoothing) / 12.0
    gradient_y[x, y] = sum(w * (gray[x + d, y + 1] - gray[x + d, y - 1]) for d, w in smoothing) / 12.0

    sum_xx = _box_sum(_product(gradient_x, gradient_x, "product_xx"), "sum_xx")
    sum_xy = _box_sum(_product(gradient_x, gradient_y, "product_xy"), "sum_xy")
    sum_yy = _box_sum(_product(gradient_y, gradient_y, "product_yy"), "sum_yy")

    determinant, trace, response = hl.Func("determinant"), hl.Func("trace"), hl.Func("harris")
    determinant[x, y] = sum_xx[x, y] * sum_yy[x, y] - sum_xy[x, y] * sum_xy[x, y]
    trace[x, y] = sum_xx[x, y] + sum_yy[x, y]
    response[x, y] = determinant[x, y] - hl.f32(_SENSITIVITY) * trace[x, y] * trace[x, y]

    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    response.set_estimates([(0, WIDTH - 2 * _MARGIN), (0, HEIGHT - 2 * _MARGIN)])
    return hl.Pipeline(response)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    height, width = output_shape
    return {"input": photograph(height + 2 * _MARGIN, width + 2 * _MARGIN, seed=seed)}


def _valid_correlation(image: Array, weights: Array) -> Array:
    """Correlate `image` with 3x3 weights where they fit inside."""
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape)
    result: Array = np.einsum("yxij,ij->yx", windows, weights)
    return result


def _reference(inputs: Inputs) -> Array:
    gray = np.tensordot([0.299, 0.587, 0.114], inputs["input"].astype(np.float64), axes=1)
    sobel = np.outer([1, 2, 1], [-1, 0, 1]) / 12
    gradient_x, gradient_y = _valid_correlation(gray, sobel), _valid_correlation(gray, sobel.T)
    box = np.ones((3, 3))
    sum_xx = _valid_correlation(gradient_x**2, box)
    sum_xy = _valid_correlation(gradient_x * gradient_y, box)
    sum_yy = _valid_correlation(gradient_y**2, box)
    response: Array = sum_xx * sum_yy - sum_xy**2 - _SENSITIVITY * (sum_xx + sum_yy) ** 2
    return response.astype(np.float32)


APP = App(
    name="harris",
    title="Harris corners",
    description="Corner response of a colour image: 3x3 stencils and pointwise stages, float32.",
    build=_build,
    output_shape=(HEIGHT - 2 * _MARGIN, WIDTH - 2 * _MARGIN),
    small_output_shape=(SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    # The two terms of the response cancel along edges, hence the absolute part; corners respond with 1e-4 and more.
    tolerance=Tolerance(absolute=1e-8, relative=1e-4),
)
