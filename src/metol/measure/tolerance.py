"""When two results of one pipeline count as the same.

A schedule may reorder a floating-point sum, and a vector loop may contract a multiply and an add where the scalar one
does not; an integer that was rounded from such a float may then differ by one. What is next to where a float is
rounded, or compared, may be anything else, but only what a witness has there, and in few elements. Nothing else is
forgiven.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Comparison", "Tolerance", "compare", "default_tolerance"]

# Re-associating a sum of n terms moves it by at most n·6e-8 of the sum of their magnitudes: 1e-3 covers some 16000
# terms at worst, while a wrong tap, a missed row or a stale value moves it by far more.
_FLOAT32_RELATIVE = 1e-3

# Elements that cancel to nearly nothing carry the rounding of their terms, not of themselves, so this share of the
# relative error is granted on the largest magnitude in the result.
_SCALE_SHARE = 0.01

# Of random floats up to a few thousand that are rounded down, about this share lies within four units in the last place
# of a whole number. One row, or column, of an image with fewer than a thousand of them is more.
_FEW_SHARE = 1e-3


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an element of one output may lie from the expected one."""

    absolute: float
    """Allowed difference, in units of the output."""
    relative: float
    """Allowed difference on top of that, as a fraction of the expected value."""

    def __post_init__(self) -> None:
        """Assert that neither bound is negative."""
        assert self.absolute >= 0
        assert self.relative >= 0

    def __str__(self) -> str:
        if self == Tolerance(0, 0):
            return "exact"
        parts = [f"{self.absolute:.3g} absolute"] if self.absolute else []
        return " + ".join([*parts, f"{self.relative:.3g} relative"] if self.relative else parts)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two results compare."""

    is_equal: bool
    """Whether every element lies within the tolerance."""
    text: str
    """One line for a person: the largest difference, and where the first excessive one is and what it is."""
    is_few: bool = True
    """Whether so few elements differ, none included, that the last bits of floats may have decided."""


def default_tolerance(expected: NDArray[Any], *, narrowest_float: int = 0) -> Tolerance:
    """Return what may be expected of any pipeline that computes `expected`.

    Args:
        expected: what the reference schedule computed for this output.
        narrowest_float: bits of the narrowest floats that the pipeline computes with, 0 where it has none, or none
            narrower than `expected`. Integers of 8 and 16 bits, the sizes that floats are rounded to, may be off by
            one where there are any; wider floats are as precise as the narrowest.
    """
    if expected.dtype.kind in "biu":
        return Tolerance(1.0 if narrowest_float and expected.dtype.itemsize <= 2 else 0.0, 0.0)
    bits = min(narrowest_float or 64, 8 * expected.dtype.itemsize)
    # Scaled by the type's precision, but half floats are never allowed more than 5 %.
    precision = float(np.finfo(f"f{bits // 8}").eps) / float(np.finfo(np.float32).eps)
    relative = min(_FLOAT32_RELATIVE * precision, 0.05)
    magnitude = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    return Tolerance(_SCALE_SHARE * relative * float(magnitude.max(initial=0.0)), relative)


def compare(
    result: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance, witnesses: Sequence[NDArray[Any]] = ()
) -> Comparison:
    """Compare one output with what the reference schedule computed. NaN equals NaN, an infinity itself.

    Args:
        result: The output.
        expected: What the reference computed.
        tolerance: How closely they must agree.
        witnesses: What few elements may be instead; each must itself differ in few from what the reference computed.
    """
    if result.shape != expected.shape or result.dtype != expected.dtype:
        text = f"{result.dtype}{list(result.shape)} instead of {expected.dtype}{list(expected.shape)}"
        return Comparison(False, text, is_few=False)
    error = _errors(result, expected)
    is_bad = _is_beyond(error, expected, tolerance)
    bad_count = int(is_bad.sum())
    largest = f"largest difference {float(error.max(initial=0.0)):.3g} (allowed: {tolerance})"
    if not bad_count:
        return Comparison(True, largest)
    is_few = _are_few(is_bad)
    is_unlike = is_bad
    for witness in witnesses:
        if _are_few(_is_beyond(_errors(witness, expected), expected, tolerance)):
            is_unlike = is_unlike & _is_beyond(_errors(result, witness), witness, tolerance)
    if is_few and not is_unlike.any():
        others = float(error[~is_bad].max(initial=0.0))
        text = f"{bad_count} of {error.size} elements are as the last places of floats decide"
        return Comparison(True, f"{text}, of the others largest difference {others:.3g} (allowed: {tolerance})")
    first = np.unravel_index(int(np.argmax(is_bad)), is_bad.shape)
    where = ", ".join(str(int(i)) for i in reversed(first))  # in Halide's order, x first
    found = f"the first, at ({where}), is {result[first]} instead of {expected[first]}"
    return Comparison(False, f"{bad_count} of {error.size} elements differ; {found}; {largest}", is_few)


def _are_few(is_bad: NDArray[np.bool_]) -> bool:
    """Whether so few elements differ that the last bits of floats may have decided: one, if not all that there is."""
    return int(is_bad.sum()) <= max(_FEW_SHARE * is_bad.size, 1 if is_bad.size > 1 else 0)


def _is_beyond(error: NDArray[np.float64], expected: NDArray[Any], tolerance: Tolerance) -> NDArray[np.bool_]:
    magnitude = np.where(np.isfinite(expected), np.abs(expected.astype(np.float64)), 0.0)
    is_bad: NDArray[np.bool_] = error > tolerance.absolute + tolerance.relative * magnitude
    return is_bad


def _errors(result: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.float64]:
    """Return absolute differences; infinite where a NaN or an infinity stands against anything else."""
    if expected.dtype.kind in "biu":
        # Neither int64 nor uint64 subtract without overflow, but the distance of any two fits an unsigned one.
        high, low = np.maximum(result, expected), np.minimum(result, expected)
        distance: NDArray[np.float64] = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
        return distance
    is_same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.abs(result.astype(np.float64) - expected.astype(np.float64))
    return np.where(is_same, 0.0, np.where(np.isfinite(error), error, np.inf))
