"""Trees whose next root the clock chooses: what is best below them is measured, and the fastest wins.

In: a form of the pipeline, a cost model, and the standings of all that was measured. Out: at each decision, proposals
that lie below the decisions made so far. Source: ProTuner 2020, §4.2 ("cost + real").
"""

import time
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from metol import _core
from metol.planner import Planner
from metol.search import Budget, Ensemble, Form, MonteCarlo
from metol.tune.proposals import Proposal, propose_state
from metol.tune.residuals import Residuals
from metol.tune.standings import Standings

__all__ = ["MeasuredTrees"]

# Of searches in which nothing new turns up, how many in a row before others have their turn.
_MOST_EMPTY = 3

# Of the loop nests that the trees have seen, those whose errors are predicted, and how many times as long as the best
# they may take.
_MOST_LEAVES = 256
_HOPELESS = 1.5

# Predicted seconds, and a complete loop nest.
_Found: TypeAlias = tuple[float, _core.States]
Path: TypeAlias = tuple[tuple[int, ...], ...]


class MeasuredTrees:
    """An ensemble of trees for each form of a pipeline in turn, made anew when the last decision has been reached."""

    def __init__(
        self,
        planner: Planner,
        forms: Sequence[Form],
        plan: MonteCarlo,
        seconds: float,
        residuals: Residuals | None = None,
    ) -> None:
        """Plant the first trees.

        Args:
            planner: What lowers proposals.
            forms: The forms of the pipeline, the most promising first.
            plan: How the trees search; how long, and which child is next, is not for them to say.
            seconds: How long they search before each batch, unless the plan says how many iterations they make.
            residuals: Tell which of the trees' loop nests to measure; if None, those of least predicted cost.
        """
        self._planner = planner
        self._forms = forms
        self._plan = plan
        self._seconds = seconds
        self._residuals = residuals
        self._round = -1
        self._started_share = 0.0
        self._ensemble: Ensemble | None = None
        self._model = planner.model
        self._repeated: Path | None = None

    def next_batch(self, count: int, share: float, standings: Standings, model: _core.CostModel) -> list[Proposal]:
        """Return up to `count` proposals that were not tried; none where little is left to be seen.

        Args:
            count: How many.
            share: How much of the budget is spent: at its end the last decision is reached.
            standings: What was measured, these proposals included.
            model: What the trees go by; one that is fitted anew is theirs from the next round on.
        """
        for _ in range(_MOST_EMPTY):
            if self._ensemble is None or not self._go_on(share, standings):
                self._plant(share, model)
            if batch := self._search(count, standings):
                return batch
        return []

    @property
    def made(self) -> Path:
        """The decisions that lie behind the roots of the trees."""
        return () if self._ensemble is None else self._planner.nest_of(self._form, self._ensemble.root).path

    @property
    def _form(self) -> Form:
        return self._forms[self._round % len(self._forms)]

    def _plant(self, share: float, model: _core.CostModel) -> None:
        self._round += 1
        self._started_share = share
        self._model = model
        self._ensemble = self._plan.plant(self._form.space, model, seed=self._round)
        self._repeated = None

    def _repeat_fastest(self, standings: Standings) -> None:
        """Let simulations repeat the fastest loop nest below the roots, where they repeat anything."""
        assert self._ensemble is not None
        path = self._fastest(standings)
        if self._plan.simulation == "repeat" and path is not None and path != self._repeated:
            self._repeated = path
            self._ensemble.learn(self._form.space.replay(path), repeats=True)

    def _search(self, count: int, standings: Standings) -> list[Proposal]:
        """Let the trees search; propose what is best in each, then what is best below the children of their roots."""
        assert self._ensemble is not None
        self._repeat_fastest(standings)
        if self._plan.iterations is not None:
            self._ensemble.iterate(self._plan.iterations, Budget.start())
        else:
            self._ensemble.iterate_until(time.monotonic() + self._seconds, Budget.start())
        chosen: dict[str, Proposal] = {}
        for cost, state in self._candidates():
            if len(chosen) == count:
                break
            nest = self._planner.nest_of(self._form, state)
            proposal = propose_state(self._planner, self._form, state, nest, "trees", predicted_seconds=cost)
            if proposal is not None and proposal.text not in standings.tried:
                chosen.setdefault(proposal.text, proposal)
        return list(chosen.values())

    def _candidates(self) -> Iterator[_Found]:
        """Yield what the trees found, the one most worth a measurement first; some of it twice."""
        assert self._ensemble is not None
        if self._residuals is not None:
            leaves = self._ensemble.best_leaves(_HOPELESS, _MOST_LEAVES)
            states = [state for _, state in leaves]
            yield from (leaves[place] for place in self._residuals.order(self._form, states, self._model))
        # Of the trees' own, those of every tree; of all below their children, the cheapest first.
        own, below = self._ensemble.best_states()
        seen: set[int] = set()
        for cost, state in [*_by_cost(own), *_by_cost(below)]:
            identity = int(self._form.space.identity_hash(state)[0])
            if identity not in seen:
                seen.add(identity)
                yield cost, state

    def _go_on(self, share: float, standings: Standings) -> bool:
        """Make the next decisions as the fastest below the roots made them; False where there are none left."""
        assert self._ensemble is not None
        space = self._form.space
        path = self._fastest(standings)
        if path is None:
            return False
        left = (share - self._started_share) / max(1e-9, 1 - self._started_share)
        target = min(space.decision_count, int(left * space.decision_count))
        is_moved = False
        for depth in range(int(self._ensemble.root.decisions_made[0]), space.decision_count):
            children, _ = space.expand(self._ensemble.root)
            if len(children) > 1 and is_moved and depth >= target:
                return True
            self._ensemble.advance(space.replay(path[: depth + 1]))
            is_moved = is_moved or len(children) > 1
        return False

    def _fastest(self, standings: Standings) -> Path | None:
        """The decisions of the fastest loop nest below the roots; None where nothing there was measured."""
        assert self._ensemble is not None
        frame = self._planner.nest_of(self._form, self._ensemble.root)
        below = (
            (standing.score_ms, nest.path)
            for standing in standings
            if (nest := standing.proposal.nest) is not None
            and (nest.rfactors, nest.stagings, nest.joints) == (frame.rfactors, frame.stagings, frame.joints)
            and nest.path[: len(frame.path)] == frame.path
        )
        _, path = min(below, default=(0.0, None))
        return path


def _by_cost(found: Sequence[_Found]) -> list[_Found]:
    return sorted(found, key=lambda pair: pair[0])
