"""Reading Halide's types and constant Exprs as Python values, and writing them back.

Halide's Python bindings offer no accessor for the number that an Expr holds: integers are read from how it prints,
floats (of which six digits are printed) are evaluated.
"""

import re
from typing import Any

__all__ = ["Number", "constant", "expr", "halide_type"]

Number = int | float

_INTEGER = re.compile(r": (?:\(u?int\d+\))?(-?\d+)>$")
_FLOAT = re.compile(r": (?:\(float\d+\))?-?[\d.]+(?:e[-+]\d+)?[fh]?>$")
_TYPE = re.compile(r"(bool|int|uint|float|bfloat)(\d*)$")


def constant(value: Any) -> Number | None:
    """Return the number that an Expr is, or None where it is undefined or symbolic."""
    import halide as hl

    if not value.defined():
        return None
    text = str(value)
    if value.type().is_float():
        return float(hl.evaluate(value)) if _FLOAT.search(text) else None
    match = _INTEGER.search(text)
    return int(match.group(1)) if match else None


def expr(value: Number, type_name: str) -> Any:
    """Return `value` as a constant Expr of the type that prints as `type_name`."""
    import halide as hl

    wide = hl.f64(value) if isinstance(value, float) else hl.i64(value)
    return hl.cast(halide_type(type_name), wide)


def halide_type(name: str) -> Any:
    """Return the Halide type that prints as `name`, such as ``uint8``."""
    import halide as hl

    match = _TYPE.match(name)
    assert match, f"not a scalar Halide type: {name}"
    family, bits = match.groups()
    if family == "bool":
        return hl.Bool()
    makers = {"int": hl.Int, "uint": hl.UInt, "float": hl.Float, "bfloat": hl.BFloat}
    return makers[family](int(bits))
