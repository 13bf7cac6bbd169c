"""Coordinate descent: a complete loop nest enters, one that no change of a single decision makes better leaves.

A filter that any strategy can be followed by. Decisions are made from the outputs to the inputs, so a beam pays late
for what it chose early; here each choice is looked at again with all others in view.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from metol import _core
from metol.errors import SearchError
from metol.search.strategy import Budget, SearchResult, Strategy, runners_up

__all__ = ["Refined", "descend", "improve"]

# Rounds over all decisions at most; the descent ends earlier where a round changes nothing.
_ROUNDS = 3
# A change must save at least this share of the cost, so that rounding cannot make the descent go in circles.
_LEAST_GAIN = 1e-4


@dataclass(frozen=True, slots=True)
class Refined:
    """Other strategies, coordinate descent from what each finds, and the best of the results."""

    strategies: tuple[Strategy, ...]
    """What find the loop nests to start from, the cheapest first: where the budget ends, the rest are left out."""
    rounds: int = _ROUNDS
    """Rounds over all decisions at most; the descent ends earlier where a round changes nothing."""

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        found: list[SearchResult] = []
        is_late = False
        for strategy in self.strategies:
            start = strategy.search(space, model, budget)
            found += [descend(space, model, start, budget, self.rounds), replace(start, candidates=0)]
            if is_late := budget.is_spent():
                break
        if not found:
            raise SearchError("Coordinate descent needs a strategy to start from, and none was given.")
        best = min(found, key=lambda result: result.cost_seconds)
        ranked = [(result.cost_seconds, result.state) for result in found]
        ranked += [(math.inf, state) for result in found for state in result.alternatives]
        return replace(
            best,
            candidates=sum(result.candidates for result in found),
            is_complete=not is_late,
            alternatives=runners_up(space, ranked),
        )


def descend(
    space: _core.Space, model: _core.CostModel, best: SearchResult, budget: Budget, rounds: int = _ROUNDS
) -> SearchResult:
    """Change one decision of a complete loop nest at a time, as long as that helps.

    Args:
        space: The Space.
        model: The cost model.
        best: The loop nest.
        budget: When to end.
        rounds: Over all decisions, at most.
    """
    unchanged = 0
    for _ in range(rounds):
        for position in range(space.decision_count):
            if budget.is_spent():
                return replace(best, is_complete=False)
            found = improve(space, model, best, position)
            unchanged = 0 if found.cost_seconds < best.cost_seconds else unchanged + 1
            best = found
            # Every decision has been looked at since the last change: looking again finds the same.
            if unchanged == space.decision_count:
                return best
    return best


def improve(space: _core.Space, model: _core.CostModel, best: SearchResult, position: int) -> SearchResult:
    """Return the best loop nest that differs in one decision, or `best` itself."""
    around = space.look_around(best.state, position, model, best.cost_seconds, 1)
    if len(around) == 0:
        return best
    costs = around.costs
    winner = int(np.argmin(costs))
    candidates = best.candidates + len(costs)
    if costs[winner] >= best.cost_seconds * (1 - _LEAST_GAIN):
        return replace(best, candidates=candidates)
    return replace(best, state=around.take(winner), cost_seconds=float(costs[winner]), candidates=candidates)
