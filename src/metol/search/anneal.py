"""Simulated annealing: a complete loop nest enters, one that a walk through better and worse ones has found leaves.

A filter that any strategy can be followed by. A beam pays late for what it chose early, and descent, which changes one
decision at a time, ends where several must change together and each alone costs. The walk takes any alternative of a
decision with the probability that its cost gives it at a temperature (a heat bath), and the temperature falls. Source:
S. Kirkpatrick et al., "Optimization by simulated annealing", 1983; S. Geman and D. Geman, "Stochastic relaxation, Gibbs
distributions, and the Bayesian restoration of images", 1984.
"""

import math
import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from metol import _core
from metol.errors import SearchError
from metol.search.strategy import Budget, SearchResult, Strategy, runners_up

__all__ = ["Annealed"]

# A loop nest that is taken e to this power times less often than the best one is never taken.
_NEVER = 16


@dataclass(frozen=True, slots=True)
class Annealed:
    """Another strategy, and walks from what it finds, each from the best so far and twice as long as the one before."""

    strategy: Strategy
    """What finds the loop nest to start from."""
    hottest: float = 0.04
    """Temperature at first: a loop nest that costs so much more, relative to another, is taken 1/e times as often."""
    coldest: float = 0.003
    """Temperature at the end."""
    sweeps: int = 10
    """Steps of the first walk, as a multiple of the number of decisions; each other walk has twice as many as the one
    before. Fewer where its part of the time ends earlier, at the same temperatures."""
    walks: int = 3
    """Walks at most: one that gains little is the last."""
    least_gain: float = 1e-3
    """Share of the cost that a walk must save for another one, of twice its length, to follow."""
    share: float = 0.6
    """Share of the budget's time after which walks end."""
    seed: int = 0
    """Seed of the walks."""

    def __post_init__(self) -> None:
        if not 0 < self.coldest <= self.hottest:
            raise SearchError(f"Temperatures fall, and not to 0: {self.hottest} to {self.coldest} do not.")
        if self.sweeps < 1 or self.walks < 1 or self.least_gain < 0 or not 0 < self.share <= 1:
            raise SearchError(
                "Annealing wants at least 1 sweep and 1 walk, a gain of at least 0 and a share in (0, 1], not "
                f"{self.sweeps}, {self.walks}, {self.least_gain} and {self.share}."
            )

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        best = self.strategy.search(space, model, budget)
        part = budget.part(self.share)
        rng = np.random.default_rng(self.seed)
        is_complete = best.is_complete
        for walk in range(self.walks):
            is_complete = is_complete and not part.is_spent()
            if part.is_spent():
                break
            found = self._walk(space, model, best, _Cooling(self, space.decision_count, part, walk), rng)
            has_gained = found.cost_seconds < best.cost_seconds * (1 - self.least_gain)
            best = found
            budget.tell(space, best)
            if not has_gained:
                break
        return replace(best, is_complete=is_complete)

    def _walk(
        self,
        space: _core.Space,
        model: _core.CostModel,
        best: SearchResult,
        cooling: "_Cooling",
        rng: np.random.Generator,
    ) -> SearchResult:
        """Return the best loop nest on a walk from `best`, or `best` itself."""
        state, cost = best.state, best.cost_seconds
        candidates = best.candidates
        least, winner = best.cost_seconds, best.state
        while (temperature := cooling.next_temperature()) is not None:
            position = int(rng.integers(space.decision_count))
            around = space.look_around(state, position, model, cost, _margin(temperature))
            if len(around) == 0:
                continue
            costs = around.costs
            candidates += len(costs)
            lowest = int(np.argmin(costs))
            if costs[lowest] < least:
                least, winner = float(costs[lowest]), around.take(lowest)
            logarithms = np.log(np.append(costs, cost))
            weights = np.cumsum(np.exp((logarithms.min() - logarithms) / temperature))
            taken = int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))
            if taken < len(costs):
                state, cost = around.take(taken), float(costs[taken])
        if winner is best.state:
            return replace(best, candidates=candidates)
        ranked = [(best.cost_seconds, best.state), *((np.inf, other) for other in best.alternatives)]
        alternatives = runners_up(space, [(least, winner), *ranked])
        return replace(best, state=winner, cost_seconds=least, candidates=candidates, alternatives=alternatives)


def _margin(temperature: float) -> float:
    """Return how many times as much as the least a loop nest costs that is never taken."""
    return math.exp(min(_NEVER * temperature, math.log(sys.float_info.max)))


class _Cooling:
    """The temperatures of one walk: they fall evenly in their logarithm, over its steps, or over less time."""

    def __init__(self, plan: Annealed, decisions: int, budget: Budget, walk: int) -> None:
        self._plan = plan
        self._steps = (plan.sweeps * decisions) << walk
        self._step = 0
        self._budget = budget
        self._started = time.monotonic()
        # All walks that may still come are so many times as long as this one.
        turns = (1 << (plan.walks - walk)) - 1
        self._end = budget.turn_end(turns)

    def next_temperature(self) -> float | None:
        """Return the temperature of the next step; None where the walk is over."""
        in_time = (time.monotonic() - self._started) / max(1e-9, self._end - self._started)
        done = max(self._step / self._steps, in_time)
        if done >= 1 or self._budget.is_spent():
            return None
        self._step += 1
        plan = self._plan
        return float(plan.hottest * (plan.coldest / plan.hottest) ** done)
