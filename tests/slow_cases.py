"""Parameters of a test of which a few run every time, and the others where the slow tests run, too."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["slow_but"]


def slow_but(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return the values, those that are not among `quick` marked as slow."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]
