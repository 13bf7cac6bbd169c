"""Local Laplacian filter: detail is boosted at every scale without halos, through pyramids of 8 levels.

A 16-bit colour image enters and leaves in the same size; the edge is repeated outwards. For each of `levels`
intensities the luminance is remapped around it and decomposed; each coefficient of the output pyramid interpolates
between the two decompositions nearest to the local intensity (Paris, Hasinoff and Kautz 2011). About 90 Funcs.
"""

from itertools import pairwise

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph_uint16

__all__ = ["APP"]

_PYRAMID_LEVELS = 8
_LEVELS = 8
_ALPHA = 1.0
_BETA = 1.0
# Luma weights of ITU-R BT.601 in 256ths.
_LUMA = (77, 150, 29)
_WHITE = 65535
# Entries of the remapping curve between two intensity levels.
_CURVE_STEPS = 256
# Keeps the ratio of colour to gray finite where the image is black.
_DARKEST = 0.01


def _downsample(source: hl.Func, name: str, rest: tuple[hl.Var, ...]) -> hl.Func:
    """Halve both dimensions with the filter 1 3 3 1; `rest` are the dimensions after x and y."""

    def at(x: hl.Expr, y: hl.Expr) -> tuple[hl.Expr, ...]:
        return (x, y, *rest)

    x, y = hl.Var("x"), hl.Var("y")
    down_x, down = hl.Func(f"{name}_down_x"), hl.Func(name)
    taps = ((-1, 1), (0, 3), (1, 3), (2, 1))
    down_x[at(x, y)] = sum(weight * source[at(2 * x + d, y)] for d, weight in taps) / 8.0
    down[at(x, y)] = sum(weight * down_x[at(x, 2 * y + d)] for d, weight in taps) / 8.0
    return down


def _upsample(source: hl.Func, name: str, rest: tuple[hl.Var, ...]) -> hl.Func:
    """Double both dimensions, with weights 3/4 and 1/4 for the nearest and the next nearest pixel."""

    def at(x: hl.Expr, y: hl.Expr) -> tuple[hl.Expr, ...]:
        return (x, y, *rest)

    x, y = hl.Var("x"), hl.Var("y")
    up_x, up = hl.Func(f"{name}_up_x"), hl.Func(f"{name}_up")
    next_x, next_y = (v // 2 - 1 + 2 * (v % 2) for v in (x, y))
    up_x[at(x, y)] = 0.75 * source[at(x // 2, y)] + 0.25 * source[at(next_x, y)]
    up[at(x, y)] = 0.75 * up_x[at(x, y // 2)] + 0.25 * up_x[at(x, next_y)]
    return up


def _gaussian_pyramid(finest: hl.Func, name: str, rest: tuple[hl.Var, ...]) -> list[hl.Func]:
    pyramid = [finest]
    for level in range(1, _PYRAMID_LEVELS):
        pyramid.append(_downsample(pyramid[-1], f"{name}_{level}", rest))
    return pyramid


def _laplacian_pyramid(gaussian: list[hl.Func], name: str, rest: tuple[hl.Var, ...]) -> list[hl.Func]:
    """Return what each level has beyond the next coarser one; the coarsest is its own."""
    point = (hl.Var("x"), hl.Var("y"), *rest)
    pyramid = []
    for level, (fine, coarse) in enumerate(pairwise(gaussian)):
        difference = hl.Func(f"{name}_{level}")
        difference[point] = fine[point] - _upsample(coarse, f"{name}_{level}", rest)[point]
        pyramid.append(difference)
    return [*pyramid, gaussian[-1]]


def _remapped(luma: hl.Func, gray: hl.Func, levels: hl.Param, alpha: hl.Param, beta: hl.Param) -> hl.Func:
    """Return `[x, y, k]`: the luminance with contrast `beta` around intensity k, and detail near it raised by `alpha`.

    The entry of the curve is found in integers: a float product might round to either of two entries.
    That needs levels <= 128 to fit in 32 bits.
    """
    x, y, k, entry = (hl.Var(name) for name in ("x", "y", "k", "entry"))
    curve, remapped = hl.Func("curve"), hl.Func("remapped")
    distance = hl.f32(entry) / _CURVE_STEPS
    step = 1.0 / hl.f32(levels - 1)
    curve[entry] = alpha * step * distance * hl.exp(-0.5 * distance * distance)
    position = hl.i32(luma[x, y]) * (levels - 1) * _CURVE_STEPS // (_WHITE + 1)
    intensity = k * step
    remapped[x, y, k] = intensity + beta * (gray[x, y] - intensity) + curve[position - _CURVE_STEPS * k]
    return remapped


def _interpolated(laplacian: list[hl.Func], guide: list[hl.Func], levels: hl.Param) -> list[hl.Func]:
    """Return the output's Laplacian pyramid `[x, y]`: between the two intensities that the guide lies between."""
    x, y = hl.Var("x"), hl.Var("y")
    pyramid = []
    for level, (coefficients, local) in enumerate(zip(laplacian, guide, strict=True)):
        position = local[x, y] * hl.f32(levels - 1)
        below = hl.clamp(hl.i32(position), 0, levels - 2)
        output = hl.Func(f"output_laplacian_{level}")
        output[x, y] = hl.lerp(coefficients[x, y, below], coefficients[x, y, below + 1], position - below)
        pyramid.append(output)
    return pyramid


def _collapsed(laplacian: list[hl.Func]) -> hl.Func:
    x, y = hl.Var("x"), hl.Var("y")
    image = laplacian[-1]
    for level in reversed(range(len(laplacian) - 1)):
        finer = hl.Func(f"output_gaussian_{level}")
        finer[x, y] = laplacian[level][x, y] + _upsample(image, f"output_gaussian_{level}", ())[x, y]
        image = finer
    return image


def _build() -> hl.Pipeline:
    x, y, c, k = (hl.Var(name) for name in "xyck")
    image = hl.ImageParam(hl.UInt(16), 3, "input")
    levels = hl.Param(hl.Int(32), "levels", _LEVELS)
    alpha = hl.Param(hl.Float(32), "alpha", _ALPHA)
    beta = hl.Param(hl.Float(32), "beta", _BETA)
    clamped = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), (0, image.height())])

    luma, gray = hl.Func("luma"), hl.Func("gray")
    weighted = sum(hl.u32(weight) * hl.u32(clamped[x, y, channel]) for channel, weight in enumerate(_LUMA))
    luma[x, y] = hl.u16((weighted + hl.u32(128)) >> 8)
    gray[x, y] = hl.f32(luma[x, y]) / _WHITE

    remapped = _remapped(luma, gray, levels, alpha, beta)
    gaussian = _gaussian_pyramid(remapped, "gaussian", (k,))
    laplacian = _laplacian_pyramid(gaussian, "laplacian", (k,))
    guide = _gaussian_pyramid(gray, "guide", ())
    filtered = _collapsed(_interpolated(laplacian, guide, levels))

    colour, output = hl.Func("colour"), hl.Func("local_laplacian")
    normalized, darkest = hl.f32(clamped[x, y, c]) / _WHITE, hl.f32(_DARKEST)
    ratio = (normalized + darkest) / (gray[x, y] + darkest)
    colour[x, y, c] = (filtered[x, y] + darkest) * ratio - darkest
    output[x, y, c] = hl.u16(hl.clamp(colour[x, y, c], 0.0, 1.0) * _WHITE + 0.5)

    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    for scalar, estimate in ((levels, _LEVELS), (alpha, _ALPHA), (beta, _BETA)):
        scalar.set_estimate(estimate)
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    image = photograph_uint16(height, width, seed=seed, channels=channels)
    return {"input": image, "levels": _LEVELS, "alpha": _ALPHA, "beta": _BETA}


def _halved(image: Array) -> Array:
    for axis in (0, 1):
        image = np.moveaxis(image, axis, 0)
        padded = np.pad(image, ((1, 1), (0, 0)), mode="edge")
        image = (padded[:-3:2] + 3 * padded[1:-2:2] + 3 * padded[2:-1:2] + padded[3::2]) / 8
        image = np.moveaxis(image, 0, axis)
    return image


def _doubled(image: Array) -> Array:
    for axis in (0, 1):
        image = np.moveaxis(image, axis, 0)
        padded = np.pad(image, ((1, 1), (0, 0)), mode="edge")
        even, odd = (0.75 * image + 0.25 * neighbour for neighbour in (padded[:-2], padded[2:]))
        image = np.moveaxis(np.stack([even, odd], axis=1).reshape(-1, image.shape[1]), 0, axis)
    return image


def _halved_repeatedly(image: Array) -> list[Array]:
    pyramid = [image]
    while len(pyramid) < _PYRAMID_LEVELS:
        pyramid.append(_halved(pyramid[-1]))
    return pyramid


def _filtered(gray: Array, position: Array, levels: int, alpha: float, beta: float) -> Array:
    """Return the filtered luminance; sides must be multiples of 256 and the outer 512 pixels constant along normals."""
    guide = _halved_repeatedly(gray)
    output = [np.zeros_like(level) for level in guide]
    for k in range(levels):
        distance = (position - _CURVE_STEPS * k) / _CURVE_STEPS
        detail = alpha * distance * np.exp(-(distance**2) / 2) / (levels - 1)
        intensity = k / (levels - 1)
        gaussian = _halved_repeatedly(intensity + beta * (gray - intensity) + detail)
        laplacian = [*(a - _doubled(b) for a, b in pairwise(gaussian)), gaussian[-1]]
        for total, local, coefficients in zip(output, guide, laplacian, strict=True):
            # Linear interpolation, written as a sum over all intensities of which at most two have a weight.
            total += np.maximum(0, 1 - np.abs(local * (levels - 1) - k)) * coefficients
    image = output[-1]
    for finer in reversed(output[:-1]):
        image = finer + _doubled(image)
    return image


def _reference(inputs: Inputs) -> Array:
    image, levels = inputs["input"].astype(np.int64), inputs["levels"]
    height, width = image.shape[1:]
    # Beyond the repeated edge nothing changes, so this much of it stands for an image without end.
    margin, block = 512, 256
    sides = [(margin, margin + -size % block) for size in (height, width)]
    luma = np.pad((np.tensordot(_LUMA, image, axes=1) + 128) // 256, sides, mode="edge")
    position = luma * (levels - 1) * _CURVE_STEPS // (_WHITE + 1)
    gray = luma / _WHITE
    filtered = _filtered(gray, position, levels, inputs["alpha"], inputs["beta"])
    inside = np.s_[margin : margin + height, margin : margin + width]
    ratio = (image / _WHITE + _DARKEST) / (gray[inside] + _DARKEST)
    colour: Array = (filtered[inside] + _DARKEST) * ratio - _DARKEST
    return np.floor(np.clip(colour, 0, 1) * _WHITE + 0.5).astype(np.uint16)


APP = App(
    name="local_laplacian",
    title="Local Laplacian",
    description="Boosts local detail of a colour image through pyramids of 8 levels at 8 intensities, uint16.",
    build=_build,
    output_shape=(3, HEIGHT, WIDTH),
    small_output_shape=(3, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.uint16),
    make_inputs=_inputs,
    reference=_reference,
    # The last step rounds a float with an error of its own: float32 through a pyramid, divided by a dark gray.
    tolerance=Tolerance(absolute=2, relative=0),
)
