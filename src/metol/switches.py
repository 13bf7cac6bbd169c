"""The switches of a search: every field of `SearchOptions` that is either on or off, or left to the strategy.

In: the class. Out: a `Switch` each, in the order of the fields, told in the words of their docstrings, so that a new
field appears in tables and tests by itself.
"""

import ast
import functools
import inspect
import textwrap
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from metol.options import SearchOptions

__all__ = ["Switch", "switches"]

_OPENING = "Whether "


@dataclass(frozen=True, slots=True)
class Switch:
    """A part of the space, of the search or of what the user promises, that can be on or off."""

    name: str
    """The field of `SearchOptions`."""
    is_on: bool
    """Whether it is on by default."""
    meaning: str
    """What holds when it is on: the first clause of the field's docstring."""

    def __str__(self) -> str:
        return f"{self.name}={not self.is_on}"

    def turned(self) -> SearchOptions:
        """Return the default options, but for this switch."""
        changes: dict[str, Any] = {self.name: not self.is_on}
        return SearchOptions(**changes)


@functools.cache
def switches() -> tuple[Switch, ...]:
    """List all switches of `SearchOptions`."""
    told = _docstrings(SearchOptions)
    return tuple(
        # What is left to the strategy is off: no strategy for CPUs turns it on.
        Switch(field.name, field.default is True, _first_clause(told.get(field.name, "")))
        for field in fields(SearchOptions)
        if field.type in (bool, bool | None)
    )


def _docstrings(cls: type) -> dict[str, str]:
    """Return the docstring that follows each field of a class in its source."""
    (body,) = (node.body for node in ast.parse(textwrap.dedent(inspect.getsource(cls))).body if hasattr(node, "body"))
    told = {}
    for field, text in pairwise(body):
        is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if is_field and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            told[field.target.id] = " ".join(str(text.value.value).split())
    return told


def _first_clause(text: str) -> str:
    """Return a docstring up to its first colon or the end of its first sentence, as a clause of its own."""
    clause = text.split(": ")[0].split(". ")[0].removesuffix(".").removeprefix(_OPENING)
    return clause[:1].lower() + clause[1:]
