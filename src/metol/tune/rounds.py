"""Rounds of samples, each drawn by a cost model that was fitted anew to all before.

In: a form of the pipeline, and what fits the model. Out: batches of proposals that were not tried, until all rounds are
over. Source: Anderson et al. 2021, §6, "Autotuning": 20 rounds of a beam search and 79 greedy ones with dropout.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from metol import _core
from metol.errors import TuningError
from metol.planner import Planner
from metol.search import Batch, Budget, Form
from metol.tune.proposals import Proposal, propose_state

__all__ = ["RoundPlan", "Rounds"]

_TEXT = re.compile(r"(\d+)x(\d+)")


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How many rounds, and how long they are."""

    rounds: int
    """Rounds; the model is fitted before all but the first."""
    batch: Batch
    """What draws them: its searches are the samples of a round."""

    @staticmethod
    def parse(text: str, batch: Batch | None = None) -> "RoundPlan | None":
        """Read ``20x80``, rounds times samples; None for what is no such text.

        Args:
            text: What a user wrote.
            batch: How to draw, but for the number of samples.

        Raises:
            TuningError: there is no round, or no sample.
        """
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            return None
        rounds, samples = map(int, found.groups())
        if not rounds or not samples:
            raise TuningError(f"Tuning takes 1 round of 1 sample at least, as in 20x80, not `{text}`.")
        return RoundPlan(rounds, replace(batch or Batch(), searches=samples))

    @property
    def trials(self) -> int:
        """Samples of all rounds."""
        return self.rounds * self.batch.searches


class Rounds:
    """The rounds of one pipeline."""

    def __init__(self, planner: Planner, form: Form, plan: RoundPlan, is_over: Callable[[], bool]) -> None:
        """Begin before the first round.

        Args:
            planner: What lowers proposals.
            form: The form of the pipeline that is searched.
            plan: How many rounds, and how they are drawn.
            is_over: Asked while a round is drawn; True draws no more of it.
        """
        self._planner = planner
        self._form = form
        self._plan = plan
        self._is_over = is_over
        self._waiting: list[Proposal] = []
        self.begun = 0
        """Rounds that were drawn so far."""

    def next_batch(
        self, count: int, tried: Collection[str], fit_model: Callable[[], _core.CostModel]
    ) -> list[Proposal]:
        """Return up to `count` proposals of this round, or of the next; none where all rounds are over.

        Args:
            count: How many.
            tried: What is not to be measured again.
            fit_model: Fits the model to all that was measured; asked before each round.
        """
        while not self._waiting and self.begun < self._plan.rounds and not self._is_over():
            self._waiting = self._draw(tried, fit_model())
            self.begun += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _draw(self, tried: Collection[str], model: _core.CostModel) -> list[Proposal]:
        batch, space = self._plan.batch, self._form.space
        drawn = replace(batch, seed=batch.seed + self.begun)
        found = drawn.search(space, model, Budget.start(None, self._is_over))
        proposals: dict[str, Proposal] = {}
        for state in (found.state, *found.alternatives)[: batch.searches]:
            cost = float(space.cost(state, model)[0])
            nest = self._planner.nest_of(self._form, state)
            proposal = propose_state(self._planner, self._form, state, nest, "sample", predicted_seconds=cost)
            if proposal is not None and proposal.text not in tried:
                proposals.setdefault(proposal.text, proposal)
        return list(proposals.values())
