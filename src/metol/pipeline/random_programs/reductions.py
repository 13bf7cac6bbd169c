"""Stages with updates: reductions over an axis or a window, layers of a network, scans, histograms, scatters."""

from dataclasses import replace
from typing import Any

import halide as hl

from metol.pipeline.random_programs.builder import Builder, StageKind
from metol.pipeline.random_programs.images import Axis, Image, strided
from metol.pipeline.random_programs.values import Term, Values, cast, index_into, linear, multiply, summand

__all__ = ["REDUCTIONS"]

# Taps of a convolution, or channels out of one: small, as in the first layers of a network.
_CHANNEL_COUNTS = (2, 3, 4, 8, 16)

# Where the extremes of random values are as good as known.
_MANY = 100
# Floats that may be added one by one: of more, the sum in order loses so much to rounding that it is no reference.
_MOST_ADDED = 1 << 18


def reduce_axis(b: Builder) -> bool:
    """The sum, greatest or least value along one axis, perhaps of some of its points alone."""
    image = b.pick(lambda i: bool(i.axes))
    if image is None or not b.affords(2 * image.points):
        return False
    axis = b.rng.choice(image.axes)
    rest = [own for own in image.axes if own is not axis]
    domain = b.domain(axis)
    way = b.rng.randrange(4)
    if way == 1:
        domain.where(domain.x % 3 != 1)
    if way == 2 and rest:
        domain.where(domain.x <= rest[-1].var)
    _reduce(b, rest, image.at({axis.unit: domain.x}), axis.extent)
    return True


def reduce_all(b: Builder) -> bool:
    """One number from all points of an image, or of its first axes."""
    image = b.pick(lambda i: len(i.axes) >= 2)
    if image is None or not b.affords(2 * image.points):
        return False
    count = b.rng.randint(2, len(image.axes))
    domain = b.domain(*image.axes[:count])
    place = {axis.unit: domain[d] for d, axis in enumerate(image.axes[:count])}
    points = image.points
    for axis in image.axes[count:]:
        points //= axis.extent
    _reduce(b, image.axes[count:], image.at(place), points)
    return True


def window_sum(b: Builder) -> bool:
    """A weighted sum over a window, as an update; the window may be round."""
    image = b.pick(lambda i: len(i.spatial) == 2)
    if image is None:
        return False
    u, v = image.spatial
    radius = b.rng.randint(1, 3)
    inner_u, inner_v = strided(u, -radius, radius), strided(v, -radius, radius)
    side = 2 * radius + 1
    if inner_u is None or inner_v is None or not b.affords(2 * side * side * image.points):
        return False
    axes = replace(image, axes=image.replacing(inner_u)).replacing(inner_v)
    domain = hl.RDom([(-radius, side), (-radius, side)], "r")
    if b.rng.random() < 0.4:
        domain.where(domain.x * domain.x + domain.y * domain.y <= radius * radius)
    term = image.at({u.unit: u.var + domain.x, v.unit: v.var + domain.y})
    if b.rng.random() < 0.5:
        weight = Term(2 * radius + 1 - hl.abs(domain.x) - hl.abs(domain.y), Values("i32", 1, 2 * radius + 1))
        term = multiply(term, Term(hl.i32(weight.expr), weight.values))
    _reduce(b, axes, term, side * side)
    return True


def inline_reduction(b: Builder) -> bool:
    """Halide's own sum, maximum or minimum inside an expression."""
    image = b.pick(lambda i: bool(i.spatial))
    if image is None:
        return False
    axis = b.rng.choice(image.spatial)
    first, last = b.taps(3)
    inner = strided(axis, first, last)
    count = last - first + 1
    if inner is None or not b.affords(3 * count * image.points):
        return False
    domain = hl.RDom([(first, count)], "r")
    term, start = summand(image.at({axis.unit: axis.var + domain.x}), count)
    if b.rng.random() < 0.5:
        total = Term(hl.sum(domain, term.expr) + start.expr, start.values)
    else:
        extremum = b.rng.choice([hl.maximum, hl.minimum])
        total = Term(extremum(domain, term.expr), term.values)
    b.define(image.replacing(inner), b.tame(total), 3 * count)
    return True


def arg_max(b: Builder) -> bool:
    """Where along an axis the greatest value lies, and the value."""
    image = b.pick(lambda i: bool(i.axes) and i.values.is_exact)
    if image is None or not b.affords(3 * image.points):
        return False
    axis = b.rng.choice(image.axes)
    rest = [own for own in image.axes if own is not axis]
    domain = b.domain(axis)
    where = Values("i32", min(0, axis.low), axis.high)
    value = image.at({axis.unit: domain.x})
    if b.rng.random() < 0.5:
        best = hl.argmax(domain, value.expr)
        b.define_tuple(rest, (Term(best[0], where), Term(best[1], image.values)), 3 * axis.extent)
        return True
    func, place = b.func(), b.place(rest)
    func[place] = (hl.i32(axis.low), image.values.constant(image.values.low))
    is_better = value.expr > func[place][1]
    func[place] = (
        hl.select(is_better, domain.x, func[place][0]),
        hl.select(is_better, value.expr, func[place][1]),
    )
    images = b.add(func, rest, (where, image.values))
    b.spend(3 * axis.extent * images[0].points)
    return True


def pool(b: Builder) -> bool:
    """The greatest or the mean of each block of an image."""
    image = b.pick(lambda i: len(i.spatial) == 2)
    if image is None or not b.affords(3 * image.points):
        return False
    u, v = image.spatial
    stride = b.rng.choice([2, 2, 3])
    size = stride + b.rng.choice([0, 0, 1])
    inner_u, inner_v = strided(u, 0, size - 1, stride), strided(v, 0, size - 1, stride)
    if inner_u is None or inner_v is None:
        return False
    axes = replace(image, axes=image.replacing(inner_u)).replacing(inner_v)
    domain = hl.RDom([(0, size), (0, size)], "r")
    _reduce(b, axes, image.at({u.unit: stride * u.var + domain.x, v.unit: stride * v.var + domain.y}), size * size)
    return True


def convolution_layer(b: Builder) -> bool:
    """A window over all channels, for each of the channels out; then a bias and a rectifier."""
    image = b.pick(lambda i: len(i.spatial) == 2 and len(i.axes) == 3)
    if image is None:
        return False
    u, v = image.spatial
    (channel,) = (axis for axis in image.axes if not axis.is_spatial)
    size = b.rng.choice([1, 1, 3])
    count = b.rng.choice(_CHANNEL_COUNTS)
    inner_u, inner_v = strided(u, 0, size - 1), strided(v, 0, size - 1)
    work = 2.0 * size * size * channel.extent
    if inner_u is None or inner_v is None or not b.affords(work * image.points / channel.extent * count):
        return False
    out = Axis(f"c{count}", 0, count)
    type_ = "f32" if image.values.is_float else "u8"
    weights = b.input([("i", size), ("j", size), ("k", channel.extent), (out.unit, count)], type_)
    domain = hl.RDom([(0, size), (0, size), (channel.low, channel.extent)], "r")
    place = {u.unit: u.var + domain.x, v.unit: v.var + domain.y, channel.unit: domain.z}
    weight = weights.at({"i": domain.x, "j": domain.y, "k": domain.z - channel.low})
    if type_ == "u8":
        weight = linear(b.rng, [weight, Term(hl.i32(1), Values("i32", 1, 1))], [1, -128])
    spatial = replace(image, axes=image.replacing(inner_u)).replacing(inner_v)
    axes = [own for own in spatial if own.is_spatial]
    axes.insert(b.rng.choice([0, len(axes)]), out)
    sums = _reduce(b, axes, multiply(image.at(place), weight), size * size * channel.extent, is_sum=True)
    if b.rng.random() < 0.6:
        b.read(sums)
        term, zero = sums.at(), sums.values.constant(0)
        values = replace(sums.values, low=max(sums.values.low, 0), high=max(sums.values.high, 0))
        b.define(sums.axes, b.tame(Term(hl.max(term.expr, zero), values)), 2)
    return True


def matmul(b: Builder) -> bool:
    """An image as a matrix, times an input."""
    image = b.pick(lambda i: len(i.axes) == 2)
    if image is None:
        return False
    inner, row = image.axes
    count = b.rng.choice([4, 16, 32, 96])
    if not b.affords(2.0 * image.points * count):
        return False
    out = Axis(f"n{count}", 0, count)
    if row.unit == out.unit:  # the product of such a product: each axis has a name of its own
        return False
    factor = b.input([(out.unit, count), ("k", inner.extent)], "f32" if image.values.is_float else "i32")
    domain = b.domain(inner)
    product = multiply(image.at({inner.unit: domain.x}), factor.at({"k": domain.x - inner.low}))
    _reduce(b, [out, row], product, inner.extent, is_sum=True)
    return True


def scan(b: Builder) -> bool:
    """A running sum, or a recursive filter, along one axis, forward or backward."""
    image = b.pick(lambda i: any(axis.extent > 1 for axis in i.axes))
    if image is None or not b.affords(3 * image.points):
        return False
    axis = b.rng.choice([axis for axis in image.axes if axis.extent > 1])
    func = b.func()
    is_sum = b.rng.random() < 0.5
    if is_sum:
        term, start = summand(image.at(), axis.extent)
        values = start.values
    else:
        term = cast(image.at(), "i32") if not image.values.is_float else image.at()
        values = term.values
    if not values.is_exact or (values.is_float and not is_sum):
        # Of floats only what rounds the same way in every order: the greatest so far.
        term = image.at()
        values, is_sum = term.values, False
    func[b.place(image.axes)] = term.expr
    domain = hl.RDom([(1, axis.extent - 1)], "r")
    here, before = axis.low + domain.x, axis.low + domain.x - 1
    if b.rng.random() < 0.3:
        here, before = axis.high - domain.x, axis.high - domain.x + 1
    at_here, at_before = (func[b.place(image.axes, **{axis.unit: at})] for at in (here, before))
    if is_sum:
        func[b.place(image.axes, **{axis.unit: here})] += at_before
    elif values.is_float:
        func[b.place(image.axes, **{axis.unit: here})] = hl.max(at_before, at_here)
    else:
        mean = (3 * at_before + at_here) >> 2 if values.magnitude < 1 << 27 else hl.max(at_before, at_here)
        func[b.place(image.axes, **{axis.unit: here})] = mean
    b.add(func, image.axes, [values])
    b.spend(3 * image.points)
    return True


def histogram(b: Builder) -> bool:
    """How often each value occurs, in the whole image or in each row of it."""
    image = b.pick(lambda i: bool(i.axes) and i.values.is_exact and i.values.magnitude < 1 << 30)
    if image is None or not b.affords(4 * image.points):
        return False
    bins = b.rng.choice([8, 16, 64, 256])
    counted = image.axes[:1] if len(image.axes) > 1 and b.rng.random() < 0.3 else image.axes
    rest = [axis for axis in image.axes if axis not in counted]
    domain = b.domain(*counted)
    place = {axis.unit: domain[d] for d, axis in enumerate(counted)}
    out = Axis(f"b{bins}", 0, bins)
    func = b.func()
    func[b.place([out, *rest])] = hl.i32(0)
    bin_ = index_into(image.at(place), 0, bins)
    func[b.place([out, *rest], **{out.unit: bin_})] += 1
    count = 1
    for axis in counted:
        count *= axis.extent
    b.add(func, [out, *rest], [Values("i32", 0, count)])
    b.spend(4 * image.points)
    return True


def scatter(b: Builder) -> bool:
    """Values written where other values say; the last one stays."""
    image = b.pick(lambda i: len(i.axes) == 1 and i.values.is_exact)
    if image is None or not b.affords(4 * image.points):
        return False
    (axis,) = image.axes
    out = Axis(f"b{axis.extent}", 0, axis.extent)
    domain = b.domain(axis)
    func = b.func()
    values = Values("i32", -1, axis.extent)
    func[out.var] = hl.i32(-1)
    func[index_into(image.at({axis.unit: domain.x}), 0, axis.extent)] = hl.i32(domain.x - axis.low)
    b.add(func, [out], [values])
    b.spend(4 * image.points)
    return True


def patch(b: Builder) -> bool:
    """An image, some rows or columns of which are computed anew."""
    image = b.pick(lambda i: len(i.axes) >= 2)
    if image is None or not b.affords(3 * image.points):
        return False
    values = image.values
    func, place = b.func(), b.place(image.axes)
    func[place] = image.at().expr
    for _ in range(b.rng.randint(1, 3)):
        axis = b.rng.choice(image.axes)
        at = b.rng.randint(axis.low, axis.high)
        row = b.place(image.axes, **{axis.unit: at})
        way = b.rng.randrange(4)
        if way == 0:
            func[row] = values.constant(values.high)
        elif way == 1:
            func[place] = hl.max(func[place], image.at({axis.unit: axis.low}).expr)
        elif way == 2:
            domain = hl.RDom([(axis.low, min(axis.extent, 5))], "r")
            some = b.place(image.axes, **{axis.unit: domain.x})
            func[some] = hl.min(func[some], values.constant((values.low + values.high) / 2))
        else:
            func[row] = hl.min(func[row], image.at({axis.unit: axis.high}).expr)
    b.add(func, image.axes, [values])
    b.spend(4 * image.points)
    return True


def _reduce(b: Builder, axes: Any, term: Term, count: int, *, is_sum: bool = False) -> Image:
    """Define a Func that adds up a term over its RDom, or takes the greatest or least; and one that tames sums."""
    func, place = b.func(), b.place(axes)
    # The extremes of many values are nearly always the same.
    way = 0 if is_sum or count > _MANY else b.rng.randrange(3)
    if count > _MOST_ADDED and not term.values.is_exact:
        way = 1
    if way == 0:
        term, start = summand(term, count)
        func[place] = start.expr
        func[place] += term.expr
        values = start.values
    else:
        values = term.values
        func[place] = values.constant(values.low if way == 1 else values.high)
        func[place] = (hl.max if way == 1 else hl.min)(func[place], term.expr)
    (reduced,) = b.add(func, axes, [values])
    b.spend(2 * count * reduced.points)
    if values.magnitude < 1 << 12 and b.rng.random() < 0.7:
        return reduced
    b.read(reduced)
    return b.define(axes, b.tame(reduced.at()), 2)


REDUCTIONS: dict[str, StageKind] = {
    "reduce_axis": reduce_axis,
    "reduce_all": reduce_all,
    "window_sum": window_sum,
    "inline_reduction": inline_reduction,
    "arg_max": arg_max,
    "pool": pool,
    "convolution_layer": convolution_layer,
    "matmul": matmul,
    "scan": scan,
    "histogram": histogram,
    "scatter": scatter,
    "patch": patch,
}
"""Stage kinds by name."""
