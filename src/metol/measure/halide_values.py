"""Reading Halide's types and constant Exprs as Python values, and writing them back."""

import re
from typing import Any

from metol.pipeline import constant_value

__all__ = ["Number", "constant", "expr", "halide_type", "is_numpy_type"]

Number = int | float

_TYPE = re.compile(r"(bool|int|uint|float|bfloat)(\d*)$")


def constant(value: Any) -> Number | None:
    """Return the number that an Expr is, or None where it is undefined or symbolic."""
    return constant_value(value)


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


def is_numpy_type(name: str) -> bool:
    """Tell whether NumPy has the type that prints as `name`, so that buffers of it can be passed from Python."""
    return not name.startswith("bfloat")
