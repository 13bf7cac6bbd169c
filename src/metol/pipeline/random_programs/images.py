"""Images: Funcs and inputs of a random program, with the region where they are defined and the units of their axes.

Two images meet in one Stage only along axes of the same unit and scale, so that footprints do not drift (Adams et al.
2019, §5). Regions run from the inputs to the outputs: an image is read only inside its own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import halide as hl

from metol.pipeline.random_programs.values import Term, Values

__all__ = ["Axis", "Image", "meet", "strided"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of an image."""

    unit: str
    """``x`` and ``y`` for space, a name such as ``c3`` for anything else; also the name of its Var."""
    low: int
    """The least coordinate at which the image is defined."""
    extent: int
    """How many follow."""
    scale: Fraction = Fraction(1)
    """Points of the inputs that a point covers."""

    @property
    def high(self) -> int:
        """The last coordinate."""
        return self.low + self.extent - 1

    @property
    def is_spatial(self) -> bool:
        """Whether stencils and resampling make sense along it."""
        return self.unit in ("x", "y")

    @property
    def var(self) -> Any:
        """The hl.Var that definitions use for it."""
        return hl.Var(self.unit)


@dataclass(frozen=True, slots=True)
class Image:
    """Something to read from: a Func, an element of one that is a Tuple, or an input."""

    func: Any
    """The hl.Func or hl.ImageParam."""
    number: int
    """Tells Funcs apart; the elements of a Tuple share it."""
    axes: tuple[Axis, ...]
    """In the order of the Func's dimensions."""
    values: Values
    """What it holds."""
    element: int | None = None
    """Position in a Tuple."""
    is_stored_otherwise: bool = False
    """Whether the Func is of another type than its values, to which whoever reads it converts."""

    @property
    def points(self) -> int:
        """Number of points in the region."""
        return math.prod(axis.extent for axis in self.axes)

    @property
    def units(self) -> frozenset[tuple[str, Fraction]]:
        """What its axes mean."""
        return frozenset((axis.unit, axis.scale) for axis in self.axes)

    @property
    def spatial(self) -> tuple[Axis, ...]:
        """The axes along x and y."""
        return tuple(axis for axis in self.axes if axis.is_spatial)

    def axis(self, unit: str) -> Axis:
        """The axis of a unit, which there must be."""
        return next(axis for axis in self.axes if axis.unit == unit)

    def at(self, coordinates: Mapping[str, Any] | None = None) -> Term:
        """Read at these coordinates, by unit; at the Var of the unit where none is given."""
        given = coordinates or {}
        place = tuple(given.get(axis.unit, axis.var) for axis in self.axes)
        value = self.func[place if len(place) != 1 else place[0]]
        value = value if self.element is None else value[self.element]
        # Reading a Func gives a reference, which lacks a type.
        expr = value if isinstance(value, hl.Expr) else hl.Expr(value)
        return Term(hl.cast(self.values.halide_type(), expr) if self.is_stored_otherwise else expr, self.values)

    def replacing(self, axis: Axis) -> tuple[Axis, ...]:
        """The axes, one of them replaced by another of its unit."""
        return tuple(axis if own.unit == axis.unit else own for own in self.axes)


def meet(image: Image, *others: Image) -> tuple[Axis, ...] | None:
    """Return the axes of `image`, cut down to where all are defined; None where that is nowhere."""
    axes = []
    for axis in image.axes:
        sides = [axis, *(a for other in others for a in other.axes if (a.unit, a.scale) == (axis.unit, axis.scale))]
        low, high = max(side.low for side in sides), min(side.high for side in sides)
        if high < low:
            return None
        axes.append(replace(axis, low=low, extent=high - low + 1))
    return tuple(axes)


def strided(axis: Axis, first: int, last: int, stride: int = 1) -> Axis | None:
    """Return where ``stride * i + first .. stride * i + last`` lies in the axis; None where that is nowhere."""
    low, high = -(-(axis.low - first) // stride), (axis.high - last) // stride
    if high < low:
        return None
    return replace(axis, low=low, extent=high - low + 1, scale=axis.scale * stride)
