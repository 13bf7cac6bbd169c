"""Lens blur: depth from two views, then each pixel spread over a disc that grows with its distance from the focus.

A left and a right view of eight bits enter, with points on a unit disc; the left view as a wide lens would have taken
it leaves, float. For each of 32 depths the views are compared, shifted against each other; costs count more where they
tell depths apart, and are smoothed by a pyramid; the cheapest depth wins. A pixel then gathers those around it whose
discs reach it, unless they are behind it and its own disc is small (a circle of confusion, Potmesil and Chakravarty
1981). All but the last division is done in integers, so that no rounding decides a depth.
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .edges import repeat_edge
from .images import photograph_uint8

__all__ = ["APP"]

# Comparing views at 32 depths is dear: an image of an eighth of the suite's width and height.
_WIDTH = WIDTH // 8
_HEIGHT = HEIGHT // 8
_SLICES = 32
_HALVINGS = 5
_SAMPLES = 32
_FOCUS = 13
# Sixteenths of a pixel that the radius of a disc grows a slice, and pixels that no disc is larger than.
_GROWTH = 8
_MOST = 10
_COLOURS = 3
# Fixed point of radii, and of the points on the disc.
_PIXEL = 16
_UNIT = 256
_DOWN = ((-1, 1), (0, 3), (1, 3), (2, 1))


def _square(value: hl.Expr) -> hl.Expr:
    return value * value


def _halved(source: hl.Func, level: int) -> hl.Func:
    x, y, z = hl.Var("x"), hl.Var("y"), hl.Var("z")
    down_x, down = hl.Func(f"down_x_{level}"), hl.Func(f"down_{level}")
    down_x[x, y, z] = (sum(weight * source[2 * x + d, y, z] for d, weight in _DOWN) + 4) >> 3
    down[x, y, z] = (sum(weight * down_x[x, 2 * y + d, z] for d, weight in _DOWN) + 4) >> 3
    return down


def _doubled(source: hl.Func, level: int) -> hl.Func:
    x, y, z = hl.Var("x"), hl.Var("y"), hl.Var("z")
    up_x, up = hl.Func(f"up_x_{level}"), hl.Func(f"up_{level}")
    up_x[x, y, z] = (source[x // 2 - 1 + 2 * (x % 2), y, z] + 3 * source[x // 2, y, z] + 2) >> 2
    up[x, y, z] = (up_x[x, y // 2 - 1 + 2 * (y % 2), z] + 3 * up_x[x, y // 2, z] + 2) >> 2
    return up


def _cost(left: hl.Func, right: hl.Func) -> hl.Func:
    """Return `[x, y, z]`: how different the views are at each depth, weighted by how much that tells."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    difference, cost = hl.Func("difference"), hl.Func("cost")
    shifted = [hl.absd(left[x, y, c], right[x + 2 * z + d, y, c]) for d in (0, 1)]
    difference[x, y, z, c] = hl.min(*shifted)
    cost[x, y, z] = sum(_square(hl.i32(difference[x, y, z, colour])) for colour in range(_COLOURS)) >> 2

    depth = hl.RDom([(0, _SLICES)], "depth")
    level = cost[x, y, depth.x] >> 4  # so that the sum of the squares fits
    moments = hl.Func("moments")
    moments[x, y] = (0, 0)
    moments[x, y] = (moments[x, y][0] + level, moments[x, y][1] + _square(level))
    mean = moments[x, y][0] // _SLICES
    confidence = hl.Func("confidence")
    confidence[x, y] = 1 + hl.clamp((moments[x, y][1] // _SLICES - _square(mean)) >> 8, 0, 255)
    weighted = hl.Func("weighted")
    weighted[x, y, z] = cost[x, y, z] * confidence[x, y]
    return weighted


def _smoothed(cost: hl.Func) -> hl.Func:
    x, y, z = hl.Var("x"), hl.Var("y"), hl.Var("z")
    pyramid = [cost]
    for level in range(1, _HALVINGS + 1):
        pyramid.append(_halved(pyramid[-1], level))
    smooth = pyramid[-1]
    for level in reversed(range(_HALVINGS)):
        coarse = _doubled(smooth, level)
        smooth = hl.Func(f"smooth_{level}")
        smooth[x, y, z] = (coarse[x, y, z] + pyramid[level][x, y, z] + 1) >> 1
    return smooth


def _depth(cost: hl.Func) -> hl.Func:
    """Return `[x, y]`: the cheapest slice and its cost; the first of equals."""
    x, y = hl.Var("x"), hl.Var("y")
    slices = hl.RDom([(1, _SLICES - 1)], "slices")
    found = hl.Func("found")
    found[x, y] = (0, cost[x, y, 0])
    here, best = cost[x, y, slices.x], found[x, y]
    is_cheaper = here < best[1]
    found[x, y] = (hl.select(is_cheaper, slices.x, best[0]), hl.select(is_cheaper, here, best[1]))
    depth = hl.Func("depth")
    depth[x, y] = found[x, y][0]
    return depth


def _largest_near(radius: hl.Func) -> hl.Func:
    """Return `[x, y]`: the largest radius of a disc that might reach a pixel."""
    x, y = hl.Var("x"), hl.Var("y")
    window = hl.RDom([(-_MOST, 2 * _MOST + 1)], "window")
    along, across = hl.Func("largest_along"), hl.Func("largest_near")
    along[x, y] = 0
    along[x, y] = hl.max(along[x, y], radius[x + window.x, y])
    across[x, y] = 0
    across[x, y] = hl.max(across[x, y], along[x, y + window.x])
    return across


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    views = [hl.ImageParam(hl.UInt(8), 3, name) for name in ("left", "right")]
    aperture = hl.ImageParam(hl.Int(32), 2, "aperture")
    focus, growth = hl.Param(hl.Int(32), "focus", _FOCUS), hl.Param(hl.Int(32), "growth", _GROWTH)
    left, right = (repeat_edge(view, f"{view.name()}_bounded") for view in views)
    depth = _depth(_smoothed(_cost(left, right)))
    radius = hl.Func("radius")
    radius[x, y] = hl.min(hl.i32(hl.absd(depth[x, y], focus)) * growth, _MOST * _PIXEL)
    largest = _largest_near(radius)

    sample = hl.RDom([(0, _SAMPLES)], "sample")
    half = _PIXEL * _UNIT // 2
    dx, dy = (
        hl.clamp((largest[x, y] * aperture[sample.x, axis] + half) // (_PIXEL * _UNIT), -_MOST, _MOST)
        for axis in (0, 1)
    )
    far = (_square(dx) + _square(dy)) * _PIXEL**2
    is_reached = far <= _square(radius[x + dx, y + dy])
    is_seen = (depth[x + dx, y + dy] < depth[x, y]) | (far <= _square(radius[x, y]))
    gathered = hl.Func("gathered")
    gathered[x, y, c] = hl.select(c < _COLOURS, hl.i32(left[x, y, c]), 1)
    colour = hl.select(c < _COLOURS, hl.i32(left[x + dx, y + dy, c]), 1)
    gathered[x, y, c] += hl.select(is_reached & is_seen, colour, 0)
    output = hl.Func("lens_blur")
    output[x, y, c] = hl.f32(gathered[x, y, c]) / hl.f32(gathered[x, y, _COLOURS])

    for view in views:
        view.set_estimates([(0, _WIDTH), (0, _HEIGHT), (0, _COLOURS)])
    aperture.set_estimates([(0, _SAMPLES), (0, 2)])
    focus.set_estimate(_FOCUS)
    growth.set_estimate(_GROWTH)
    output.set_estimates([(0, _WIDTH), (0, _HEIGHT), (0, _COLOURS)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    rng = np.random.default_rng(seed)
    left = photograph_uint8(height, width, seed=seed, channels=channels)
    # A far wall, and rectangles nearer and nearer before it: what is near is shifted less here.
    slices = np.full((height, width), _SLICES - 4)
    for nearer in range(_SLICES - 8, 0, -4):
        top, before = (int(rng.uniform(0, 0.7) * size) for size in (height, width))
        slices[top : top + height // 3, before : before + width // 3] = nearer
    columns = np.clip(np.arange(width) - 2 * slices, 0, width - 1)
    right = np.take_along_axis(left, np.broadcast_to(columns, left.shape), axis=2)
    # Points on the disc, evenly by the golden angle.
    place = np.arange(_SAMPLES) + 0.5
    angle, distance = place * np.pi * (3 - np.sqrt(5)) + rng.uniform(0, np.pi), np.sqrt(place / _SAMPLES)
    aperture = np.rint(_UNIT * distance * np.stack([np.cos(angle), np.sin(angle)])).astype(np.int32)
    return {"left": left, "right": right, "aperture": aperture, "focus": _FOCUS, "growth": _GROWTH}


def _reference_cost(left: Array, right: Array) -> Array:
    """Return `[z, y, x]`; both views come with the edge repeated, the right one further to the right."""
    width = left.shape[2]
    cost = np.empty((_SLICES, *left.shape[1:]), np.int64)
    for z in range(_SLICES):
        differences = [np.abs(left - right[:, :, 2 * z + d : 2 * z + d + width]) for d in (0, 1)]
        cost[z] = (np.minimum(*differences) ** 2).sum(axis=0) >> 2
    level = cost >> 4
    variance = (level**2).sum(axis=0) // _SLICES - (level.sum(axis=0) // _SLICES) ** 2
    weighted: Array = cost * (1 + np.clip(variance >> 8, 0, 255))
    return weighted


def _reference_halved(cost: Array) -> Array:
    for axis in (2, 1):
        total = sum(weight * np.roll(cost, -d, axis) for d, weight in _DOWN)
        cost = np.take((total + 4) >> 3, np.arange(0, cost.shape[axis], 2), axis)
    return cost


def _reference_doubled(cost: Array) -> Array:
    for axis in (2, 1):
        sides = [(np.roll(cost, d, axis) + 3 * cost + 2) >> 2 for d in (1, -1)]
        shape = list(cost.shape)
        shape[axis] *= 2
        cost = np.stack(sides, axis + 1).reshape(shape)
    return cost


def _reference_pyramid(cost: Array) -> list[Array]:
    levels = [cost]
    for _ in range(_HALVINGS):
        levels.append(_reference_halved(levels[-1]))
    return levels


def _reference_depth(left: Array, right: Array) -> Array:
    """Return `[y, x]` of the image and a margin of `2 * _MOST` on each side."""
    _, height, width = left.shape
    # Whole pixels of the coarsest level, and more of them than what is beyond the margin spreads over.
    step = 1 << _HALVINGS
    margin = 6 * step
    after = [margin + -size % step for size in (height, width)]
    near = [(margin, after[0]), (margin, after[1])]
    wide_left = np.pad(left, [(0, 0), *near], mode="edge").astype(np.int64)
    wide_right = np.pad(right, [(0, 0), near[0], (margin, after[1] + 2 * _SLICES)], mode="edge").astype(np.int64)
    levels = _reference_pyramid(_reference_cost(wide_left, wide_right))
    smooth = levels.pop()
    for level in reversed(levels):
        smooth = (_reference_doubled(smooth) + level + 1) >> 1
    inner = [slice(margin - 2 * _MOST, margin + size + 2 * _MOST) for size in (height, width)]
    depth: Array = smooth[:, inner[0], inner[1]].argmin(axis=0)
    return depth


def _reference(inputs: Inputs) -> Array:
    left = inputs["left"]
    _, height, width = left.shape
    depth = _reference_depth(left, inputs["right"])
    radius = np.minimum(np.abs(depth - inputs["focus"]) * inputs["growth"], _MOST * _PIXEL)
    windows = np.lib.stride_tricks.sliding_window_view(radius, (2 * _MOST + 1, 2 * _MOST + 1))
    largest = windows.max(axis=(2, 3))[_MOST:-_MOST, _MOST:-_MOST]
    padded = np.pad(left, [(0, 0), *[(2 * _MOST, 2 * _MOST)] * 2], mode="edge").astype(np.int64)
    y, x = np.mgrid[:height, :width] + 2 * _MOST
    total, count = left.astype(np.int64), np.ones((height, width), np.int64)
    for offset_x, offset_y in inputs["aperture"].T:
        half = _PIXEL * _UNIT // 2
        dx, dy = (np.clip((largest * o + half) // (_PIXEL * _UNIT), -_MOST, _MOST) for o in (offset_x, offset_y))
        far = (dx**2 + dy**2) * _PIXEL**2
        is_seen = (depth[y + dy, x + dx] < depth[y, x]) | (far <= radius[y, x] ** 2)
        is_gathered = is_seen & (far <= radius[y + dy, x + dx] ** 2)
        total += is_gathered * padded[:, y + dy, x + dx]
        count += is_gathered
    blurred: Array = total.astype(np.float32) / count.astype(np.float32)
    return blurred


APP = App(
    name="lens_blur",
    title="Lens blur",
    description=f"Depth from two views in {_SLICES} slices and a pyramid, then discs of {_SAMPLES} samples, uint8.",
    build=_build,
    output_shape=(_COLOURS, _HEIGHT, _WIDTH),
    small_output_shape=(_COLOURS, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    # One division of whole numbers.
    tolerance=Tolerance(absolute=1e-4, relative=1e-6),
)
