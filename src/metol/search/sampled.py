"""Hierarchical sampling: any strategy, over a space that offers fewer children.

A strategy enters, and searches a space in which of the children of a state that share a structural hash only log2 are
offered. A filter for strategies. Source: Anderson et al. 2021, §3.1, §4.4.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metol import _core
from metol.errors import SearchError
from metol.search.strategy import Budget, SearchResult, Strategy

__all__ = ["Sampled", "expander_of_pass"]

# The depth of a strategy without passes where depth follows the pass: that of the first one.
_FIRST_DEPTH = 0
# Seeds of two samplings differ in their low bits, seeds of two passes of one sampling in those above.
_SEED_BITS = 32

Expander = Callable[[_core.States], tuple[_core.States, npt.NDArray[np.int32]]]
"""A batch -> children, and the position of the parent of each."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Another strategy, that looks at log2 of each structural bucket of the children of a state."""

    strategy: Strategy
    """What searches."""
    depth: int | None = 3
    """Depth of the structural hash that buckets share: the deeper, the more of them, and the more is looked at. None
    for the index of the pass, from 0, of a strategy that has passes; of others it is 0. The paper counts passes from 1
    (§4.5), and levels of the loop nest; Metol's hash has the kernel of each Func at depth 1 already, whether it is
    computed in blocks or threads at depth 3, how many blocks there are at depth 4, and sizes from depth 5 on."""
    seed: int = 0
    """Seed of the choice within a bucket, below 2^32."""

    def __post_init__(self) -> None:
        if self.depth is not None and self.depth < 0:
            raise SearchError(f"Hierarchical sampling needs a depth of at least 0, not {self.depth}.")
        if not 0 <= self.seed < 1 << _SEED_BITS:
            raise SearchError(f"Hierarchical sampling needs a seed from 0 to 2^{_SEED_BITS} - 1, not {self.seed}.")

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        options = space.options
        options.sample_depth = _FIRST_DEPTH if self.depth is None else self.depth
        options.sample_deepens = self.depth is None
        options.sample_seed = self.seed
        return self.strategy.search(space.restrict(options), model, budget)


def expander_of_pass(space: _core.Space, depth: int) -> Expander:
    """Return what expands a batch in a pass: where sampling follows the passes, all children of it are sampled.

    Together, as §4.4 has it. A strategy without passes samples the children of each state alone, so that what it is
    offered does not depend on what it expands beside.
    """
    options = space.options
    if not options.sample_deepens:
        return space.expand
    seed = options.sample_seed + (depth << _SEED_BITS)
    options.sample_depth, options.sample_deepens = -1, False
    whole = space.restrict(options)

    def expand(states: _core.States) -> tuple[_core.States, npt.NDArray[np.int32]]:
        children, parents = whole.expand(states)
        kept = whole.representatives(children, depth, seed)
        return children.take(kept), parents[kept]

    return expand
