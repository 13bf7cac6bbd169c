"""What every search strategy takes and gives: a space, a cost model and a budget enter, a complete loop nest leaves.

A strategy is never interrupted: it asks the budget between batches, and always returns an answer.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from metol import _core

__all__ = ["Budget", "Known", "SearchResult", "Strategy", "better_than", "run_starts", "runners_up"]

# Loop nests that a result names besides the best.
_ALTERNATIVES = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may go on."""

    seconds: float | None = None
    """Wall-clock seconds from `started`; None for no limit. A strategy ends soon after, with the best it has."""
    is_cancelled: Callable[[], bool] = lambda: False
    """Asked between batches; True ends the search as the end of the time does."""
    started: float = 0.0
    """The `time.monotonic()` that `seconds` counts from."""
    tell: Callable[[_core.Space, "SearchResult"], None] = lambda space, found: None
    """Told of what may well be the result, before the search has ended; of what is not the best so far, too."""

    @staticmethod
    def start(seconds: float | None = None, is_cancelled: Callable[[], bool] = lambda: False) -> "Budget":
        """Return a budget that runs from now."""
        return Budget(seconds, is_cancelled, time.monotonic())

    def part(self, share: float) -> "Budget":
        """Return a budget that ends when this share of the time is over; cancelled when this one is."""
        return self if self.seconds is None else replace(self, seconds=self.seconds * share)

    def rest(self) -> "Budget":
        """Return a budget of what is left of the time, that runs from now: shares of it are shares of what is left."""
        if self.seconds is None:
            return self
        now = time.monotonic()
        return replace(self, seconds=max(0.0, self.started + self.seconds - now), started=now)

    def turn_end(self, turns: int) -> float:
        """Return the `time.monotonic()` at which the first of so many equal turns ends; infinity without a limit."""
        now = time.monotonic()
        if self.seconds is None:
            return math.inf
        return now + max(0.0, self.started + self.seconds - now) / turns

    def is_spent(self) -> bool:
        """Has the time run out, or did somebody cancel?"""
        is_late = self.seconds is not None and time.monotonic() - self.started >= self.seconds
        return is_late or self.is_cancelled()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The outcome of a search."""

    state: _core.States
    """The best complete loop nest found, a batch of one."""
    cost_seconds: float
    """Its predicted cost."""
    candidates: int
    """Candidates that were generated, featurized and costed."""
    is_complete: bool
    """False where the budget ended the search early."""
    alternatives: tuple[_core.States, ...] = ()
    """Other complete loop nests, each a batch of one, best first: for where `state` turns out to be of no use."""


def runners_up(
    space: _core.Space, found: Sequence[tuple[float, _core.States]], most: int = _ALTERNATIVES
) -> tuple[_core.States, ...]:
    """Return the best few of these complete loop nests but the very best, each once.

    Args:
        space: Their space.
        found: Costs and loop nests, each a batch of one, in any order.
        most: How many at most.
    """
    distinct: dict[int, _core.States] = {}
    for _, state in sorted(found, key=lambda pair: pair[0]):
        distinct.setdefault(int(space.identity_hash(state)[0]), state)
    return tuple(distinct.values())[1 : 1 + most]


def run_starts(ordered: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where equal neighbours begin: True at each element that differs from the one before, and at the first.

    `np.unique` and `np.isin` do as much, at the price of importing `np.ma`, which takes longer than a short search.
    """
    is_start = np.ones(len(ordered), dtype=np.bool_)
    is_start[1:] = ordered[1:] != ordered[:-1]
    return is_start


class Strategy(Protocol):
    """A way to search. The same space, model and seed give the same result, whatever the number of threads."""

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """A strategy that has found already what it finds, for others to go on from."""

    result: SearchResult
    """What was found."""

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Return it."""
        return self.result


def better_than(
    first: SearchResult,
    best: SearchResult,
    after: Callable[[Strategy], Strategy] | None,
    space: _core.Space,
    model: _core.CostModel,
    budget: Budget,
) -> SearchResult:
    """Go on from what a filter found, where that is better than what it started from, and return the end of it.

    Args:
        first: What it started from.
        best: What it has now, with the count of all candidates so far; of the same cost where nothing is better.
        after: Makes of a strategy one that goes on from what it finds; None for nothing to go on with.
        space: The space.
        model: The cost model.
        budget: When to end.
    """
    if best.cost_seconds < first.cost_seconds:
        if after is not None and not budget.is_spent():
            best = after(Known(best)).search(space, model, budget.rest())
        budget.tell(space, best)
    return replace(best, is_complete=first.is_complete and not budget.is_spent())
