"""Non-local means: each pixel becomes a mean of the 49 pixels around it, weighted by how alike their surroundings are.

A float colour image enters and leaves in the same size; the edge is repeated outwards. The surroundings are patches of
7x7 pixels, whose squared differences are summed over colours, columns and rows in turn, for each of the 7x7 offsets
(Buades, Coll and Morel 2005).
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

_CHANNELS = 3
_PATCH = 7
_SEARCH = 7
_SIGMA = 0.12


def _weights(clamped: hl.Func, sigma: hl.Param) -> hl.Func:
    """Return `[x, y, dx, dy]`: how alike the patches around a pixel and around the one at this offset are, up to 1."""
    x, y, dx, dy = (hl.Var(name) for name in ("x", "y", "dx", "dy"))
    channel = hl.RDom([(0, _CHANNELS)], "channel")
    row, column = (hl.RDom([(-(_PATCH // 2), _PATCH)], name) for name in ("row", "column"))

    distance, distance_y, distance_xy = hl.Func("distance"), hl.Func("distance_y"), hl.Func("distance_xy")
    difference = clamped[x, y, channel.x] - clamped[x + dx, y + dy, channel.x]
    distance[x, y, dx, dy] = hl.f32(0)
    distance[x, y, dx, dy] += difference * difference
    distance_y[x, y, dx, dy] = hl.f32(0)
    distance_y[x, y, dx, dy] += distance[x, y + row.x, dx, dy]
    distance_xy[x, y, dx, dy] = hl.f32(0)
    distance_xy[x, y, dx, dy] += distance_y[x + column.x, y, dx, dy]

    weight = hl.Func("weight")
    weight[x, y, dx, dy] = hl.fast_exp(distance_xy[x, y, dx, dy] * (-1 / (sigma * sigma * _PATCH**2)))
    return weight


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    image = hl.ImageParam(hl.Float(32), 3, "input")
    sigma = hl.Param(hl.Float(32), "sigma", _SIGMA)
    clamped = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), (0, image.height())])
    weight = _weights(clamped, sigma)

    with_one = hl.Func("with_one")
    with_one[x, y, c] = hl.mux(c, [*(clamped[x, y, channel] for channel in range(_CHANNELS)), hl.f32(1)])

    side = (-(_SEARCH // 2), _SEARCH)
    offset = hl.RDom([side, side], "offset")
    weighted, output = hl.Func("weighted"), hl.Func("nl_means")
    weighted[x, y, c] = hl.f32(0)
    weighted[x, y, c] += weight[x, y, offset.x, offset.y] * with_one[x + offset.x, y + offset.y, c]
    output[x, y, c] = hl.clamp(weighted[x, y, c] / weighted[x, y, _CHANNELS], 0.0, 1.0)

    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, _CHANNELS)])
    sigma.set_estimate(_SIGMA)
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, _CHANNELS)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    return {"input": photograph(height, width, seed=seed, channels=channels), "sigma": _SIGMA}


def _reference(inputs: Inputs) -> Array:
    image, sigma = inputs["input"].astype(np.float64), float(np.float32(inputs["sigma"]))
    reach, patch = _SEARCH // 2, _PATCH // 2
    margin = reach + patch
    padded = np.pad(image, ((0, 0), (margin, margin), (margin, margin)), mode="edge")
    height, width = image.shape[1:]

    def moved(dy: int, dx: int, border: int) -> Array:
        top, left = margin + dy - border, margin + dx - border
        return padded[:, top : top + height + 2 * border, left : left + width + 2 * border]

    total, weights = np.zeros_like(image), np.zeros_like(image[0])
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            distance = np.sum((moved(0, 0, patch) - moved(dy, dx, patch)) ** 2, axis=0)
            for axis in (0, 1):
                distance = np.lib.stride_tricks.sliding_window_view(distance, _PATCH, axis=axis).sum(axis=-1)
            weight = np.exp(-distance / (sigma * _PATCH) ** 2)
            total += weight * moved(dy, dx, 0)
            weights += weight
    result: Array = np.clip(total / weights, 0, 1)
    return result.astype(np.float32)


APP = App(
    name="nl_means",
    title="Non-local means",
    description="Removes noise from a colour image by comparing patches of 7x7 at 7x7 offsets, float32.",
    build=_build,
    output_shape=(_CHANNELS, HEIGHT, WIDTH),
    small_output_shape=(_CHANNELS, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=1e-4, relative=1e-4),
)
