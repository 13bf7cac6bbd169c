"""Retried: after a search, what its result computes may not be there, one Func or kind of Funcs after the other.

A filter that any strategy can be followed by. Decisions are made from the outputs to the inputs: a tiling that pays
only with a large Func inside it, or with several Funcs inline that are alike, is gone before those have their places,
and neither coordinate descent nor another seed of the same beam comes back to it: each changes one Func at a time.
Where a place is not offered, the tilings that suit the others are what is left.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from metol import _core
from metol.errors import SearchError
from metol.search.refine import Refined
from metol.search.strategy import Budget, Known, SearchResult, Strategy, better_than

__all__ = ["AlikeInline", "OffRoot", "Restriction", "Retried"]


class Restriction(Protocol):
    """What a search may be denied after it has found something."""

    def spaces(self, space: _core.Space, model: _core.CostModel, found: SearchResult) -> list[_core.SpaceOptions]:
        """Return the spaces without what the result makes use of, those that promise most first."""
        ...


@dataclass(frozen=True, slots=True)
class OffRoot:
    """One costly Func after the other that is at root in a result is not computed there."""

    most: int = 4
    """Funcs at most, those of the highest predicted time first."""
    least_share: float = 0.05
    """Funcs that take less than this share of the predicted time stay where they are."""

    def __post_init__(self) -> None:
        if self.most < 0:
            raise SearchError(f"Keeping Funcs off root wants a count of at least 0, not {self.most}.")

    def spaces(self, space: _core.Space, model: _core.CostModel, found: SearchResult) -> list[_core.SpaceOptions]:
        """Return a space for each such Func."""
        seconds = space.func_seconds(found.state, model)
        at_root = [func for func, placement in _computed(space, found) if placement == _core.Placement.ROOT]
        costly = [func for func in at_root if seconds[func] >= self.least_share * found.cost_seconds]
        spaces = []
        for func in sorted(costly, key=lambda func: -seconds[func])[: self.most]:
            spaces.append(space.options)
            spaces[-1].keep_off_root(func)
        return spaces


@dataclass(frozen=True, slots=True)
class AlikeInline:
    """Funcs that are computed in a result, and alike, are all inline: one kind after the other."""

    most: int = 4
    """Kinds at most, those of the highest predicted time first."""
    least_share: float = 0.05
    """Kinds that take less than this share of the predicted time stay as they are."""

    def __post_init__(self) -> None:
        if self.most < 0:
            raise SearchError(f"Kinds of Funcs that are inline want a count of at least 0, not {self.most}.")

    def spaces(self, space: _core.Space, model: _core.CostModel, found: SearchResult) -> list[_core.SpaceOptions]:
        """Return a space for each such kind."""
        seconds = space.func_seconds(found.state, model)
        kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for func, _ in _computed(space, found):
            if space.dag.funcs[func].is_inlinable:
                kinds[_kind(space.dag, func)].append(func)
        times = [(sum(seconds[func] for func in funcs), funcs) for funcs in kinds.values()]
        costly = [one for one in times if one[0] >= self.least_share * found.cost_seconds]
        spaces = []
        for _, funcs in sorted(costly, key=lambda one: -one[0])[: self.most]:
            spaces.append(space.options)
            for func in funcs:
                spaces[-1].keep_inline(func)
        return spaces


def _computed(space: _core.Space, found: SearchResult) -> list[tuple[int, _core.Placement]]:
    """Return the Funcs that have loops of their own, but for outputs, and where."""
    return [
        (schedule.func, schedule.placement)
        for schedule in found.state.describe()
        if schedule.placement != _core.Placement.INLINE and not space.dag.funcs[schedule.func].is_output
    ]


def _kind(dag: _core.PipelineDag, func: int) -> tuple[object, ...]:
    """Return what Funcs that do the same to different producers have in common."""
    stages = [dag.stages[stage] for stage in dag.funcs[func].stages]
    return tuple(
        (len(stage.loops), tuple(stage.op_histogram), tuple(len(edge.accesses) for edge in stage.edges))
        for stage in stages
    )


@dataclass(frozen=True, slots=True)
class Retried:
    """Another strategy, then quick ones in the spaces that are left without what its result makes use of."""

    strategy: Strategy
    """What goes first."""
    restrictions: tuple[Restriction, ...]
    """What is denied, one after the other; each looks at the best so far."""
    quick: tuple[Strategy, ...]
    """What looks for loop nests in such a space; coordinate descent in all of the space follows each."""
    after: Callable[[Strategy], Strategy] | None = None
    """Makes of a strategy one that goes on from what it finds: for what is found so, if that is better."""
    share: float = 0.46
    """Share of the budget's time after which no further space is looked at."""

    def __post_init__(self) -> None:
        if not self.quick or not 0 < self.share <= 1:
            raise SearchError(
                f"Searching again wants a strategy and a share in (0, 1], not {len(self.quick)} and {self.share}."
            )

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        first = self.strategy.search(space, model, budget)
        part = budget.part(self.share)
        best = first
        candidates = first.candidates
        for restriction in self.restrictions:
            for options in restriction.spaces(space, model, best):
                if part.is_spent():
                    break
                without = space.restrict(options)
                try:
                    starts = [Known(strategy.search(without, model, part)) for strategy in self.quick]
                except SearchError:  # nothing else is legal
                    continue
                found = Refined(tuple(starts)).search(space, model, part)
                candidates += found.candidates
                if found.cost_seconds < best.cost_seconds:
                    best = replace(found, alternatives=(best.state, *best.alternatives))
        best = replace(best, candidates=candidates)
        return better_than(first, best, self.after, space, model, budget)
