"""Stages that read their inputs at the point that they compute: arithmetic, casts, selections, Tuples."""

import halide as hl

from metol.pipeline.random_programs.builder import Builder, StageKind
from metol.pipeline.random_programs.images import Image, meet
from metol.pipeline.random_programs.values import (
    INTEGER_TYPES,
    Term,
    Values,
    cast,
    divide,
    largest,
    linear,
    modulo,
    multiply,
    select,
    smallest,
    to_float,
)

__all__ = ["POINTWISE"]

_STORAGE_TYPES = {
    "bool": hl.UInt(1),
    "i8": hl.Int(8),
    "u32": hl.UInt(32),
    "i64": hl.Int(64),
    "u64": hl.UInt(64),
    "f64": hl.Float(64),
}


def unary(b: Builder) -> bool:
    """One image through a function of one value."""
    image = b.pick()
    if image is None or not b.affords(2 * image.points):
        return False
    b.define(image.axes, b.tame(_unary(b, image.at())), 2)
    return True


def binary(b: Builder) -> bool:
    """Two images through an operator."""
    found = _pair(b)
    if found is None:
        return False
    image, other = found
    axes = meet(image, other)
    if axes is None or not b.affords(2 * image.points):
        return False
    b.define(axes, b.tame(_binary(b, image.at(), other.at())), 2)
    return True


def blend(b: Builder) -> bool:
    """A weighted sum of several images."""
    image = b.pick(lambda i: bool(i.axes))
    if image is None:
        return False
    others = [other for _ in range(b.rng.randint(1, 3)) if (other := b.partner(image)) is not None]
    axes = meet(image, *others)
    if not others or axes is None or not b.affords(4 * image.points):
        return False
    terms = [image.at(), *(other.at() for other in others)]
    b.define(axes, b.tame(linear(b.rng, terms, b.weights(len(terms), least=-2))), len(terms))
    return True


def choose(b: Builder) -> bool:
    """One of two images by the value of a third, or by the coordinates."""
    found = _pair(b)
    if found is None:
        return False
    image, other = found
    judge = b.partner(image, lambda i: i.values.is_exact)
    axes = meet(image, other, *([judge] if judge else []))
    if axes is None or not axes or not b.affords(3 * image.points):
        return False
    if judge is not None and b.rng.random() < 0.7:
        values = judge.values
        bound = values.low + b.rng.uniform(0.3, 0.7) * (values.high - values.low)
        condition = judge.at().expr > values.constant(bound)
    else:
        axis = b.rng.choice(axes)
        condition = (axis.var + b.rng.randint(0, 5)) % b.rng.choice([2, 3, 5]) == 0
        if b.rng.random() < 0.4:
            condition = axis.var < axis.low + b.rng.randint(1, axis.extent)
    b.define(axes, b.tame(select(condition, image.at(), other.at())), 3)
    return True


def pair(b: Builder) -> bool:
    """A Tuple of two values."""
    image = b.pick()
    if image is None or not b.affords(5 * image.points):
        return False
    other = b.partner(image)
    axes = image.axes if other is None else meet(image, other)
    if axes is None:
        return False
    second = image if other is None else other
    b.define_tuple(axes, (b.tame(_unary(b, image.at())), b.tame(_unary(b, second.at()))), 4)
    return True


def parameter(b: Builder) -> bool:
    """One image with a scalar parameter."""
    image = b.pick()
    if image is None or not b.affords(2 * image.points):
        return False
    value = b.rng.randint(1, 9)
    param = hl.Param(hl.Int(32), f"number{len(b.images)}")
    param.set_estimate(value)
    scalar = Term(hl.Expr(param), Values("i32", value, value))
    term = multiply(image.at(), scalar) if b.rng.random() < 0.5 else linear(b.rng, [image.at(), scalar], [1, 3])
    b.define(image.axes, b.tame(term), 2)
    return True


def wrap_around(b: Builder) -> bool:
    """Arithmetic of small integers that wraps, bits, and shifts."""
    image = b.pick(lambda i: i.values.type in ("u8", "u16", "i16"))
    if image is None or not b.affords(3 * image.points):
        return False
    type_ = image.values.type
    other = b.partner(image, lambda i: i.values.type == type_)
    axes = image.axes if other is None else meet(image, other)
    if axes is None:
        return False
    value, constant = image.at().expr, image.values.constant(b.rng.randint(3, 100))
    operand = constant if other is None else other.at().expr
    ways = [
        value + operand,
        value - operand,
        value * constant,
        value ^ operand,
        (value & constant) | (operand << image.values.constant(2)),
        ~value,
        hl.saturating_add(value, operand),
        hl.cast(image.values.halide_type(), hl.rounding_halving_add(value, operand)),
    ]
    b.define(axes, Term(b.rng.choice(ways), Values(type_, *INTEGER_TYPES[type_])), 3)
    return True


def stored_otherwise(b: Builder) -> bool:
    """One image in a type that only stores it: signed bytes, unsigned or 64-bit integers, doubles, truth values."""
    image = b.pick(lambda i: bool(i.axes))
    if image is None or not b.affords(2 * image.points):
        return False
    term = image.at()
    if b.rng.random() < 0.2:
        term = cast(modulo(term, 2), "u8") if term.values.is_exact else term
    type_ = b.rng.choice(_holders(term.values))
    func = b.func()
    func[b.place(image.axes)] = hl.cast(_STORAGE_TYPES[type_], term.expr)
    b.add(func, image.axes, [term.values], is_stored_otherwise=True)
    b.spend(2 * image.points)
    return True


def _holders(values: Values) -> list[str]:
    """Types beyond those that values are reckoned in, each of which holds these to the last bit."""
    if values.is_float:
        return ["f64"]
    holders = ["i64", "f64"]
    if values.low >= 0:
        holders += ["u32", "u64"]
    if values.low >= -128 and values.high <= 127:
        holders.append("i8")
    if values.low >= 0 and values.high <= 1:
        holders += ["bool"] * 4
    return holders


def _pair(b: Builder) -> tuple[Image, Image] | None:
    """Pick an image with axes and a partner."""
    image = b.pick(lambda i: bool(i.axes))
    other = None if image is None else b.partner(image)
    return None if image is None or other is None else (image, other)


def _unary(b: Builder, term: Term) -> Term:
    if not term.values.is_exact:
        return _unary_inexact(b, term)
    way = b.rng.randrange(7)
    values = term.values
    if way == 0:
        return _absolute(term)
    if way == 1:
        return to_float(term)
    if way == 2 and not values.is_float:
        return modulo(term, b.rng.choice([7, 64, 251]))
    if way == 3:
        return multiply(term, term)
    if way == 4 and not values.is_float:
        return divide(term, Term(hl.i32(b.rng.choice([1, 2, 6])), Values("i32", 1, 6)))
    if way == 5 and values.is_float and values.magnitude < INTEGER_TYPES["i32"][1]:
        return cast(term, "i32")
    if way == 6 and values.low >= 0:
        floats = to_float(term)
        root = Values("f32", 0.125, max(values.high, 0.125) ** 0.5 + 0.125, 0)
        return Term(hl.sqrt(floats.expr) + hl.f32(0.125), root)
    return linear(b.rng, [term, Term(hl.i32(1), Values("i32", 1, 1))], [b.rng.choice([1, 2, 3]), b.rng.randint(1, 50)])


def _unary_inexact(b: Builder, term: Term) -> Term:
    """A function of positive floats that amplifies no relative error."""
    values = term.values
    way = b.rng.randrange(3)
    if way == 0:
        return Term(hl.sqrt(term.expr), Values("f32", values.low**0.5, values.high**0.5, 0))
    if way == 1:
        return divide(Term(hl.f32(1.0), Values("f32", 1.0, 1.0, 1.0)), term)
    # Far above the values, so that the difference is as exact as they are.
    top = 2 * values.high
    return Term(hl.f32(top) - term.expr, Values("f32", top - values.high, top - values.low, 0))


def _absolute(term: Term) -> Term:
    values = term.values
    low = 0 if values.low <= 0 <= values.high else min(abs(values.low), abs(values.high))
    if not values.is_float:
        term = cast(term, "i32")
        return Term(hl.i32(hl.abs(term.expr)), Values("i32", low, values.magnitude))
    return Term(hl.abs(term.expr), Values("f32", low, values.magnitude, values.step))


def _binary(b: Builder, a: Term, c: Term) -> Term:
    way = b.rng.randrange(8)
    if way == 0:
        return multiply(a, c)
    if way == 1:
        return smallest(a, c)
    if way == 2:
        return largest(a, c)
    if way == 3:
        return divide(a, c)
    if way == 4 and a.values.is_exact and c.values.is_exact:
        return _absolute(linear(b.rng, [a, c], [1, -1]))
    return linear(b.rng, [a, c], [b.rng.choice([1, 2, 3]), b.rng.choice([-1, 1, 2])])


POINTWISE: dict[str, StageKind] = {
    "unary": unary,
    "binary": binary,
    "blend": blend,
    "choose": choose,
    "pair": pair,
    "parameter": parameter,
    "wrap_around": wrap_around,
    "stored_otherwise": stored_otherwise,
}
"""Stage kinds by name."""
