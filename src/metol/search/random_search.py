"""Random search: complete loop nests drawn at random, the best of which is the answer; with one sample, any legal one.

To train cost models on what no good search would find, and to find out whether all that is legal is right.
"""

from dataclasses import dataclass, replace

import numpy as np

from metol import _core
from metol.errors import SearchError
from metol.search.strategy import Budget, SearchResult

__all__ = ["RandomSearch"]


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """Draws `samples` complete loop nests, each decision at random among the legal ones."""

    samples: int = 1
    """How many to draw."""
    seed: int = 0
    """Decides which."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise SearchError(f"A random search needs at least 1 sample, not {self.samples}.")

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest; the first is drawn whatever the budget."""
        rng = np.random.default_rng(self.seed)
        best: SearchResult | None = None
        for drawn in range(1, self.samples + 1):
            state = space.rollout(space.root(), [int(rng.integers(1 << 62))])
            cost = float(space.cost(state, model)[0])
            if best is None or cost < best.cost_seconds:
                best = SearchResult(state, cost, drawn, True)
            if budget.is_spent() and drawn < self.samples:
                return replace(best, candidates=drawn, is_complete=False)
        assert best is not None
        return replace(best, candidates=self.samples)
