"""Parameters of a test of which a few run every time, and the others where slower tests run, too."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["exhaustive_but", "slow_but"]


def slow_but(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values, those that are not among `quick` marked as slow."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def exhaustive_but(gate: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values, those that are not among `gate` marked as further cases, which the gate leaves out."""
    marks = (pytest.mark.slow, pytest.mark.exhaustive)
    return [value if value in gate else pytest.param(value, marks=marks) for value in values]
