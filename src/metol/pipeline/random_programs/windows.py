"""Stages that read neighbourhoods: stencils, boundary conditions, resampling."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import halide as hl

from metol.pipeline.random_programs.builder import Builder, StageKind
from metol.pipeline.random_programs.images import Axis, Image, meet, strided
from metol.pipeline.random_programs.values import Term, largest, linear, smallest

__all__ = ["WINDOWS"]

# An image is not halved further below this extent.
_LEAST_EXTENT = 4


def stencil_1d(b: Builder) -> bool:
    """A weighted sum along one axis, at random taps."""
    image = b.pick(lambda i: bool(i.spatial))
    if image is None:
        return False
    axis = b.rng.choice(image.spatial)
    first, last = b.taps(4)
    taps = sorted({first, last, *(b.rng.randint(first, last) for _ in range(b.rng.randint(0, 5)))})
    inner = strided(axis, first, last)
    if inner is None or not b.affords(len(taps) * image.points):
        return False
    terms = [image.at({axis.unit: axis.var + tap}) for tap in taps]
    b.define(image.replacing(inner), b.tame(linear(b.rng, terms, _tap_weights(b, len(taps)))), len(taps))
    return True


def stencil_2d(b: Builder) -> bool:
    """A weighted sum over a dense window, or over random taps of one."""
    found = _plane(b)
    if found is None:
        return False
    image, (u, v) = found
    (u0, u1), (v0, v1) = b.taps(2), b.taps(2)
    taps = [(i, j) for i in range(u0, u1 + 1) for j in range(v0, v1 + 1)]
    if b.rng.random() < 0.6:
        taps = sorted({(u0, v0), (u1, v1), *b.rng.sample(taps, min(len(taps), b.rng.randint(1, 6)))})
    inner_u, inner_v = strided(u, u0, u1), strided(v, v0, v1)
    if inner_u is None or inner_v is None or not b.affords(len(taps) * image.points):
        return False
    axes = replace(image, axes=image.replacing(inner_u)).replacing(inner_v)
    terms = [image.at({u.unit: u.var + i, v.unit: v.var + j}) for i, j in taps]
    b.define(axes, b.tame(linear(b.rng, terms, _tap_weights(b, len(taps)))), len(taps))
    return True


def separable(b: Builder) -> bool:
    """Along one axis, then along the other."""
    found = _plane(b)
    if found is None:
        return False
    image, (u, v) = found
    radius = b.rng.randint(1, 3)
    inner_u, inner_v = strided(u, -radius, radius), strided(v, -radius, radius)
    count = 2 * radius + 1
    if inner_u is None or inner_v is None or not b.affords(2 * count * image.points):
        return False
    weights = [radius + 1 - abs(tap) for tap in range(-radius, radius + 1)]
    terms = [image.at({u.unit: u.var + tap}) for tap in range(-radius, radius + 1)]
    across = b.define(image.replacing(inner_u), b.tame(linear(b.rng, terms, weights)), count)
    b.read(across)
    terms = [across.at({v.unit: v.var + tap}) for tap in range(-radius, radius + 1)]
    b.define(across.replacing(inner_v), b.tame(linear(b.rng, terms, weights)), count)
    return True


def morphology(b: Builder) -> bool:
    """The least or greatest value of a small window."""
    image = b.pick(lambda i: bool(i.spatial))
    if image is None or not b.affords(5 * image.points):
        return False
    axis = b.rng.choice(image.spatial)
    first, last = b.taps(2)
    inner = strided(axis, first, last)
    if inner is None:
        return False
    extremum = b.rng.choice([smallest, largest])
    term = image.at({axis.unit: axis.var + first})
    for tap in range(first + 1, last + 1):
        term = extremum(term, image.at({axis.unit: axis.var + tap}))
    b.define(image.replacing(inner), b.tame(term), last - first)
    return True


def clamped_stencil(b: Builder) -> bool:
    """A stencil whose coordinates are clamped, or wrapped, into the image."""
    image = b.pick(lambda i: bool(i.spatial))
    if image is None or not b.affords(6 * image.points):
        return False
    axis = b.rng.choice(image.spatial)
    first, last = b.taps(3)
    taps = sorted({first, 0, last})

    def inside(tap: int) -> object:
        if is_wrapped:
            return (axis.var + tap - axis.low) % axis.extent + axis.low
        return hl.clamp(axis.var + tap, axis.low, axis.high)

    is_wrapped = b.rng.random() < 0.25
    terms = [image.at({axis.unit: inside(tap)}) for tap in taps]
    b.define(image.axes, b.tame(linear(b.rng, terms, _tap_weights(b, len(taps)))), 2 * len(taps))
    return True


def boundary(b: Builder) -> bool:
    """One of Halide's boundary conditions; the image is then defined a little beyond its own region."""
    image = b.pick(lambda i: len(i.spatial) == len(i.axes) > 0 and i.element is None and not i.is_stored_otherwise)
    if image is None or not b.affords(3 * image.points):
        return False
    name = b.rng.choice(["repeat_edge", "repeat_image", "mirror_image", "mirror_interior", "constant_exterior"])
    if name == "mirror_interior" and min(axis.extent for axis in image.axes) < 2:
        name = "mirror_image"
    margin = b.rng.randint(1, 4)
    region = [(axis.low, axis.extent) for axis in image.axes]
    is_input = isinstance(image.func, hl.ImageParam)
    arguments: list[object] = [image.func]
    if name == "constant_exterior":
        # A value that the image might have, so that what is known of it stays true.
        arguments.append(image.values.constant(image.values.high))
    if not is_input or b.rng.random() < 0.3:
        arguments.append(region)
    func = getattr(hl.BoundaryConditions, name)(*arguments)
    axes = [replace(axis, low=axis.low - margin, extent=axis.extent + 2 * margin) for axis in image.axes]
    (padded,) = b.add(func, axes, [image.values])
    b.spend(3 * padded.points)
    return True


def downsample(b: Builder) -> bool:
    """Smaller by two or three along one axis or both: picked, averaged, or with a tent of weights."""
    image = b.pick(lambda i: any(axis.extent >= _LEAST_EXTENT for axis in i.spatial))
    if image is None or not b.affords(4 * image.points):
        return False
    large = [axis for axis in image.spatial if axis.extent >= _LEAST_EXTENT]
    axes = large if b.rng.random() < 0.6 else [b.rng.choice(large)]
    stride = b.rng.choice([2, 2, 2, 3])
    weights = b.rng.choice([[1], [1] * stride, [1, 3, 3, 1]])
    offset = -b.rng.randint(0, 1) if len(weights) > 1 else 0
    result = image
    terms: list[tuple[dict[str, object], int]] = [({}, 1)]
    for axis in axes:
        smaller = strided(axis, offset, offset + len(weights) - 1, stride)
        if smaller is None:
            return False
        result = replace(result, axes=result.replacing(smaller))
        taps = [(stride * axis.var + offset + tap, weight) for tap, weight in enumerate(weights)]
        terms = [({**place, axis.unit: tap}, w * weight) for place, w in terms for tap, weight in taps]
    reads = [image.at(place) for place, _ in terms]
    b.define(result.axes, b.tame(linear(b.rng, reads, [w for _, w in terms])), len(terms))
    return True


def upsample(b: Builder) -> bool:
    """Larger by two along one axis or both: repeated, or interpolated."""
    image = b.pick(lambda i: any(axis.scale > 1 or i.points <= 4096 for axis in i.spatial))
    if image is None or not b.affords(16 * image.points):
        return False
    axes = image.spatial if b.rng.random() < 0.6 else (b.rng.choice(image.spatial),)
    is_linear = b.rng.random() < 0.5
    result = image
    for axis in axes:
        larger = _doubled(axis, is_linear=is_linear)
        if larger is None:
            return False
        result = replace(result, axes=result.replacing(larger))
    b.define(result.axes, b.tame(_upsampled(b, image, axes, is_linear=is_linear)), 4 * len(axes))
    return True


def pyramid_join(b: Builder) -> bool:
    """An image with one of half its size."""
    coarse = b.pick(lambda i: any(axis.scale > 1 for axis in i.spatial))
    if coarse is None:
        return False
    halved = [axis for axis in coarse.spatial if axis.scale % 2 == 0]
    axes = [_doubled(axis, is_linear=False) for axis in halved]
    up = coarse
    for axis in axes:
        assert axis is not None
        up = replace(up, axes=up.replacing(axis))
    fine = b.partner(up, lambda i: i.units == up.units) if halved else None
    if fine is None or not b.affords(3 * fine.points):
        return False
    together = meet(fine, up)
    if together is None:
        return False
    term = _upsampled(b, coarse, halved, is_linear=False)
    b.define(together, b.tame(linear(b.rng, [fine.at(), term], b.rng.choice([[1, 1], [2, -1], [1, 3]]))), 3)
    return True


def _plane(b: Builder) -> tuple[Image, tuple[Axis, Axis]] | None:
    """Pick an image along x and y."""
    image = b.pick(lambda i: len(i.spatial) == 2)
    if image is None:
        return None
    u, v = image.spatial
    return image, (u, v)


def _tap_weights(b: Builder, count: int) -> list[int]:
    """Equal weights, smooth ones, or some that are negative."""
    way = b.rng.randrange(3)
    return [1] * count if way == 0 else b.weights(count, least=1 if way == 1 else -4)


def _doubled(axis: Axis, *, is_linear: bool) -> Axis | None:
    """Where an axis of twice the size is defined, if each point reads point ``i // 2``, and the next where linear."""
    extent = axis.extent - 1 if is_linear else axis.extent
    if extent < 1:
        return None
    return replace(axis, low=2 * axis.low, extent=2 * extent, scale=axis.scale * Fraction(1, 2))


def _upsampled(b: Builder, image: Image, axes: Sequence[Axis], *, is_linear: bool) -> Term:
    places: list[dict[str, object]] = [{}]
    for axis in axes:
        near = axis.var // 2
        following = [near, (axis.var + 1) // 2] if is_linear else [near]
        places = [{**place, axis.unit: tap} for place in places for tap in following]
    return linear(b.rng, [image.at(place) for place in places], [1] * len(places))


WINDOWS: dict[str, StageKind] = {
    "stencil_1d": stencil_1d,
    "stencil_2d": stencil_2d,
    "separable": separable,
    "morphology": morphology,
    "clamped_stencil": clamped_stencil,
    "boundary": boundary,
    "downsample": downsample,
    "upsample": upsample,
    "pyramid_join": pyramid_join,
}
"""Stage kinds by name."""
