"""Freezing: any strategy, over the Funcs that cost most; what the others do is settled beforehand.

A strategy enters, and searches a space in which all but log2 of the Funcs have their decisions fixed, by a pass that
computes every Func at root or inline. A filter for strategies. Source: Anderson et al. 2021, §3.2.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from metol import _core
from metol.search.beam import BeamSearch
from metol.search.strategy import Budget, SearchResult, Strategy, runners_up

__all__ = ["Frozen"]


@dataclass(frozen=True, slots=True)
class Frozen:
    """Another strategy, that decides about the log2(N) most expensive of N Funcs alone."""

    strategy: Strategy
    """What searches."""
    prepass: Strategy = field(default_factory=lambda: BeamSearch(width=1))
    """What decides about the Funcs that are frozen, with every Func at root or inline."""

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        options = space.options
        options.allow_compute_at = False
        first = self.prepass.search(space.restrict(options), model, budget)
        if budget.is_spent():
            return replace(first, is_complete=False)
        decisions: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for func, decision in zip(space.decision_funcs, space.path(first.state), strict=True):
            decisions[func].append(decision)
        seconds = space.func_seconds(first.state, model)
        by_cost = sorted(decisions, key=lambda func: (-seconds[func], func))
        free = len(by_cost).bit_length() - 1
        options = space.options
        for func in by_cost[max(1, free) :]:
            options.freeze(func, decisions[func])
        found = self.strategy.search(space.restrict(options), model, budget)
        best = first if first.cost_seconds < found.cost_seconds else found
        ranked = [(one.cost_seconds, one.state) for one in (first, found)]
        ranked += [(math.inf, state) for state in found.alternatives]
        return replace(
            best,
            candidates=first.candidates + found.candidates,
            is_complete=found.is_complete,
            alternatives=runners_up(space, ranked),
        )
