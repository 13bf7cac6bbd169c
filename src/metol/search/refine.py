"""Coordinate descent: a complete loop nest enters, one that no change of a single decision makes better leaves.

A filter that any strategy can be followed by. Decisions are made from the outputs to the inputs, so a beam pays late
for what it chose early; here each choice is looked at again with all others in view.
"""

from dataclasses import dataclass, replace

import numpy as np

from metol import _core
from metol.errors import SearchError
from metol.search.strategy import Budget, SearchResult, Strategy

__all__ = ["Refined"]

# A change must save at least this share of the cost, so that rounding cannot make the descent go in circles.
_LEAST_GAIN = 1e-4


@dataclass(frozen=True, slots=True)
class Refined:
    """Other strategies, coordinate descent from what each finds, and the best of the results."""

    strategies: tuple[Strategy, ...]
    """What find the loop nests to start from, the cheapest first: where the budget ends, the rest are left out."""
    rounds: int = 3
    """Rounds over all decisions at most; the descent ends earlier where a round changes nothing."""

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        best: SearchResult | None = None
        candidates = 0
        for strategy in self.strategies:
            found = self._descend(space, model, strategy.search(space, model, budget), budget)
            candidates += found.candidates
            if best is None or found.cost_seconds < best.cost_seconds:
                best = found
            if budget.is_spent():
                return replace(best, candidates=candidates, is_complete=False)
        if best is None:
            raise SearchError("Coordinate descent needs a strategy to start from, and none was given.")
        return replace(best, candidates=candidates)

    def _descend(self, space: _core.Space, model: _core.CostModel, best: SearchResult, budget: Budget) -> SearchResult:
        """Change one decision at a time, as long as that helps."""
        unchanged = 0
        for _ in range(self.rounds):
            for position in range(space.decision_count):
                if budget.is_spent():
                    return replace(best, is_complete=False)
                found = _improve(space, model, best, position)
                unchanged = 0 if found.cost_seconds < best.cost_seconds else unchanged + 1
                best = found
                # Every decision has been looked at since the last change: looking again finds the same.
                if unchanged == space.decision_count:
                    return best
        return best


def _improve(space: _core.Space, model: _core.CostModel, best: SearchResult, position: int) -> SearchResult:
    """Return the best loop nest that differs in one decision, or `best` itself."""
    neighbours = space.neighbours(best.state, position)
    if len(neighbours) == 0:
        return best
    costs = space.cost(neighbours, model)
    winner = int(np.argmin(costs))
    candidates = best.candidates + len(neighbours)
    if costs[winner] >= best.cost_seconds * (1 - _LEAST_GAIN):
        return replace(best, candidates=candidates)
    return SearchResult(neighbours.take([winner]), float(costs[winner]), candidates, best.is_complete)
