"""Schedules by random dropout: a greedy search that now and then passes over the best candidate.

Enter: the forms of a pipeline, and a cost model. Leave: proposals that differ. Source: Adams et al. 2019, §4.3.
"""

from collections.abc import Collection, Sequence

import numpy as np

from metol import _core
from metol.planner import Planner
from metol.search import BeamSearch, Budget, Form, draw_place, rare_dropout
from metol.tune.proposals import Proposal, propose_state

__all__ = ["Sampler"]

# Draws for each proposal, of which the cheapest are taken: a search is a thousand times quicker than a measurement.
_DRAWS = 4
# Of the draws, those in the form of the pipeline that the search has settled for.
_FAVOURITE_SHARE = 0.75


class Sampler:
    """Draws loop nests around what a greedy search would find."""

    def __init__(self, planner: Planner, forms: Sequence[Form], seed: int) -> None:
        """Take the forms to draw in, the most promising first."""
        self._planner = planner
        self._forms = forms
        self._rng = np.random.default_rng(seed)
        self._seen: set[tuple[int, int]] = set()

    def draw(self, count: int, tried: Collection[str], model: _core.CostModel) -> list[Proposal]:
        """Return up to `count` proposals whose text is not among those tried, the cheapest first."""
        drawn: dict[tuple[int, int], tuple[float, int, _core.States]] = {}
        for _ in range(_DRAWS * count):
            place = draw_place(len(self._forms), _FAVOURITE_SHARE, self._rng)
            space = self._forms[place].space
            search = BeamSearch(
                width=1, dropout=rare_dropout(space.decision_count), seed=int(self._rng.integers(1 << 31))
            )
            found = search.search(space, model, Budget.start())
            identity = (place, int(space.identity_hash(found.state)[0]))
            if identity not in self._seen:
                drawn.setdefault(identity, (found.cost_seconds, place, found.state))
        proposals: dict[str, Proposal] = {}
        for identity, (cost, place, state) in sorted(drawn.items(), key=lambda item: item[1][0]):
            self._seen.add(identity)  # those that are left may be drawn again
            form = self._forms[place]
            nest = self._planner.nest_of(form, state)
            proposal = propose_state(self._planner, form, state, nest, "sample", predicted_seconds=cost)
            if proposal is not None and proposal.text not in tried:
                proposals.setdefault(proposal.text, proposal)
            if len(proposals) == count:
                break
        return list(proposals.values())
