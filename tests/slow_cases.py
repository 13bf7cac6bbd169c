"""Parameters of a test of which a few run every time, and the others where slower tests run, too."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["EXHAUSTIVE", "half_of", "marks_of", "slow_but"]

EXHAUSTIVE = (pytest.mark.slow, pytest.mark.exhaustive)
"""Marks of a further case, which the gate leaves out."""


def half_of(names: Iterable[str], quick: Collection[str]) -> set[str]:
    """Every second name but for the quick ones: the half that is left out where each of many cases is like others."""
    return {*list(names)[::2]} - {*quick}


def marks_of(value: Any, further: Collection[Any]) -> Any:
    """The marks of a value that does not run with the quick tests: exhaustive among `further`, and else slow."""
    return EXHAUSTIVE if value in further else pytest.mark.slow


def slow_but(quick: Collection[Any], values: Iterable[Any], *, further: Collection[Any] = ()) -> list[Any]:
    """Return the values, those that are not among `quick` marked as slow, and those among `further` as exhaustive."""
    return [value if value in quick else pytest.param(value, marks=marks_of(value, further)) for value in values]
