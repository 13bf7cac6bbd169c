"""Retried: after a search, what its result computes may not be there, one Func or kind of Funcs after the other.

A filter that any strategy can be followed by. Decisions are made from the outputs to the inputs: a tiling that pays
only with a large Func inside it, or with several Funcs inline that are alike, is gone before those have their places,
and neither coordinate descent nor another seed of the same beam comes back to it: each changes one Func at a time.
Where a place is not offered, the tilings that suit the others are what is left.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from metol import _core
from metol.errors import SearchError
from metol.search.refine import Refined
from metol.search.strategy import Budget, Known, SearchResult, Strategy, better_than

__all__ = ["AlikeInline", "OffRoot", "Restriction", "Retried"]


@dataclass(frozen=True, slots=True)
class Restriction(ABC):
    """What a search may be denied after it has found something: one costly Func or kind of Funcs after the other."""

    most: int = 4
    """Funcs or kinds at most, those of the highest predicted time first."""
    least_share: float = 0.05
    """What takes less than this share of the predicted time stays as it is."""

    subject: ClassVar[str]
    """What messages call it."""

    def __post_init__(self) -> None:
        if self.most < 0:
            raise SearchError(f"{self.subject}: a count of at least 0 is wanted, not {self.most}.")

    def spaces(self, space: _core.Space, model: _core.CostModel, found: SearchResult) -> list[_core.SpaceOptions]:
        """Return the spaces without what the result makes use of, those that promise most first."""
        seconds = space.func_seconds(found.state, model)
        computed = [
            (schedule.func, schedule.placement)
            for schedule in found.state.describe()
            if schedule.placement != _core.Placement.INLINE and not space.dag.funcs[schedule.func].is_output
        ]
        times = [(sum(seconds[func] for func in funcs), funcs) for funcs in self._kinds(space.dag, computed)]
        costly = [one for one in times if one[0] >= self.least_share * found.cost_seconds]
        spaces = []
        for _, funcs in sorted(costly, key=lambda one: -one[0])[: self.most]:
            spaces.append(space.options)
            for func in funcs:
                self._deny(spaces[-1], func)
        return spaces

    @abstractmethod
    def _kinds(
        self, dag: _core.PipelineDag, computed: Sequence[tuple[int, _core.Placement]]
    ) -> Iterable[Sequence[int]]:
        """Return the Funcs that are denied together, of those that have loops of their own, and where."""

    @abstractmethod
    def _deny(self, options: _core.SpaceOptions, func: int) -> None:
        """Restrict a space."""


class OffRoot(Restriction):
    """One costly Func after the other that is at root in a result is not computed there."""

    __slots__ = ()
    subject = "Keeping Funcs off root"

    def _kinds(
        self, dag: _core.PipelineDag, computed: Sequence[tuple[int, _core.Placement]]
    ) -> Iterable[Sequence[int]]:
        return [(func,) for func, placement in computed if placement == _core.Placement.ROOT]

    def _deny(self, options: _core.SpaceOptions, func: int) -> None:
        options.keep_off_root(func)


class AlikeInline(Restriction):
    """Funcs that are computed in a result, and alike, are all inline: one kind after the other."""

    __slots__ = ()
    subject = "Kinds of Funcs that are inline"

    def _kinds(
        self, dag: _core.PipelineDag, computed: Sequence[tuple[int, _core.Placement]]
    ) -> Iterable[Sequence[int]]:
        kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for func, _ in computed:
            if dag.funcs[func].is_inlinable:
                kinds[_kind(dag, func)].append(func)
        return kinds.values()

    def _deny(self, options: _core.SpaceOptions, func: int) -> None:
        options.keep_inline(func)


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
