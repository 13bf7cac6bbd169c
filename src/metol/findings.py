"""What was looked at and how it is: the rows that `metol doctor` and `metol check` show.

In: names and findings. Out: immutable `Check`s, for a table or for JSON.
"""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

__all__ = ["Check", "Outcome"]


class Outcome(str, Enum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """Good to know: something of use does not work or is not as it was, and one can do without."""
    FAIL = "fail"
    """What was checked does not work."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    """What it is."""
    outcome: Outcome
    """How it is."""
    found: str
    """What was found."""
    advice: str = ""
    """What to do about it; empty where nothing is to be done."""

    def to_dict(self) -> dict[str, Any]:
        """Return the check for JSON."""
        return {**asdict(self), "outcome": self.outcome.value}
