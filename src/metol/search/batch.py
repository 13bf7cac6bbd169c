"""A batch of searches: a wide beam, and greedy searches that pass candidates over at random.

A Space and a cost model enter; the best loop nest of the batch leaves, and the others, best first: for whoever measures
several of them, or finds out more about each than the cost model knows. Source: Anderson et al. 2021, §6.
"""

from dataclasses import dataclass, replace

from metol import _core
from metol.errors import SearchError
from metol.search.beam import BeamSearch, rare_dropout
from metol.search.frozen import Frozen
from metol.search.sampled import Sampled
from metol.search.strategy import Budget, SearchResult, Strategy, runners_up

__all__ = ["Batch"]

# More than loop nests that one beam keeps differ by, so that what proved bad comes last.
_BAD_PENALTY = 10.0


@dataclass(frozen=True, slots=True)
class Batch:
    """A wide beam and greedy searches of the same space; what one has costed, the others need not featurize."""

    searches: int = 80
    """The beam, and greedy searches."""
    width: int = 32
    """States that the beam keeps."""
    passes: int = 5
    """Passes of the beam, each with hashes one deeper than those of the one before; a greedy search has one."""
    sampling: bool = True
    """Whether each search looks at log2 of what is alike (`Sampled`), drawn for itself."""
    freezing: bool = True
    """Whether each search decides about the costliest Funcs alone (`Frozen`), after a pre-pass of its own."""
    seed: int = 0
    """Seed of all that is drawn."""

    def __post_init__(self) -> None:
        if self.searches < 1:
            raise SearchError(f"A batch needs at least 1 search, not {self.searches}.")

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost; all others that were found are its alternatives."""
        beam = BeamSearch(width=self.width, passes=self.passes, bad_penalty=_BAD_PENALTY, scouts=False)
        found = [self._filtered(beam, 0).search(space, model, budget)]
        greedy = BeamSearch(width=1, dropout=rare_dropout(space.decision_count), bad_penalty=_BAD_PENALTY)
        for number in range(1, self.searches):
            if budget.is_spent():
                break
            strategy = self._filtered(replace(greedy, seed=self._seed_of(number)), number)
            found.append(strategy.search(space, model, budget))
        best = min(found, key=lambda one: one.cost_seconds)
        ranked = [(one.cost_seconds, one.state) for one in found]
        for one in found:
            ranked += [(float(space.cost(state, model)[0]), state) for state in one.alternatives]
        return replace(
            best,
            candidates=sum(one.candidates for one in found),
            is_complete=len(found) == self.searches and all(one.is_complete for one in found),
            alternatives=runners_up(space, ranked, most=max(self.searches, len(best.alternatives))),
        )

    def _filtered(self, strategy: Strategy, number: int) -> Strategy:
        """Return one of the searches, with what keeps it short."""
        if self.sampling:
            strategy = Sampled(strategy, depth=None, seed=self._seed_of(number))
        if not self.freezing:
            return strategy
        first: Strategy = BeamSearch(width=1)
        if self.sampling:
            first = Sampled(first, depth=None, seed=self._seed_of(number))
        return Frozen(strategy, prepass=first)

    def _seed_of(self, number: int) -> int:
        """Return a seed that no other search of this batch has, nor one of as many in those of the next seeds."""
        return (self.seed * self.searches + number) % (1 << 32)
