"""Trees that search together: equal but for their seeds and simulations, always below the same root.

In: a Space, a cost model, and per tree how it simulates. Out: the best complete loop nests of all of them, and which
child of the root to go on with. Source: ProTuner 2020, §4 and figure 6.
"""

import math
import time
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from metol import _core
from metol.errors import DeadEndError
from metol.search.strategy import Budget, SearchResult, runners_up

__all__ = ["Ensemble"]

# How long trees iterate between two looks at the clock, about.
_SLICE_SECONDS = 0.005
# Of each turn, how many different loop nests are remembered.
_ALTERNATIVES = 2

# Predicted seconds, and a complete loop nest.
_Found: TypeAlias = tuple[float, _core.States]


class Ensemble:
    """Trees that have the same root; the greedy ones come first."""

    def __init__(
        self, space: _core.Space, model: _core.CostModel, options: Sequence[_core.TreeOptions], seeds: Sequence[int]
    ) -> None:
        """Plant trees at the root of a Space, and let each make an iteration.

        Args:
            space: The Space.
            model: The cost model.
            options: How each tree goes on; those that always simulate greedily first.
            seeds: Their seeds.
        """
        self._space = space
        self._trees = [_core.SearchTree(space, model, one, seed) for one, seed in zip(options, seeds, strict=True)]
        self._greedy = sum(one.greedy_share == 1 for one in options)
        self._slice = 1
        self._alternatives: list[_Found] = []
        # One iteration each: there is a result from now on, and what a greedy one takes is known.
        _core.iterate_trees(self._trees, [1] * len(self._trees))
        self._pace = self._find_pace()
        self._credit = 0

    def _find_pace(self) -> int:
        """How many random iterations take as long as a greedy one, which makes all children of each decision."""
        if not 0 < self._greedy < len(self._trees):
            return 1
        children = self._trees[0].costed / max(1, self._space.decision_count)
        return max(1, round(2 * children))

    @property
    def root(self) -> _core.States:
        """Where all trees begin, a batch of one."""
        return self._trees[0].root

    @property
    def is_exhausted(self) -> bool:
        """Has everything below the root been seen?"""
        return all(tree.is_exhausted for tree in self._trees)

    @property
    def iterations(self) -> int:
        """How many all trees together have made so far."""
        return sum(tree.iterations for tree in self._trees)

    def iterate(self, count: int, budget: Budget) -> None:
        """Let every tree make so many iterations, the greedy ones fewer, as they take longer."""
        done = 0
        while done < count and not budget.is_spent() and not self.is_exhausted:
            done += self._iterate_slice(min(self._slice, count - done))

    def iterate_until(self, end: float, budget: Budget) -> None:
        """Let every tree iterate until a time on the monotonic clock, and at least once."""
        self._iterate_slice(1)
        while time.monotonic() < end and not budget.is_spent() and not self.is_exhausted:
            self._iterate_slice(self._slice)

    def _iterate_slice(self, count: int) -> int:
        self._credit += count
        greedy, self._credit = divmod(self._credit, self._pace)
        started = time.monotonic()
        standard = len(self._trees) - self._greedy
        _core.iterate_trees(self._trees, [greedy] * self._greedy + [count] * standard)
        seconds = time.monotonic() - started
        if seconds < _SLICE_SECONDS / 2:
            # One that is shorter than it may be says nothing of longer ones.
            self._slice = max(self._slice, 2 * count)
        elif seconds > 2 * _SLICE_SECONDS:
            self._slice = max(1, self._slice // 2)
        return count

    def learn(self, leaf: _core.States, *, repeats: bool = False) -> None:
        """Let all trees take a complete loop nest below their root for one of their own.

        Args:
            leaf: It, a batch of one.
            repeats: Whether simulations repeat it from now on, in place of the best.
        """
        for tree in self._trees:
            tree.learn(leaf, repeats)

    def next_root(self, choice: str) -> _core.States | None:
        """Return the child that the best of all trees goes on with; None where none has seen any."""
        known = [(tree, child) for tree in self._trees for child in tree.children()]
        if not known:
            return None
        tree, child = min(known, key=lambda pair: pair[1].best_seconds if choice == "best" else pair[1].mean_seconds)
        self._note_alternatives(known)
        return tree.state_of(child)

    def _note_alternatives(self, known: list[tuple[_core.SearchTree, _core.TreeChild]]) -> None:
        """Remember the best loop nests below the children of the root, however alike the trees have become."""
        distinct: dict[int, _Found] = {}
        for tree, child in sorted(known, key=lambda pair: pair[1].best_seconds):
            state = tree.best_state_of(child)
            distinct.setdefault(int(self._space.identity_hash(state)[0]), (child.best_seconds, state))
            if len(distinct) == _ALTERNATIVES:
                break
        self._alternatives += distinct.values()

    def advance(self, child: _core.States) -> None:
        """Let all trees go on from one child."""
        for tree in self._trees:
            tree.advance(child)

    def best_states(self) -> tuple[list[_Found], list[_Found]]:
        """Return the best of each tree, and what is best below each child of each tree's root."""
        own = [(tree.best_seconds, tree.best_state) for tree in self._trees if tree.best_state is not None]
        below = [(child.best_seconds, tree.best_state_of(child)) for tree in self._trees for child in tree.children()]
        return own, below

    def best_leaves(self, ratio: float, count: int) -> list[_Found]:
        """Return loop nests that are best below some node of some tree, each once, the cheapest first.

        Args:
            ratio: How many times as long as the best of them they may take, as predicted.
            count: How many, at most. Where there are more, fewer of the dearer ones are left.
        """
        known = [child.best_seconds for tree in self._trees for child in tree.children()]
        limit = ratio * min(known, default=math.inf)
        distinct: dict[int, _Found] = {}
        for tree in self._trees:
            leaves, seconds = tree.best_leaves(limit)
            for place, identity in enumerate(self._space.identity_hash(leaves)):
                distinct.setdefault(int(identity), (seconds[place], leaves.take([place])))
        found = sorted(distinct.values(), key=lambda one: one[0])
        if len(found) <= count:
            return found
        ranks = np.unique((len(found) * (np.arange(count) / count) ** 2).astype(int))
        return [found[int(rank)] for rank in ranks]

    def result(self, *, is_complete: bool) -> SearchResult:
        """Return the best of all trees."""
        best = min(self._trees, key=lambda tree: tree.best_seconds)
        if best.best_state is None:
            raise DeadEndError("No tree came to a complete loop nest; switch fewer parts of the space off.")
        own, _ = self.best_states()
        costed = sum(tree.costed for tree in self._trees)
        alternatives = runners_up(self._space, [*own, *self._alternatives])
        return SearchResult(best.best_state, best.best_seconds, costed, is_complete, alternatives)
