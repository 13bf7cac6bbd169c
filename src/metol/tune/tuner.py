"""What to measure next: first what is known to be good, then samples, then what lies around the best.

In: how much of the budget is spent, and the standings. Out: batches of proposals that were not tried. Nothing here
runs or times anything.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from metol import _core
from metol.candidates import Candidate, Nest
from metol.errors import MetolError, ScheduleFormatError
from metol.measure import PEERS
from metol.planner import Found, Planner
from metol.search import Form, MonteCarlo
from metol.tune.foreign_neighbours import ForeignNeighbours
from metol.tune.measured_trees import MeasuredTrees
from metol.tune.neighbours import Neighbours
from metol.tune.peers import peer_schedules
from metol.tune.problem import Problem
from metol.tune.proposals import Proposal, directives_text, propose_state
from metol.tune.record import Record
from metol.tune.residuals import Residuals
from metol.tune.rounds import RoundPlan, Rounds
from metol.tune.sampler import Sampler
from metol.tune.standings import Standings

__all__ = ["Retrainer", "Tuner", "TunerOptions"]


# What is measured before all else.
_FIRST = {"search": 0, "safe": 1, "record": 2, "seed": 3}


class Retrainer(Protocol):
    """Fits the cost model to what was measured, between batches (Adams et al. 2019, §4.3)."""

    def retrain(self, problem: Problem, measured: Sequence[Record]) -> _core.CostModel:
        """Return a model that knows the measurements so far."""
        ...


@dataclass(frozen=True, slots=True)
class TunerOptions:
    """How the tuner chooses."""

    batch: int = 8
    """Schedules that are compiled, and then raced, together."""
    sample_share: float = 0.3
    """Share of the budget after which samples give way to what lies around the best."""
    peer_share: float = 0.06
    """Share of the time that the searches of all peers together may take, beside the search itself."""
    search_share: float = 0.2
    """Share of the time that the search may take, where that is less than it may in any case; cut
    short, it gives tuning less to begin with than a search alone finds."""
    starts: int = 3
    """How many of the best descent goes on from, in turn."""
    peers: tuple[str, ...] = tuple(PEERS)
    """Halide's own autoschedulers whose schedules are tried, too; the quick ones first."""
    seed: int = 0
    """Seed of whatever is random."""
    trees: MonteCarlo | None = None
    """Trees whose next root the fastest measured schedule chooses (`mcts+real`); if None, samples are drawn, and then
    what lies around the best."""
    tree_seconds: float = 0.5
    """How long these trees search before each batch."""
    corrects: bool = True
    """Whether what was measured so far tells which neighbours, and which loop nests of trees, come first (`Residuals`);
    if not, the cost model alone does."""
    retrainer: Retrainer | None = None
    """Fits the cost model between batches, or rounds; None leaves it as it is."""
    rounds: RoundPlan | None = None
    """Rounds of samples, and nothing besides; None for samples, and then what lies around the best."""


class Tuner:
    """Chooses schedules of one problem."""

    def __init__(
        self,
        problem: Problem,
        options: TunerOptions,
        standings: Standings,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Get ready.

        Args:
            problem: What is tuned.
            options: How.
            standings: What was measured.
            is_over: Asked while many schedules are drawn; True draws no more.
        """
        self._problem = problem
        self._is_over = is_over
        self._options = options
        self._standings = standings
        self._residuals = Residuals(problem.planner, standings) if options.corrects else None
        self._sampler: Sampler | None = None
        self._trees: MeasuredTrees | None = None
        self._rounds: Rounds | None = None
        self._around: dict[str, Neighbours | ForeignNeighbours] = {}
        self._turn = 0
        self._has_descended = False
        self._model = problem.planner.model

    @property
    def planner(self) -> Planner:
        """What searches the problem's pipeline."""
        return self._problem.planner

    def seeds(self, found: Found, earlier: Sequence[Record], elsewhere: Sequence[Record]) -> list[Proposal]:
        """Return what is measured whatever the budget, the search's own first: the rest is worth a batch or two.

        Args:
            found: The outcome of the search as a user would run it without tuning.
            earlier: The best that were measured under the same key.
            elsewhere: The best of this algorithm on other machines, or at other sizes.
        """
        self._prepare_sampling(found)
        seeds = [
            *_of_candidates(self.planner, found),
            *(self._of_record(record, "record") for record in earlier),
            *(self._of_record(record, "seed") for record in elsewhere),
        ]
        distinct: dict[str, Proposal] = {}
        # After the search's own the safe schedule: what is gained is told against it, however small the budget.
        for seed in sorted(filter(None, seeds), key=lambda seed: _FIRST.get(seed.origin, len(_FIRST))):
            distinct.setdefault(seed.text, seed)
        return list(distinct.values())

    def peers(self, seconds: float, is_cancelled: Callable[[], bool]) -> Iterator[tuple[Proposal | None, str]]:
        """Ask Halide's own autoschedulers, and yield what each proposes, or None and why it does not.

        Args:
            seconds: How long they may take together.
            is_cancelled: Asked now and then.
        """
        seeds = peer_schedules(
            self._problem.source,
            self.planner.frame,
            self.planner.dag,
            self._options.peers,
            refuse=self._problem.refusal,
            threads=self._problem.threads,
            limit_seconds=seconds,
            options=self.planner.lowering,
            is_cancelled=is_cancelled,
        )
        for seed in seeds:
            if seed.schedule is None:
                yield None, f"{seed.origin}: {seed.failure}"
            else:
                yield Proposal(seed.origin, seed.schedule, is_foreign=True, printed=seed.printed), ""

    def next_batch(self, count: int, share: float, measured: Sequence[Record]) -> list[Proposal]:
        """Return up to `count` proposals, by what share of the budget is spent; none where nothing is left to try."""
        if self._rounds is not None:
            return self._rounds.next_batch(count, self._standings.tried, lambda: self._retrained(measured))
        self._retrained(measured)
        if self._trees is not None:
            return self._grow(self._trees, count, share)
        if share < self._options.sample_share:
            return self._sample(count) or self._descend(count)
        return self._descend(count) or self._sample(count)

    def _retrained(self, measured: Sequence[Record]) -> _core.CostModel:
        """Fit the cost model to what was measured, where that is wanted, and return it."""
        if self._options.retrainer is not None and measured:
            self._model = self._options.retrainer.retrain(self._problem, measured)
            self._around.clear()
        return self._model

    def _prepare_sampling(self, found: Found) -> None:
        if found.form is None:
            return
        joined = [form for form in self.planner.forms if form.joints and not (form.rfactors or form.stagings)]
        starts = [self.planner.form(), *joined]
        forms: list[Form] = [found.form, *(form for form in starts if form is not found.form)]
        self._sampler = Sampler(self.planner, forms, self._options.seed)
        if self._options.trees is not None:
            self._trees = MeasuredTrees(
                self.planner, forms, self._options.trees, self._options.tree_seconds, self._residuals
            )
        if self._options.rounds is not None:
            self._rounds = Rounds(self.planner, found.form, self._options.rounds, self._is_over)

    def _grow(self, trees: MeasuredTrees, count: int, share: float) -> list[Proposal]:
        """Draw from trees; in turn with descent where somebody else's schedule leads, which is in no tree."""
        best = self._standings.best
        has_turn = best is not None and best.proposal.printed is not None and not self._has_descended
        around = self._descend(count) if has_turn else []
        self._has_descended = bool(around)
        return around or trees.next_batch(count, share, self._standings, self._model) or self._descend(count)

    def _sample(self, count: int) -> list[Proposal]:
        return [] if self._sampler is None else self._sampler.draw(count, self._standings.tried, self._model)

    def _descend(self, count: int) -> list[Proposal]:
        """Draw around the best few in turn: most around the very best."""
        starts = [standing for standing in self._standings.ranked() if _has_neighbours(standing.proposal)]
        starts = starts[: self._options.starts]
        if not starts:
            return []
        self._turn += 1
        # The best has every other batch, and those behind it share the rest.
        first = 0 if self._turn % 2 or len(starts) == 1 else 1 + (self._turn // 2) % (len(starts) - 1)
        for place in [first, *(other for other in range(len(starts)) if other != first)]:
            around = self._neighbours(starts[place].proposal)
            if around is not None and (drawn := around.draw(count, self._standings.tried)):
                return drawn
        return []

    def _neighbours(self, proposal: Proposal) -> Neighbours | ForeignNeighbours | None:
        if proposal.text not in self._around:
            try:
                self._around[proposal.text] = self._look_around(proposal)
            except MetolError:  # a nest of another release, whose decisions mean nothing here
                return None
        return self._around[proposal.text]

    def _look_around(self, proposal: Proposal) -> Neighbours | ForeignNeighbours:
        if proposal.nest is not None:
            return Neighbours(self.planner, proposal.nest, self._model, self._residuals)
        return ForeignNeighbours(self.planner, proposal, self._options.seed)

    def _of_record(self, record: Record, origin: str) -> Proposal | None:
        """What was measured once, for this pipeline: with its decisions where they still lead to the same schedule."""
        try:
            known = record.to_schedule()
        except MetolError:  # written by a later Metol
            return None
        if len(known.funcs) != len(self.planner.frame.funcs):
            return None
        # With its own names of loops, which differ from run to run where nobody chose them.
        schedule = replace(self.planner.frame, funcs=known.funcs, directives=known.directives)
        again = self._again(record, origin)
        # Made for other sizes, the decisions say more than the directives; for these, both must say the same.
        is_same = again is not None and again.text == directives_text(schedule)
        if again is not None and (is_same or record.key.estimates != self._problem.key.estimates):
            return again
        return Proposal(origin, schedule, is_foreign=True)

    def _again(self, record: Record, origin: str) -> Proposal | None:
        """What its decisions lead to; None where they are not known, or lead nowhere."""
        if not record.nest:
            return None
        try:
            nest = Nest.from_json(record.nest)
            form, state = self.planner.state_of(nest)
        except MetolError:
            return None
        cost = float(form.space.cost(state, self._model)[0])
        return propose_state(self.planner, form, state, nest, origin, predicted_seconds=cost)


def _has_neighbours(proposal: Proposal) -> bool:
    return proposal.nest is not None or proposal.printed is not None


def _of_candidates(planner: Planner, found: Found) -> Iterator[Proposal]:
    """What a search found, and the safe schedule; everything at root only where there is nothing else."""
    has_some = False
    for candidate in found.candidates:
        if has_some and candidate.origin in ("root", "none"):
            return
        proposal = _of_candidate(planner, candidate)
        if proposal is not None:
            has_some = True
            yield proposal


def _of_candidate(planner: Planner, candidate: Candidate) -> Proposal | None:
    try:
        directives = candidate.directives()
    except ScheduleFormatError:
        return None
    nest = None if candidate.nest is None else candidate.nest()
    cost = candidate.cost_seconds
    return Proposal(candidate.origin, replace(planner.frame, directives=directives), nest, cost or math.nan)
