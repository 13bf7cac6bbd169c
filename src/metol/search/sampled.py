"""Hierarchical sampling: any strategy, over a space that offers fewer children.

A strategy enters, and searches a space in which of the children of a state that share a structural hash only log2 are
offered. A filter for strategies. Source: Anderson et al. 2021, §3.1.
"""

from dataclasses import dataclass

from metol import _core
from metol.errors import SearchError
from metol.search.strategy import Budget, SearchResult, Strategy

__all__ = ["Sampled"]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Another strategy, that looks at log2 of each structural bucket of the children of a state."""

    strategy: Strategy
    """What searches."""
    depth: int = 3
    """Depth of the structural hash that buckets share: the deeper, the more of them, and the more is looked at."""
    seed: int = 0
    """Seed of the choice within a bucket."""

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise SearchError(f"Hierarchical sampling needs a depth of at least 0, not {self.depth}.")

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        options = space.options
        options.sample_depth = self.depth
        options.sample_seed = self.seed
        return self.strategy.search(space.restrict(options), model, budget)
