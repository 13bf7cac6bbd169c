"""Halide expressions whose range is known, and arithmetic on them that stays defined and comparable.

In: terms, which are an expression and what is known of its values. Out: terms again. Integers never overflow a signed
type (undefined in Halide for 32 bits). Floats are either exact, small multiples of a power of two that no reordering of
a sum can change, or positive, so that nothing cancels and rounding stays a small share of the value: a schedule whose
result differs by more than the tolerance of a comparison is then wrong.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import halide as hl

__all__ = [
    "INTEGER_TYPES",
    "Term",
    "Values",
    "cast",
    "divide",
    "index_into",
    "largest",
    "linear",
    "modulo",
    "multiply",
    "select",
    "smallest",
    "summand",
    "tame",
    "to_float",
]

INTEGER_TYPES = {"u8": (0, 255), "u16": (0, 65535), "i16": (-32768, 32767), "i32": (-(1 << 30), 1 << 30)}
"""The integers in use, and the values that terms of them may have: i32 keeps a bit in hand."""

_HALIDE_TYPES = {"u8": hl.UInt(8), "u16": hl.UInt(16), "i16": hl.Int(16), "i32": hl.Int(32), "f32": hl.Float(32)}

# The significand of a 32-bit float: integers up to 2^24 have exact sums.
_FLOAT_BITS = 24
# Significant bits that a Stage stores at most, so that the next one may multiply or add without losing exactness.
_STORED_BITS = 12
# Ranges are worst cases: actual values are smaller, and little is left of them after more than these are dropped.
_MOST_DROPPED_BITS = 3
# Floats that become integers reach this at least.
_LEAST_SPREAD = 128
# Where positive inexact floats are kept.
_LEAST, _MOST = 1.0 / 64, 4096.0


@dataclass(frozen=True, slots=True)
class Values:
    """What is known of the values of an expression."""

    type: str
    """``u8``, ``u16``, ``i16``, ``i32`` or ``f32``."""
    low: float
    """No value is less."""
    high: float
    """No value is greater."""
    step: float = 1
    """All values are multiples of this power of two; 0 for floats that have been rounded, which are positive."""

    def __post_init__(self) -> None:
        """Assert that the type holds the values, exactly where they are to be exact."""
        assert self.low <= self.high
        if self.type == "f32":
            assert self.step == 0 or self.bits <= _FLOAT_BITS
            assert self.step > 0 or self.low > 0
        else:
            assert self.step == 1
            assert INTEGER_TYPES[self.type][0] <= self.low
            assert self.high <= INTEGER_TYPES[self.type][1]

    @property
    def is_float(self) -> bool:
        """Whether these are floats."""
        return self.type == "f32"

    @property
    def is_exact(self) -> bool:
        """Whether every schedule computes the very same values."""
        return self.step > 0

    @property
    def magnitude(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def bits(self) -> float:
        """Significant bits of exact values."""
        return math.log2(max(self.magnitude / self.step, 1))

    def constant(self, value: float) -> Any:
        """A constant of the type."""
        return hl.cast(_HALIDE_TYPES[self.type], hl.f32(value) if self.is_float else hl.i32(int(value)))

    def halide_type(self) -> Any:
        """The type as Halide names it."""
        return _HALIDE_TYPES[self.type]


@dataclass(frozen=True, slots=True)
class Term:
    """An expression and what is known of its values."""

    expr: Any
    """The hl.Expr."""
    values: Values
    """Its range."""


def cast(term: Term, type_: str) -> Term:
    """Convert to a type that holds the values; exact floats are scaled where small, and become the integers below."""
    if type_ == term.values.type:
        return term
    if type_ == "f32":
        return to_float(term)
    if term.values.is_float and term.values.magnitude < _LEAST_SPREAD:
        term = _scaled(term, 2.0 ** math.ceil(math.log2(_LEAST_SPREAD / max(term.values.magnitude, 2**-20))))
    values = term.values
    expr = hl.floor(term.expr) if values.is_float else term.expr
    return Term(hl.cast(_HALIDE_TYPES[type_], expr), Values(type_, math.floor(values.low), math.floor(values.high)))


def to_float(term: Term) -> Term:
    """Convert to an exact float; large integers lose their last bits, always the same ones."""
    if term.values.is_float:
        return term
    term = _narrowed(term, term.values.bits - _FLOAT_BITS + 1)
    return Term(hl.f32(term.expr), Values("f32", float(term.values.low), float(term.values.high), 1.0))


def linear(rng: random.Random, terms: Sequence[Term], weights: Sequence[int]) -> Term:
    """Add up terms with integer weights, none of them 0, in a type that holds every partial sum."""
    if any(term.values.is_float for term in terms):
        return _linear_floats([to_float(term) for term in terms], weights)
    total_weight = sum(map(abs, weights))
    room = (1 << 29) / total_weight
    terms = [_narrowed(term, math.log2(max(term.values.magnitude / room, 1))) for term in terms]
    low, high = _sum_range(terms, weights)
    reach = sum(abs(w) * t.values.magnitude for t, w in zip(terms, weights, strict=True))
    is_positive = all(w > 0 for w in weights) and all(t.values.low >= 0 for t in terms)
    holders = [t for t in ("u8", "u16") if is_positive and reach <= INTEGER_TYPES[t][1]]
    holders += ["i16"] if reach <= INTEGER_TYPES["i16"][1] else []
    type_ = rng.choice([holders[0], "i32"]) if holders else "i32"
    casts = [cast(term, type_).expr for term in terms]
    return Term(_weighted_sum(casts, weights), Values(type_, low, high))


def multiply(a: Term, b: Term) -> Term:
    """Multiply, after dropping the bits that the product has no room for."""
    if not (a.values.is_float or b.values.is_float):
        a, b = (cast(_narrowed(t, t.values.bits - 14), "i32") for t in (a, b))
        low, high = _product_range(a.values, b.values)
        return Term(a.expr * b.expr, Values("i32", low, high))
    a, b = to_float(a), to_float(b)
    is_exact = a.values.is_exact and b.values.is_exact and a.values.bits + b.values.bits <= _FLOAT_BITS
    if is_exact:
        low, high = _product_range(a.values, b.values)
        return Term(a.expr * b.expr, Values("f32", low, high, a.values.step * b.values.step))
    a, b = _positive(a), _positive(b)
    low, high = _product_range(a.values, b.values)
    return _centred(Term(a.expr * b.expr, Values("f32", low, high, 0)))


def summand(term: Term, count: int) -> tuple[Term, Term]:
    """Prepare a term of which up to `count` are to be added.

    Returns:
        What to add each time, and what to start from, whose range is that of all sums.
    """
    if not term.values.is_float:
        reach = term.values.magnitude * count
        term = cast(_narrowed(term, math.log2(max(reach, 1)) - 28), "i32")
        return term, Term(hl.i32(0), _sums("i32", term.values, count, 1))
    if term.values.is_exact and term.values.magnitude * count / term.values.step <= 2**_FLOAT_BITS:
        return term, Term(hl.f32(0), _sums("f32", term.values, count, term.values.step))
    term = _scaled(_positive(term), 2.0 ** -math.ceil(math.log2(count)))
    return term, Term(hl.f32(_LEAST), Values("f32", _LEAST, _LEAST + term.values.high * count, 0))


def _sums(type_: str, values: Values, count: int, step: float) -> Values:
    return Values(type_, min(values.low, 0) * count, max(values.high, 0) * count, step)


def divide(a: Term, b: Term) -> Term:
    """Divide, integers by a number from 1 to 8 that depends on the second."""
    if not (a.values.is_float or b.values.is_float):
        quotient = cast(a, "i32").expr // (hl.i32(modulo(b, 8).expr) + 1)
        return Term(quotient, Values("i32", min(a.values.low, 0), max(a.values.high, 0)))
    a, b = _positive(to_float(a)), _positive(to_float(b))
    values = Values("f32", a.values.low / b.values.high, a.values.high / b.values.low, 0)
    return _centred(Term(a.expr / b.expr, values))


def smallest(a: Term, b: Term) -> Term:
    """The lesser of two."""
    a, b = _alike(a, b)
    values = _joined(a, b, min(a.values.low, b.values.low), min(a.values.high, b.values.high))
    return Term(hl.min(a.expr, b.expr), values)


def largest(a: Term, b: Term) -> Term:
    """The greater of two."""
    a, b = _alike(a, b)
    values = _joined(a, b, max(a.values.low, b.values.low), max(a.values.high, b.values.high))
    return Term(hl.max(a.expr, b.expr), values)


def select(condition: Any, a: Term, b: Term) -> Term:
    """One of two, by a condition on exact values."""
    a, b = _alike(a, b)
    values = _joined(a, b, min(a.values.low, b.values.low), max(a.values.high, b.values.high))
    return Term(hl.select(condition, a.expr, b.expr), values)


def modulo(term: Term, divisor: int) -> Term:
    """The remainder of exact values as an integer."""
    term = cast(term, "i32") if term.values.is_float or term.values.high < divisor else term
    values = Values(term.values.type, 0, divisor - 1)
    return Term(term.expr % values.constant(divisor), values)


def index_into(term: Term, low: int, extent: int) -> Any:
    """Spread exact values over a range of coordinates, as an hl.Expr that Halide can bound."""
    term = cast(term, "i32")
    span = int(term.values.high - term.values.low) + 1
    place = term.expr - int(term.values.low)
    if span > extent:
        place = place // -(-span // extent)
    elif span * 2 <= extent:
        place = place * (extent // span)
    return hl.clamp(place + low, low, low + extent - 1)


def tame(rng: random.Random, term: Term) -> Term:
    """Bring values back to a size that later Stages have room for, in one of several ways."""
    if term.values.is_float:
        return _tame_float(rng, term)
    fitting = [t for t, (low, high) in INTEGER_TYPES.items() if low <= term.values.low and term.values.high <= high]
    if term.values.bits <= _STORED_BITS and rng.random() < 0.7:
        return cast(term, rng.choice([fitting[0], fitting[0], fitting[-1]]))
    way = rng.randrange(5)
    if way <= 1:
        return cast(modulo(term, rng.choice([251, 256, 1000, 4096])), rng.choice(["u16", "i16", "i32"]))
    if way == 2 and term.values.bits > 8:
        centre, reach = (term.values.low + term.values.high) // 2, int(term.values.high - term.values.low) // 3
        return tame(rng, _clamped(term, int(centre) - reach, int(centre) + reach))
    term = _narrowed(term, term.values.bits - rng.choice([8, 10, _STORED_BITS]))
    type_ = next(t for t, (low, high) in INTEGER_TYPES.items() if low <= term.values.low and term.values.high <= high)
    return cast(term, type_)


def _clamped(term: Term, low: int, high: int) -> Term:
    values = Values(term.values.type, max(low, term.values.low), min(high, term.values.high))
    return Term(hl.clamp(term.expr, values.constant(values.low), values.constant(values.high)), values)


def _tame_float(rng: random.Random, term: Term) -> Term:
    values = term.values
    if not values.is_exact:
        return _centred(term)
    extra = math.ceil(values.bits) - _STORED_BITS
    if extra > 0:
        # Multiples of a larger step: the same rounding, whatever the order of what came before.
        step = values.step * 2**extra
        low, high = (math.floor(v / step) * step for v in (values.low, values.high))
        term = Term(hl.floor(term.expr * (1 / step)) * step, Values("f32", low, high, step))
    exponent = round(math.log2(max(term.values.magnitude, 2**-20)))
    if abs(exponent) <= 8:
        return term
    return _scaled(term, 2.0 ** (rng.randint(0, 4) - exponent))


def _narrowed(term: Term, excess: float) -> Term:
    """Take bits off integers: the last ones, or the first ones where so many would hardly leave anything."""
    excess = math.ceil(excess)
    if excess > _MOST_DROPPED_BITS:
        return modulo(term, 1 << max(1, math.ceil(term.values.bits) - excess - 1))
    return _shifted(term, excess)


def _shifted(term: Term, bits: int) -> Term:
    """Drop the last bits of integers."""
    if bits <= 0:
        return term
    low, high = (int(v) >> bits for v in (term.values.low, term.values.high))
    return Term(term.expr >> term.values.constant(bits), Values(term.values.type, low, high))


def _scaled(term: Term, factor: float) -> Term:
    """Multiply a float by a positive number, a power of two where the float is exact."""
    values = term.values
    scaled = Values("f32", values.low * factor, values.high * factor, values.step * factor)
    return Term(term.expr * hl.f32(factor), scaled)


def _positive(term: Term) -> Term:
    """Shift exact floats above 0 and forget that they are exact."""
    values = term.values
    if not values.is_exact:
        return term
    least = max(values.magnitude / 16, 2.0**-6)
    shift = 0.0 if values.low >= least else 2.0 ** math.ceil(math.log2(least - values.low))
    expr = term.expr + hl.f32(shift) if shift else term.expr
    return _centred(Term(expr, Values("f32", values.low + shift, values.high + shift, 0)))


def _centred(term: Term) -> Term:
    """Scale positive floats that grew or shrank too far."""
    values = term.values
    if values.high > _MOST:
        term = _scaled(term, 2.0 ** -round(math.log2(values.high / 16)))
    elif values.high < _LEAST * 4:
        term = _scaled(term, 2.0 ** round(math.log2(4 / values.high)))
    if term.values.low >= _LEAST:
        return term
    return Term(term.expr + hl.f32(_LEAST), Values("f32", term.values.low + _LEAST, term.values.high + _LEAST, 0))


def _linear_floats(terms: Sequence[Term], weights: Sequence[int]) -> Term:
    if all(term.values.is_exact for term in terms):
        step = min(term.values.step for term in terms)
        reach = sum(abs(w) * t.values.magnitude for t, w in zip(terms, weights, strict=True))
        if reach / step <= 2**_FLOAT_BITS:
            low, high = _sum_range(terms, weights)
            return Term(_weighted_sum([t.expr for t in terms], weights), Values("f32", low, high, step))
    terms = [_positive(term) for term in terms]
    weights = [abs(w) for w in weights]
    low, high = _sum_range(terms, weights)
    return _centred(Term(_weighted_sum([t.expr for t in terms], weights), Values("f32", low, high, 0)))


def _weighted_sum(exprs: Sequence[Any], weights: Sequence[int]) -> Any:
    total = None
    for expr, weight in zip(exprs, weights, strict=True):
        part = expr if abs(weight) == 1 else expr * hl.cast(expr.type(), abs(weight))
        if total is None:
            total = part if weight > 0 else -part
        elif weight > 0:
            total = total + part
        else:
            total = total - part
    return total


def _sum_range(terms: Sequence[Term], weights: Sequence[int]) -> tuple[float, float]:
    ends = [(w * t.values.low, w * t.values.high) for t, w in zip(terms, weights, strict=True)]
    return sum(min(pair) for pair in ends), sum(max(pair) for pair in ends)


def _product_range(a: Values, b: Values) -> tuple[float, float]:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _alike(a: Term, b: Term) -> tuple[Term, Term]:
    """Convert two terms to one type."""
    if a.values.is_float or b.values.is_float:
        a, b = to_float(a), to_float(b)
        is_exact = a.values.is_exact and b.values.is_exact
        reach = max(a.values.magnitude, b.values.magnitude)
        if is_exact and reach / min(a.values.step, b.values.step) <= 2**_FLOAT_BITS:
            return a, b
        return _positive(a), _positive(b)
    if a.values.type == b.values.type:
        return a, b
    low, high = min(a.values.low, b.values.low), max(a.values.high, b.values.high)
    type_ = next(t for t, (least, most) in INTEGER_TYPES.items() if least <= low and high <= most)
    return cast(a, type_), cast(b, type_)


def _joined(a: Term, b: Term, low: float, high: float) -> Values:
    return Values(a.values.type, low, high, min(a.values.step, b.values.step))
