"""Limited discrepancy search: from a good loop nest, decide one thing otherwise and all that follows anew, greedily.

A filter that any strategy can be followed by. A beam ranks states by what is decided already, so that a choice which
pays off only with later ones is gone before those are made; coordinate descent keeps the later ones as they were. Here
each decision is given to the runners-up of other structural buckets, one at a time, and each is completed by itself.
Coordinate descent goes on from the best of them, if it is about as good: greedy completion has paid for what it chose
early, too. Source: Harvey and Ginsberg 1995, Limited discrepancy search, with one discrepancy.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metol import _core
from metol.errors import SearchError
from metol.search.refine import Refined, descend
from metol.search.strategy import Budget, SearchResult, Strategy, run_starts

__all__ = ["Discrepancies", "deviating"]

# A change must save at least this share of the cost, so that rounding cannot make the search go in circles.
_LEAST_GAIN = 1e-4
# Buckets are as fine as the tilings of outer levels: those decide what can be computed where.
_BUCKET_DEPTH = 5
# Rounds of coordinate descent from what one discrepancy leads to.
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Discrepancies:
    """Another strategy, then one discrepancy at each decision of its result."""

    strategy: Strategy
    """What finds the loop nest to start from."""
    width: int = 8
    """Buckets of each decision that are followed to the end, the cheapest first."""
    slack: float = 0.1
    """What the best end of them may cost more than the best so far, as a share of it, for descent to go on from it."""
    share: float = 0.38
    """Share of the budget's time after which no further decision is looked at: deviating from a good loop nest rarely
    helps much, so that only beams and descent have all of the time."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.slack < 0 or not 0 < self.share <= 1:
            raise SearchError(
                "Discrepancies follow at least one bucket, with a slack of at least 0, in a share of (0, 1], not "
                f"{self.width}, {self.slack} and {self.share}."
            )

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        best = self.strategy.search(space, model, budget)
        part = budget.part(self.share)
        for position in range(space.decision_count):
            if part.is_spent():
                return replace(best, is_complete=False)
            end = self._deviate(space, model, best, position)
            best = replace(best, candidates=end.candidates)
            if end.cost_seconds <= best.cost_seconds * (1 + self.slack) and end.state is not best.state:
                end = descend(space, model, end, part, _ROUNDS)
                is_better = end.cost_seconds < best.cost_seconds * (1 - _LEAST_GAIN)
                best = end if is_better else replace(best, candidates=end.candidates)
        return best

    def _deviate(self, space: _core.Space, model: _core.CostModel, best: SearchResult, position: int) -> SearchResult:
        """Return the best completion of the other buckets of one decision; `best` itself where there are none."""
        before = space.replay(space.path(best.state)[:position])
        children, _ = space.expand(before)
        if len(children) < 2:
            return best
        costs = space.cost(children, model)
        taken = space.replay(space.path(best.state)[: position + 1])
        buckets = space.structural_hash(children, _BUCKET_DEPTH)
        own = int(space.structural_hash(taken, _BUCKET_DEPTH)[0])
        chosen = _first_of_each_bucket(costs, buckets, own)[: self.width]
        candidates = best.candidates + len(children)
        if not chosen:
            return replace(best, candidates=candidates)
        leaves, ends, count = space.complete_greedily(children.take(chosen), model)
        candidates += count
        if len(leaves) == 0:
            return replace(best, candidates=candidates)
        winner = int(np.argmin(ends))
        return replace(
            best,
            state=leaves.take([winner]),
            cost_seconds=float(ends[winner]),
            candidates=candidates,
            alternatives=(best.state, *best.alternatives),
        )


def deviating(strategy: Strategy) -> Refined:
    """Return a strategy after which one decision after the other is changed, and then descended from."""
    return Refined((Discrepancies(strategy),))


def _first_of_each_bucket(
    costs: npt.NDArray[np.float64], buckets: npt.NDArray[np.uint64], except_bucket: int
) -> list[int]:
    """Return the cheapest child of every other bucket, the cheapest first."""
    by_bucket = np.lexsort((costs, buckets))
    first = by_bucket[run_starts(buckets[by_bucket])]
    others = first[buckets[first] != np.uint64(except_bucket)]
    return [int(i) for i in others[np.lexsort((others, costs[others]))]]
