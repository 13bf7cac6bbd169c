"""Monte Carlo tree search: an ensemble of trees that agrees on one decision after the other.

A Space and a cost model enter, the best complete loop nest leaves. Nothing but complete loop nests is compared, so what
a decision will cost later is seen before it is made. Source: ProTuner 2020, §4, figure 6 and Table 1.
"""

import math
import time
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from metol import _core
from metol.errors import SearchError
from metol.search.beam import BeamSearch
from metol.search.discrepancy import deviating
from metol.search.ensemble import Ensemble
from metol.search.refine import Refined, descend
from metol.search.strategy import Budget, SearchResult, Strategy

__all__ = ["GUIDANCES", "ROOT_CHOICES", "SIMULATIONS", "UCB_FORMS", "MonteCarlo"]

UCB_FORMS: Final = MappingProxyType(
    {
        "product": (_core.TreeFormula.PRODUCT, 1.0),
        "product-10": (_core.TreeFormula.PRODUCT, 10.0),
        "sum": (_core.TreeFormula.SUM, math.sqrt(2)),
    }
)
"""How exploration joins the value of a child, and its constant, by name (Table 1: mcts_30s, mcts_Cp10, mcts_sqrt2)."""

GUIDANCES: Final = MappingProxyType(
    {
        "time": _core.TreeValue.MEAN_TIME,
        "speed": _core.TreeValue.MEAN_SPEED,
        "best": _core.TreeValue.BEST,
        "wins": _core.TreeValue.WINS,
    }
)
"""What a child is worth, by name: 1 / mean time, mean of 1 / time, 1 / best time, or how often it beats the root's best
(0/1 rewards, §4.1). All but the last are relative to the best known, so that one constant fits all programs."""

SIMULATIONS: Final = MappingProxyType(
    {"random": (0.0, -1.0), "half-greedy": (0.5, -1.0), "greedy": (1.0, -1.0), "repeat": (0.0, 1.0)}
)
"""By name: the chance that a step of a simulation takes the best child by the cost model (§4.1), and how many steps are
its own in the mean. Where that is not negative, all others repeat what is best so far, and the tree says where they
leave it."""

ROOT_CHOICES: Final = ("best", "mean")
"""By what the next root is chosen: the best cost below a child, or the mean (§4)."""

# What the beams whose result all trees know from the start take of the time at most.
_BEAM_SHARE = 0.4
# Of the whole time, what must be left for a walk that is not the last.
_LEAST_LEFT = 0.2
# Of what is left then, the share of the last walk where descent comes after it.
_LAST_SHARE = 0.8
# Walks that find nothing better, one after the other, before there is no next.
_MOST_VAIN = 3
# Of each tree at each decision, where nothing says how many.
_ITERATIONS = 64


@dataclass(frozen=True, slots=True)
class MonteCarlo:
    """An ensemble of trees, some of which simulate greedily; after each turn all go on from the same child."""

    trees: int = 16
    """Trees in all."""
    greedy_trees: int = 1
    """Of these, those whose simulations take the best child at each step: one does, as the paper found."""
    ucb: str = "product"
    """One of UCB_FORMS."""
    guidance: str = "best"
    """One of GUIDANCES."""
    simulation: str = "repeat"
    """One of SIMULATIONS, for the other trees."""
    beam_width: int = 32
    """States of a beam that is searched first, and whose result all trees know; 0 for none. See `descends`."""
    root_choice: str = "best"
    """One of ROOT_CHOICES."""
    widening: float = 1.5
    """A node that was visited n times has `widening` * n ** `widening_power` children at most."""
    widening_power: float = 0.4
    """1, with a widening of 1, goes on from no child before all have been visited, as the paper does."""
    shares_equal: bool = True
    """Whether loop nests that are equal share their statistics."""
    descends: bool = True
    """Whether coordinate descent goes on from what each walk finds, and before the trees from what the beam and
    narrower ones find."""
    deviates: bool = True
    """Whether of what descent finds before the trees one decision after the other is changed."""
    walk_share: float = 0.5
    """Of the time that is left, what it takes from the first decision to the last before all begins anew, with the best
    so far known to all trees; 1 to decide everything once."""
    iterations: int | None = None
    """Iterations of each tree at each decision; if None the budget's time, evenly over all decisions, and 64 where that
    has no end."""
    seed: int = 0
    """Seed of all trees."""

    def __post_init__(self) -> None:
        known = ((self.ucb, UCB_FORMS), (self.guidance, GUIDANCES), (self.simulation, SIMULATIONS))
        for name, names in (*known, (self.root_choice, ROOT_CHOICES)):
            if name not in names:
                raise SearchError(f"Monte Carlo tree search has no `{name}`; it has {', '.join(names)}.")
        if self.trees < 1 or not 0 <= self.greedy_trees <= self.trees:
            raise SearchError(
                f"It takes at least 1 tree, and no more greedy ones than that, not {self.greedy_trees} of {self.trees}."
            )
        if not 0 < self.walk_share <= 1:
            raise SearchError(f"The trees take a share of the time in (0, 1], not {self.walk_share}.")
        if self.beam_width < 0:
            raise SearchError(f"The beam before the trees keeps at least 0 states, not {self.beam_width}.")
        if self.widening < 1 or not 0 <= self.widening_power <= 1:
            raise SearchError(
                f"Nodes widen by a factor of at least 1 and a power in [0, 1], not {self.widening} and "
                f"{self.widening_power}."
            )
        if self.iterations is not None and self.iterations < 1:
            raise SearchError(f"Trees make at least 1 iteration at each decision, not {self.iterations}.")

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        ensemble = self.plant(space, model)
        costed = 0
        if self.beam_width > 0:
            known = self._beams().search(space, model, budget.part(_BEAM_SHARE))
            ensemble.learn(known.state)
            costed += known.candidates
        best = self._descended(space, model, self._walk(ensemble, space, self._part(budget)), budget)
        costed, walks, vain, is_complete = costed + best.candidates, 1, 0, best.is_complete
        while self.walk_share < 1 and vain < _MOST_VAIN and self._has_time(budget):
            ensemble = self.plant(space, model, seed=walks)
            ensemble.learn(best.state)
            found = self._descended(space, model, self._walk(ensemble, space, self._part(budget)), budget)
            costed, walks, is_complete = costed + found.candidates, walks + 1, is_complete or found.is_complete
            vain = 0 if found.cost_seconds < best.cost_seconds else vain + 1
            best = min(best, found, key=lambda one: one.cost_seconds)
        return replace(best, candidates=costed, is_complete=is_complete)

    def _beams(self) -> Strategy:
        """What finds the loop nest that all trees know from the start."""
        beam = BeamSearch(width=self.beam_width, seed=self.seed)
        if not self.descends:
            return beam
        refined = Refined((*beam.narrower(), beam))
        return deviating(refined) if self.deviates else refined

    def _descended(
        self, space: _core.Space, model: _core.CostModel, found: SearchResult, budget: Budget
    ) -> SearchResult:
        """Return what descent ends in from what was found; what ends the budget ends that alone."""
        if not self.descends:
            return found
        return replace(descend(space, model, found, budget), is_complete=found.is_complete)

    def _has_time(self, budget: Budget) -> bool:
        return self.iterations is None and budget.seconds is not None and not budget.is_spent()

    def _part(self, budget: Budget) -> Budget:
        """The part of a budget that the next walk may take: its share of what is left, or all of it."""
        if self.iterations is not None or budget.seconds is None:
            return budget
        spent = time.monotonic() - budget.started
        left = budget.seconds - spent
        last = _LAST_SHARE if self.descends else 1.0
        share = self.walk_share if left > _LEAST_LEFT * budget.seconds else last
        return replace(budget, seconds=spent + share * left)

    def _walk(self, ensemble: Ensemble, space: _core.Space, budget: Budget) -> SearchResult:
        """Decide one thing after the other, from the root on."""
        is_late = False
        for position in range(space.decision_count):
            if ensemble.is_exhausted or (is_late := budget.is_spent()):
                break
            children, _ = space.expand(ensemble.root)
            if len(children) == 1:
                ensemble.advance(children)
                continue
            if self.iterations is not None or budget.seconds is None:
                ensemble.iterate(self.iterations or _ITERATIONS, budget)
            else:
                ensemble.iterate_until(budget.turn_end(space.decision_count - position), budget)
            child = ensemble.next_root(self.root_choice)
            if is_late := child is None:
                break
            ensemble.advance(child)
        return ensemble.result(is_complete=not is_late)

    def plant(self, space: _core.Space, model: _core.CostModel, seed: int = 0) -> Ensemble:
        """Return the trees, at the root of a Space; other seeds make other trees."""
        kinds = [_options(self, is_greedy=number < self.greedy_trees) for number in range(self.trees)]
        return Ensemble(space, model, kinds, [_seed(self.seed + seed, number) for number in range(self.trees)])


def _options(plan: MonteCarlo, *, is_greedy: bool) -> _core.TreeOptions:
    options = _core.TreeOptions()
    options.formula, options.exploration = UCB_FORMS[plan.ucb]
    options.value = GUIDANCES[plan.guidance]
    options.greedy_share, options.own_steps = SIMULATIONS["greedy" if is_greedy else plan.simulation]
    options.widening, options.widening_power = plan.widening, plan.widening_power
    options.shares_equal = plan.shares_equal
    return options


def _seed(seed: int, number: int) -> int:
    return (seed << 16) + number
