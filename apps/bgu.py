"""Bilateral-guided upsampling: what a filter did to a small copy of an image is done to the whole of it.

A colour image, a small copy of it and the same small copy after some filter enter, all float; the whole image as that
filter would have left it leaves (Chen, Adams, Wadhwa, Hasinoff 2016). In each cell of a grid over space and lightness,
an affine map of colours is fitted to how the small pixels in and near it changed: sums of products are gathered and
blurred, and four unknowns for each of three colours solved for. Each pixel of the whole image is then put through the
map interpolated at its own place and lightness.
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .edges import repeat_edge
from .images import photograph

__all__ = ["APP"]

# How many times smaller the copies are.
_SCALE = 8
# Small pixels along the side of a cell, and cells from black to white.
_CELL = 16
_BINS = 8
_WHOLE_CELL = _SCALE * _CELL
_LUMA = (0.25, 0.5, 0.25)
_TAPS = ((-1, 1), (0, 2), (1, 1))
# How strongly a map is drawn to a plain change of brightness, in small pixels: decides where a cell saw few colours.
_RIDGE = 1.0
_DARKEST = 1 / 1024
_COLOURS = 3
_UNKNOWNS = 4
# What a cell adds up: products of the four terms of a pixel, products of these with the three colours of the result.
_PAIRS = tuple((i, j) for i in range(_UNKNOWNS) for j in range(i, _UNKNOWNS))
_SUMS = len(_PAIRS) + _COLOURS * _UNKNOWNS


def _luma(source: hl.Func, x: hl.Expr, y: hl.Expr) -> hl.Expr:
    red, green, blue = (weight * source[x, y, c] for c, weight in enumerate(_LUMA))
    return red + green + blue


def _sums(before: hl.Func, after: hl.Func) -> hl.Func:
    """Return `[x, y, z, c]`: in each cell, the sums of products of its pixels."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    pixel = hl.RDom([(0, _CELL), (0, _CELL)], "pixel")
    column, row = x * _CELL + pixel.x, y * _CELL + pixel.y
    nearest_bin = hl.i32(hl.clamp(_luma(before, column, row), 0.0, 1.0) * _BINS + 0.5)
    terms = [*(before[column, row, colour] for colour in range(_COLOURS)), hl.f32(1)]
    products = [terms[i] * terms[j] for i, j in _PAIRS]
    products += [after[column, row, colour] * term for colour in range(_COLOURS) for term in terms]
    sums = hl.Func("sums")
    sums[x, y, z, c] = 0.0
    sums[x, y, nearest_bin, c] += hl.mux(c, products)
    return sums


def _blurred(sums: hl.Func) -> hl.Func:
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    blur_z, blur_y, blur_x = hl.Func("blur_z"), hl.Func("blur_y"), hl.Func("blur_x")
    blur_z[x, y, z, c] = sum(weight * sums[x, y, z + d, c] for d, weight in _TAPS)
    blur_y[x, y, z, c] = sum(weight * blur_z[x, y + d, z, c] for d, weight in _TAPS)
    blur_x[x, y, z, c] = sum(weight * blur_y[x + d, y, z, c] for d, weight in _TAPS)
    return blur_x


def _factors(sums: hl.Func) -> hl.Func:
    """Return `[x, y, z]`: each matrix as L D L^T, its six numbers below the diagonal and the inverse of D."""
    x, y, z = hl.Var("x"), hl.Var("y"), hl.Var("z")
    matrix = {pair: sums[x, y, z, place] + (_RIDGE if pair[0] == pair[1] else 0) for place, pair in enumerate(_PAIRS)}
    lower: dict[tuple[int, int], hl.Expr] = {}
    scaled: dict[tuple[int, int], hl.Expr] = {}  # with D multiplied in
    inverse: list[hl.Expr] = []
    for j in range(_UNKNOWNS):
        pivot = matrix[j, j]
        for k in range(j):
            pivot = pivot - lower[j, k] * scaled[j, k]
        inverse.append(1.0 / pivot)
        for i in range(j + 1, _UNKNOWNS):
            entry = matrix[j, i]
            for k in range(j):
                entry = entry - scaled[i, k] * lower[j, k]
            scaled[i, j] = entry
            lower[i, j] = entry * inverse[j]
    factors = hl.Func("factors")
    factors[x, y, z] = (*(lower[i, j] for i in range(1, _UNKNOWNS) for j in range(i)), *inverse)
    return factors


def _maps(sums: hl.Func, factors: hl.Func) -> hl.Func:
    """Return `[x, y, z, c]`: four numbers that turn red, green, blue and 1 into colour c."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    below = {pair: factors[x, y, z][place] for place, pair in enumerate((i, j) for i in range(1, 4) for j in range(i))}
    inverse = [factors[x, y, z][len(below) + i] for i in range(_UNKNOWNS)]

    def total(colour: int, term: int) -> hl.Expr:
        return sums[x, y, z, len(_PAIRS) + _UNKNOWNS * colour + term]

    # Sums of a colour are those of its products with 1.
    constant = _UNKNOWNS - 1
    before = [sums[x, y, z, _PAIRS.index((colour, constant))] for colour in range(_COLOURS)]
    after = [total(colour, constant) for colour in range(_COLOURS)]
    lightness = [sum(weight * part for weight, part in zip(_LUMA, parts, strict=True)) for parts in (after, before)]
    gain = hl.Func("gain")
    gain[x, y, z] = (lightness[0] + _DARKEST) / (lightness[1] + _DARKEST)

    forward: list[hl.Expr] = []
    for i in range(_UNKNOWNS):
        value = hl.mux(
            c, [total(colour, i) + (_RIDGE * gain[x, y, z] if colour == i else 0) for colour in range(_COLOURS)]
        )
        for k in range(i):
            value = value - below[i, k] * forward[k]
        forward.append(value)
    solved = [forward[i] * inverse[i] for i in range(_UNKNOWNS)]
    for i in reversed(range(_UNKNOWNS)):
        for k in range(i + 1, _UNKNOWNS):
            solved[i] = solved[i] - below[k, i] * solved[k]
    maps = hl.Func("maps")
    maps[x, y, z, c] = tuple(solved)
    return maps


def _between(maps: hl.Func) -> hl.Func:
    """Return `[x, y, z, c]`: the maps at the columns and rows of the whole image, between those of the cells."""
    x, y, z, c = (hl.Var(name) for name in "xyzc")
    between_y, between_x = hl.Func("between_y"), hl.Func("between_x")

    def at(v: hl.Var) -> tuple[hl.Expr, hl.Expr]:
        # A pixel lies at its centre, as cells do.
        shifted = v - _WHOLE_CELL // 2
        return shifted // _WHOLE_CELL, (hl.f32(shifted % _WHOLE_CELL) + 0.5) / _WHOLE_CELL

    cell, share = at(y)
    near, far = maps[x, cell, z, c], maps[x, cell + 1, z, c]
    between_y[x, y, z, c] = tuple(hl.lerp(near[i], far[i], share) for i in range(_UNKNOWNS))
    cell, share = at(x)
    near, far = between_y[cell, y, z, c], between_y[cell + 1, y, z, c]
    between_x[x, y, z, c] = tuple(hl.lerp(near[i], far[i], share) for i in range(_UNKNOWNS))
    return between_x


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    image, before, after = (hl.ImageParam(hl.Float(32), 3, name) for name in ("input", "before", "after"))
    sums = _blurred(_sums(repeat_edge(before, "before_bounded"), repeat_edge(after, "after_bounded")))
    between = _between(_maps(sums, _factors(sums)))

    depth = hl.Func("depth")
    depth[x, y] = hl.clamp(_luma(image, x, y), 0.0, 1.0) * _BINS
    below = hl.clamp(hl.i32(depth[x, y]), 0, _BINS - 1)
    share = depth[x, y] - below
    near, far = between[x, y, below, c], between[x, y, below + 1, c]
    weights = [hl.lerp(near[i], far[i], share) for i in range(_UNKNOWNS)]
    output = hl.Func("bgu")
    mapped = sum(weights[colour] * image[x, y, colour] for colour in range(_COLOURS))
    output[x, y, c] = mapped + weights[_COLOURS]

    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, _COLOURS)])
    for small in (before, after):
        small.set_estimates([(0, WIDTH // _SCALE), (0, HEIGHT // _SCALE), (0, _COLOURS)])
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, _COLOURS)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    _, height, width = output_shape
    image = photograph(height, width, seed=seed)
    rows, columns = (-(-size // _SCALE) for size in (height, width))
    padded = np.pad(image, ((0, 0), (0, rows * _SCALE - height), (0, columns * _SCALE - width)), mode="edge")
    before = padded.reshape(_COLOURS, rows, _SCALE, columns, _SCALE).mean(axis=(2, 4))
    # A warm and contrasty look, stronger from left to right.
    slope = np.linspace(0.8, 1.6, columns)
    tint = np.array([1.1, 1.0, 0.85])[:, np.newaxis, np.newaxis]
    after = np.clip((before - 0.4) * slope * tint + 0.45, 0, 1)
    return {"input": image, "before": before.astype(np.float32), "after": after.astype(np.float32)}


def _reference_luma(image: Array) -> Array:
    luma: Array = sum(np.float32(weight) * channel for weight, channel in zip(_LUMA, image, strict=True))
    return luma


def _summed(before: Array, after: Array, cells: tuple[int, int]) -> tuple[Array, Array]:
    """Return the matrices `[y, x, z, 4, 4]` and right sides `[y, x, z, 4, 3]` of cells -2 to `cells + 2`, blurred."""
    margin = 3
    rows, columns = (count + 2 * margin for count in cells)
    above = margin * _CELL
    padding = [
        (above, size * _CELL - above - small) for size, small in zip((rows, columns), before.shape[1:], strict=True)
    ]
    before, after = (np.pad(small, ((0, 0), *padding), mode="edge").astype(np.float64) for small in (before, after))
    terms = np.concatenate([before, np.ones_like(before[:1])])
    # The bin is what the pipeline takes, in float32.
    bins = (np.clip(_reference_luma(before.astype(np.float32)), 0, 1) * np.float32(_BINS) + np.float32(0.5)).astype(int)
    y, x = np.mgrid[: before.shape[1], : before.shape[2]]
    where = (y // _CELL, x // _CELL, bins + 2)
    matrices = np.zeros((rows, columns, _BINS + 5, _UNKNOWNS, _UNKNOWNS))
    sides = np.zeros((rows, columns, _BINS + 5, _UNKNOWNS, _COLOURS))
    np.add.at(matrices, where, np.einsum("iyx,jyx->yxij", terms, terms))
    np.add.at(sides, where, np.einsum("iyx,cyx->yxic", terms, after))
    return _blur_cells(matrices), _blur_cells(sides)


def _blur_cells(cells: Array) -> Array:
    for axis in range(3):
        cells = np.moveaxis(cells, axis, 0)
        inner = slice(1, len(cells) - 1)
        blurred = sum(weight * cells[inner.start + d : inner.stop + d] for d, weight in _TAPS)
        cells = np.moveaxis(np.asarray(blurred), 0, axis)
    return cells


def _reference(inputs: Inputs) -> Array:
    image, before, after = inputs["input"], inputs["before"], inputs["after"]
    _, height, width = image.shape
    matrices, sides = _summed(before, after, (height // _WHOLE_CELL + 2, width // _WHOLE_CELL + 2))
    light_before, light_after = matrices[..., :3, 3] @ np.array(_LUMA), sides[..., 3, :] @ np.array(_LUMA)
    gain = (light_after + _DARKEST) / (light_before + _DARKEST)
    pull = np.eye(_UNKNOWNS, _COLOURS) * gain[..., np.newaxis, np.newaxis]
    maps = np.linalg.solve(matrices + _RIDGE * np.eye(_UNKNOWNS), sides + _RIDGE * pull)

    y, x = np.arange(height), np.arange(width)
    # Cells begin at -2, bins at -1.
    rows, columns = ((v + 0.5) / _WHOLE_CELL - 0.5 + 2 for v in (y, x))
    depth = np.clip(_reference_luma(image), 0, 1) * _BINS + 1
    result = np.zeros((height, width, _COLOURS))
    terms = np.concatenate([image, np.ones_like(image[:1])]).astype(np.float64)
    row, column, bin_below = (np.floor(v).astype(int) for v in (rows, columns, depth))
    bin_below = np.minimum(bin_below, _BINS)
    for dy in (0, 1):
        for dx in (0, 1):
            for dz in (0, 1):
                weight = np.abs(1 - dy - (rows - row))[:, np.newaxis] * np.abs(1 - dx - (columns - column))
                weight = weight * np.abs(1 - dz - (depth - bin_below))
                cell = maps[(row + dy)[:, np.newaxis], column + dx, bin_below + dz]
                result += weight[..., np.newaxis] * np.einsum("iyx,yxic->yxc", terms, cell)
    colours: Array = result.transpose(2, 0, 1)
    return colours.astype(np.float32)


APP = App(
    name="bgu",
    title="Bilateral-guided upsampling",
    description=f"A filter seen on a copy {_SCALE} times smaller, done to the whole by local affine maps, float32.",
    build=_build,
    output_shape=(_COLOURS, HEIGHT, WIDTH),
    small_output_shape=(_COLOURS, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    # The systems of cells that saw few colours are ill-conditioned, up to the size of a cell over the ridge: 1e4.
    tolerance=Tolerance(absolute=2e-3, relative=2e-3),
)
