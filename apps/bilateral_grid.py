"""Bilateral filter by a grid: pixels are gathered into cells of space and intensity, which are blurred and read back.

A float image of one channel enters and leaves in the same size; the edge is repeated outwards. The grid holds a weight
and a sum per cell; filling it scatters along the intensity axis, and reading it is a data-dependent gather
(Chen, Paris and Durand 2007).
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import gray_photograph

__all__ = ["APP"]

# Pixels along the side of a cell.
_S_SIGMA = 8
_R_SIGMA = 0.1
_TAPS = ((-2, 1), (-1, 4), (0, 6), (1, 4), (2, 1))


def _grid(clamped: hl.Func, r_sigma: hl.Param) -> hl.Func:
    """Return `[x, y, z, c]`: per cell and intensity bin, the sum of the pixels (c = 0) and their count (c = 1)."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    cell = hl.RDom([(0, _S_SIGMA), (0, _S_SIGMA)], "cell")
    half = _S_SIGMA // 2
    pixel = hl.clamp(clamped[x * _S_SIGMA + cell.x - half, y * _S_SIGMA + cell.y - half], 0.0, 1.0)
    nearest_bin = hl.i32(pixel / r_sigma + 0.5)
    grid = hl.Func("grid")
    grid[x, y, z, c] = 0.0
    grid[x, y, nearest_bin, c] += hl.mux(c, [pixel, 1.0])
    return grid


def _blur(grid: hl.Func) -> hl.Func:
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    blur_z, blur_x, blur_y = hl.Func("blur_z"), hl.Func("blur_x"), hl.Func("blur_y")
    blur_z[x, y, z, c] = sum(weight * grid[x, y, z + d, c] for d, weight in _TAPS)
    blur_x[x, y, z, c] = sum(weight * blur_z[x + d, y, z, c] for d, weight in _TAPS)
    blur_y[x, y, z, c] = sum(weight * blur_x[x, y + d, z, c] for d, weight in _TAPS)
    return blur_y


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    image = hl.ImageParam(hl.Float(32), 2, "input")
    r_sigma = hl.Param(hl.Float(32), "r_sigma", _R_SIGMA)
    clamped = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), (0, image.height())])
    blurred = _blur(_grid(clamped, r_sigma))

    depth = hl.clamp(clamped[x, y], 0.0, 1.0) / r_sigma
    below = hl.i32(depth)
    fraction_x, fraction_y = (hl.f32(v % _S_SIGMA) / _S_SIGMA for v in (x, y))
    left, top = x // _S_SIGMA, y // _S_SIGMA

    def across(dy: int, dz: int) -> hl.Expr:
        corners = (blurred[left + dx, top + dy, below + dz, c] for dx in (0, 1))
        return hl.lerp(*corners, fraction_x)

    interpolated = hl.Func("interpolated")
    near, far = (hl.lerp(across(0, dz), across(1, dz), fraction_y) for dz in (0, 1))
    interpolated[x, y, c] = hl.lerp(near, far, depth - below)

    output = hl.Func("bilateral_grid")
    output[x, y] = interpolated[x, y, 0] / interpolated[x, y, 1]

    image.set_estimates([(0, WIDTH), (0, HEIGHT)])
    r_sigma.set_estimate(_R_SIGMA)
    output.set_estimates([(0, WIDTH), (0, HEIGHT)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    height, width = output_shape
    return {"input": gray_photograph(height, width, seed=seed), "r_sigma": _R_SIGMA}


def _filled_grid(image: Array, r_sigma: float) -> Array:
    """Return `[y, x, z, 2]` of the image, with three empty cells around the cells in use."""
    height, width = image.shape
    # Cell i gathers the pixels 8i - 4 .. 8i + 3; cells -2 .. last + 3 are read, of which the outer ones see the edge.
    first, margin = -2, 3
    cells_y, cells_x = ((n - 1) // _S_SIGMA + 1 + margin - first for n in (height, width))
    rows, columns = (first * _S_SIGMA - _S_SIGMA // 2 + np.arange(n * _S_SIGMA) for n in (cells_y, cells_x))
    pixels = image[np.clip(rows, 0, height - 1)][:, np.clip(columns, 0, width - 1)]
    bins = np.floor(pixels / r_sigma + 0.5).astype(int)
    grid = np.zeros((cells_y, cells_x, bins.max() + 7, 2))
    cell_y, cell_x = np.arange(rows.size) // _S_SIGMA, np.arange(columns.size) // _S_SIGMA
    cells: tuple[Array, ...] = (cell_y[:, np.newaxis], cell_x[np.newaxis, :], bins + 2)
    for channel, values in enumerate((pixels, np.ones_like(pixels))):
        np.add.at(grid[..., channel], cells, values)
    return grid


def _reference(inputs: Inputs) -> Array:
    image, r_sigma = inputs["input"].astype(np.float64), float(np.float32(inputs["r_sigma"]))
    grid = _filled_grid(image, r_sigma)
    for axis in range(3):
        windows = np.lib.stride_tricks.sliding_window_view(grid, 5, axis=axis)
        grid = windows @ np.array([weight for _, weight in _TAPS])
    # The blur took two cells from each side, so that now cell, row and bin 0 come first.
    result = np.zeros((*image.shape, 2))
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    position = (y / _S_SIGMA, x / _S_SIGMA, image / r_sigma)
    for corner in np.ndindex(2, 2, 2):
        index = tuple(np.floor(p).astype(int) + d for p, d in zip(position, corner, strict=True))
        weight = np.prod([1 - np.abs(p - i) for p, i in zip(position, index, strict=True)], axis=0)
        result += weight[..., np.newaxis] * grid[index]
    quotient: Array = result[..., 0] / result[..., 1]
    return quotient.astype(np.float32)


APP = App(
    name="bilateral_grid",
    title="Bilateral grid",
    description="Edge-preserving smoothing of one channel through a coarse grid of space and intensity, float32.",
    build=_build,
    output_shape=(HEIGHT, WIDTH),
    small_output_shape=(SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=1e-5, relative=1e-4),
)
