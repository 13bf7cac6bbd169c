"""Measured coordinate descent: the loop nests that differ from a good one in a single decision, or in a flag.

Enters: a schedule that was measured. Leave: proposals, the most promising by the cost model first. What is better is
for the clock to say: whoever turns out faster is where the descent goes on.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from metol import _core
from metol.candidates import Nest
from metol.planner import Planner
from metol.tune.proposals import Proposal, propose_state
from metol.tune.residuals import Residuals

__all__ = ["Neighbours"]

# Of one decision, so many proposals in a batch: its best few are often alike.
_MOST_OF_A_DECISION = 2
# Whoever is predicted to take this many times as long is not worth a measurement.
_HOPELESS = 2.0
# Of those that wait, the cheapest whose order measurements may change.
_MOST_RANKED = 256


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """One loop nest beside another."""

    cost_seconds: float
    position: int
    state: _core.States


class Neighbours:
    """What lies around one measured loop nest."""

    def __init__(
        self, planner: Planner, nest: Nest, model: _core.CostModel, residuals: Residuals | None = None
    ) -> None:
        """Look at every decision.

        Args:
            planner: What lowers proposals.
            nest: What was measured.
            model: What neighbours are predicted by.
            residuals: Tell which neighbours to measure first; if None, those of least predicted cost.

        Raises:
            MetolError: the nest does not fit the pipeline.
        """
        self._planner = planner
        self._form, self._state = planner.state_of(nest)
        self._nest = nest
        self._model = model
        self._residuals = residuals
        self._flag = self._other_rules()
        self._waiting = self._ranked()

    def draw(self, count: int, tried: Collection[str]) -> list[Proposal]:
        """Return up to `count` proposals that were not tried; fewer, or none, where all around has been."""
        chosen: dict[str, Proposal] = {}
        if self._flag is not None and count > 0:
            if self._flag.text not in tried:
                chosen[self._flag.text] = self._flag
            self._flag = None
        of_decision: Counter[int] = Counter()
        later: list[_Neighbour] = []
        waiting = self._most_promising()
        for place, neighbour in enumerate(waiting):
            if len(chosen) >= count:
                later += waiting[place:]
                break
            if of_decision[neighbour.position] == _MOST_OF_A_DECISION:
                later.append(neighbour)
                continue
            proposal = self._propose(neighbour)
            if proposal is not None and proposal.text not in tried and proposal.text not in chosen:
                chosen[proposal.text] = proposal
                of_decision[neighbour.position] += 1
        self._waiting = later
        return list(chosen.values())[:count]

    def _ranked(self) -> list[_Neighbour]:
        """Every neighbour that is not hopeless, the cheapest first."""
        space = self._form.space
        limit = _HOPELESS * float(space.cost(self._state, self._model)[0])
        found: list[_Neighbour] = []
        for position in range(space.decision_count):
            around = space.neighbours(self._state, position)
            if len(around) == 0:
                continue
            costs = space.cost(around, self._model)
            for place in np.argsort(costs, kind="stable"):
                if costs[place] > limit:
                    break
                found.append(_Neighbour(float(costs[place]), position, around.take([int(place)])))
        return sorted(found, key=lambda neighbour: neighbour.cost_seconds)

    def _most_promising(self) -> list[_Neighbour]:
        """Those that wait, in the order in which they are worth a measurement by now."""
        if self._residuals is None:
            return self._waiting
        first, others = self._waiting[:_MOST_RANKED], self._waiting[_MOST_RANKED:]
        order = self._residuals.order(self._form, [neighbour.state for neighbour in first], self._model)
        return [*(first[place] for place in order), *others]

    def _propose(self, neighbour: _Neighbour) -> Proposal | None:
        nest = replace(self._nest, path=self._planner.nest_of(self._form, neighbour.state).path)
        return propose_state(
            self._planner, self._form, neighbour.state, nest, "neighbour", predicted_seconds=neighbour.cost_seconds
        )

    def _other_rules(self) -> Proposal | None:
        """The same loop nest, lowered by other rules."""
        nest = replace(self._nest, specialize_estimate=not self._nest.specialize_estimate)
        cost = float(self._form.space.cost(self._state, self._model)[0])
        return propose_state(self._planner, self._form, self._state, nest, "neighbour", predicted_seconds=cost)
