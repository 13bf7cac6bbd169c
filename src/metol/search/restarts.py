"""Restarts: a strategy, then narrow beams that now and then pass over a candidate, each followed by coordinate descent.

A filter that any strategy can be followed by. Which loop nest descent ends in hangs on where it begins, and a narrow
beam takes little time: many different ones find what a wide one has lost early. Source: the dropout of Adams et al.
2019, §4.3, without its measurements.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from metol import _core
from metol.errors import SearchError
from metol.search.beam import BeamSearch, rare_dropout
from metol.search.refine import Refined
from metol.search.strategy import Budget, SearchResult, Strategy, better_than

__all__ = ["Restarts"]

# Seeds of restarts that belong to one seed of the search.
_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Restarts:
    """Another strategy, and what narrow beams with dropout find after it, as long as the time is not up."""

    strategy: Strategy
    """What goes first."""
    after: Callable[[Strategy], Strategy] | None = None
    """Makes of a strategy one that goes on from what it finds: for what restarts find, if that is better."""
    patience: int = 4
    """Restarts in a row that find nothing better, after which it ends."""
    most: int = 64
    """Restarts at most."""
    width: int = 4
    """States that each beam keeps."""
    passes: int = 2
    """Coarse-to-fine passes of each beam."""
    seed: int = 0
    """Seed of the dropout."""
    share: float = 0.5
    """Share of the budget's time after which no further restart begins."""

    def __post_init__(self) -> None:
        if self.patience < 1 or self.most < 1 or not 0 < self.share <= 1:
            raise SearchError(
                f"Restarts want a patience and a count of at least 1 and a share in (0, 1], not {self.patience}, "
                f"{self.most} and {self.share}."
            )

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        first = self.strategy.search(space, model, budget)
        budget.tell(space, first)
        part = budget.part(self.share)
        best = first
        candidates = first.candidates
        failures = 0
        for number in range(self.most):
            if failures == self.patience or part.is_spent():
                break
            seed = _SEEDS * self.seed + number + 1
            beam = BeamSearch(self.width, self.passes, rare_dropout(space.decision_count), seed=seed)
            found = Refined((beam,)).search(space, model, part)
            candidates += found.candidates
            failures += 1
            if found.cost_seconds < best.cost_seconds:
                best = replace(found, alternatives=(best.state, *best.alternatives))
                failures = 0
        best = replace(best, candidates=candidates)
        return better_than(first, best, self.after, space, model, budget)
