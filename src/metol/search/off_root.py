"""Off root: after a search, what its result computes at root may not be there, one Func after the other.

A filter that any strategy can be followed by. Decisions are made from the outputs to the inputs: a tiling that pays
only with a large Func inside it is gone before that Func has its place, and neither coordinate descent nor another seed
of the same beam comes back to it. Where the place is not offered, the tilings that suit the others are what is left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from metol import _core
from metol.errors import SearchError
from metol.search.refine import Refined
from metol.search.strategy import Budget, Known, SearchResult, Strategy, better_than

__all__ = ["OffRoot"]


@dataclass(frozen=True, slots=True)
class OffRoot:
    """Another strategy, then quick ones with one costly Func of its result after the other kept away from root."""

    strategy: Strategy
    """What goes first."""
    quick: tuple[Strategy, ...]
    """What looks for loop nests without the Func at root; coordinate descent in all of the space follows each."""
    after: Callable[[Strategy], Strategy] | None = None
    """Makes of a strategy one that goes on from what it finds: for what is found so, if that is better."""
    most: int = 4
    """Funcs at most, those of the highest predicted time first."""
    least_share: float = 0.05
    """Funcs that take less than this share of the predicted time stay where they are."""
    share: float = 0.5
    """Share of the budget's time after which no further Func is looked at."""

    def __post_init__(self) -> None:
        if self.most < 0 or not self.quick or not 0 < self.share <= 1:
            raise SearchError(
                f"Keeping Funcs off root wants a count of at least 0, a strategy and a share in (0, 1], not "
                f"{self.most}, {len(self.quick)} of them and {self.share}."
            )

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        first = self.strategy.search(space, model, budget)
        part = budget.part(self.share)
        best = first
        candidates = first.candidates
        for func in self._costly_at_root(space, model, first):
            if part.is_spent():
                break
            options = space.options
            options.keep_off_root(func)
            without = space.restrict(options)
            try:
                starts = [Known(strategy.search(without, model, part)) for strategy in self.quick]
            except SearchError:  # no other place is legal
                continue
            found = Refined(tuple(starts)).search(space, model, part)
            candidates += found.candidates
            if found.cost_seconds < best.cost_seconds:
                best = replace(found, alternatives=(best.state, *best.alternatives))
        best = replace(best, candidates=candidates)
        return better_than(first, best, self.after, space, model, budget)

    def _costly_at_root(self, space: _core.Space, model: _core.CostModel, found: SearchResult) -> list[int]:
        """Func ids, those of the highest predicted time first."""
        seconds = space.func_seconds(found.state, model)
        at_root = [
            schedule.func
            for schedule in found.state.describe()
            if schedule.placement == _core.Placement.ROOT and not space.dag.funcs[schedule.func].is_output
        ]
        costly = [func for func in at_root if seconds[func] >= self.least_share * found.cost_seconds]
        return sorted(costly, key=lambda func: -seconds[func])[: self.most]
