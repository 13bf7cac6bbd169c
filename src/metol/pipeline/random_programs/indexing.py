"""Stages that move values: look-ups and warps by computed indices, transposes, flips, slices, new axes."""

from dataclasses import replace

import halide as hl

from metol.pipeline.random_programs.builder import Builder, StageKind
from metol.pipeline.random_programs.images import Axis, meet, strided
from metol.pipeline.random_programs.values import Term, Values, index_into, multiply, select

__all__ = ["INDEXING"]


def lookup(b: Builder) -> bool:
    """A table, indexed by the values of an image; the table may be an image of one axis."""
    image = b.pick(lambda i: bool(i.axes) and i.values.is_exact and i.values.magnitude < 1 << 30)
    if image is None or not b.affords(4 * image.points):
        return False
    tables = [i for i in b.images if len(i.axes) == 1 and i.number != image.number]
    if tables and b.rng.random() < 0.7:
        table = b.rng.choice(tables)
    else:
        size = b.rng.choice([16, 64, 256])
        axis = Axis(f"t{size}", 0, size)
        curve = Term((axis.var * axis.var * 7 + axis.var * 13) % 251, Values("i32", 0, 250))
        table = b.define([axis], curve)
        b.read(image)
    b.read(table)
    (axis,) = table.axes
    b.define(image.axes, table.at({axis.unit: index_into(image.at(), axis.low, axis.extent)}), 4)
    return True


def warp(b: Builder) -> bool:
    """An image read at places that another one displaces by a few points."""
    image = b.pick(lambda i: bool(i.spatial))
    if image is None or not b.affords(6 * image.points):
        return False
    by = b.partner(image, lambda i: i.values.is_exact and i.values.magnitude < 1 << 30)
    axis = b.rng.choice(image.spatial)
    reach = b.rng.randint(1, 4)
    inner = strided(axis, -reach, reach)
    if by is None or inner is None:
        return False
    axes = meet(replace(image, axes=image.replacing(inner)), by)
    if axes is None:
        return False
    offset = index_into(by.at(), -reach, 2 * reach + 1)
    b.define(axes, image.at({axis.unit: axis.var + offset}), 4)
    return True


def gather_anywhere(b: Builder) -> bool:
    """An image read at places that another one chooses, anywhere along an axis."""
    image = b.pick(lambda i: any(axis.extent > 1 for axis in i.axes))
    if image is None or not b.affords(6 * image.points):
        return False
    by = b.partner(image, lambda i: i.values.is_exact and i.values.magnitude < 1 << 30)
    axes = None if by is None else meet(image, by)
    if by is None or axes is None:
        return False
    axis = b.rng.choice(image.axes)
    b.define(axes, image.at({axis.unit: index_into(by.at(), axis.low, axis.extent)}), 5)
    return True


def transpose(b: Builder) -> bool:
    """The axes in another order."""
    image = b.pick(lambda i: len(i.axes) >= 2)
    if image is None or not b.affords(2 * image.points):
        return False
    axes = list(image.axes)
    b.rng.shuffle(axes)
    if tuple(axes) == image.axes:
        axes.reverse()
    b.define(axes, image.at(), 2)
    return True


def flip(b: Builder) -> bool:
    """An axis read backwards, or from elsewhere."""
    image = b.pick(lambda i: bool(i.spatial))
    if image is None or not b.affords(image.points):
        return False
    axis = b.rng.choice(image.spatial)
    if b.rng.random() < 0.5:
        b.define(image.axes, image.at({axis.unit: axis.low + axis.high - axis.var}))
        return True
    shift = b.rng.randint(-5, 5)
    moved = strided(axis, shift, shift)
    assert moved is not None
    b.define(image.replacing(moved), image.at({axis.unit: axis.var + shift}))
    return True


def slice_axis(b: Builder) -> bool:
    """One coordinate along an axis, which goes away."""
    image = b.pick(lambda i: len(i.axes) >= 2)
    if image is None:
        return False
    axis = b.rng.choice(image.axes)
    rest = [own for own in image.axes if own is not axis]
    at = b.rng.randint(axis.low, axis.high)
    term = image.at({axis.unit: at})
    if len(image.axes) == 2 and b.rng.random() < 0.5:
        # The diagonal, as far as it goes.
        along = rest[0]
        term = image.at({axis.unit: hl.clamp(along.var, axis.low, axis.high)})
    b.define(rest, term)
    return True


def stack(b: Builder) -> bool:
    """Two or three images as the channels of one."""
    image = b.pick(lambda i: 1 <= len(i.axes) <= 3 and not any(a.unit.startswith("c") for a in i.axes))
    if image is None or not b.affords(9 * image.points):
        return False
    others = [o for _ in range(b.rng.randint(1, 2)) if (o := b.partner(image, lambda i: i.units == image.units))]
    others = others or [image]
    axes = meet(image, *others)
    if axes is None:
        return False
    channel = Axis(f"c{len(others) + 1}", 0, len(others) + 1)
    term = image.at()
    for number, other in enumerate(others):
        term = select(channel.var <= number, term, other.at())
    order = [channel, *axes] if b.rng.random() < 0.25 else [*axes, channel]
    b.define(order, term, 3)
    return True


def repeat(b: Builder) -> bool:
    """An image along a new axis, each copy a multiple of it."""
    image = b.pick(lambda i: 1 <= len(i.axes) <= 3)
    if image is None:
        return False
    count = b.rng.choice([c for c in (2, 3, 4, 8) if f"c{c}" not in {axis.unit for axis in image.axes}])
    if not b.affords(3.0 * count * image.points):
        return False
    axis = Axis(f"c{count}", 0, count)
    factor = Term(axis.var + 1, Values("i32", 1, count))
    b.define([*image.axes, axis], b.tame(multiply(image.at(), factor)), 3)
    return True


def space_to_depth(b: Builder) -> bool:
    """Each block of two by two points as four channels."""
    image = b.pick(lambda i: len(i.spatial) == 2 and len(i.axes) == 2)
    if image is None or not b.affords(4 * image.points):
        return False
    u, v = image.spatial
    half_u, half_v = strided(u, 0, 1, 2), strided(v, 0, 1, 2)
    if half_u is None or half_v is None:
        return False
    channel = Axis("c4", 0, 4)
    term = image.at({u.unit: 2 * u.var + channel.var % 2, v.unit: 2 * v.var + channel.var // 2})
    b.define([half_u, half_v, channel], term, 2)
    return True


def interleave(b: Builder) -> bool:
    """The channel that is read depends on the place, as in a mosaic of colours."""
    image = b.pick(lambda i: len(i.spatial) == 2 and len(i.axes) == 3)
    if image is None or not b.affords(2 * image.points):
        return False
    u, v = image.spatial
    (channel,) = (axis for axis in image.axes if not axis.is_spatial)
    at = (u.var + 2 * v.var) % channel.extent + channel.low
    b.define(image.spatial, image.at({channel.unit: at}), 3)
    return True


INDEXING: dict[str, StageKind] = {
    "lookup": lookup,
    "warp": warp,
    "gather_anywhere": gather_anywhere,
    "transpose": transpose,
    "flip": flip,
    "slice_axis": slice_axis,
    "stack": stack,
    "repeat": repeat,
    "space_to_depth": space_to_depth,
    "interleave": interleave,
}
"""Stage kinds by name."""
