"""Beam search with coarse-to-fine passes; greedy search is a beam of width 1.

A Space and a cost model enter, the best complete loop nest leaves. Sources: Adams et al. 2019, §3.2 (passes and
penalties), §4.3 (random dropout); Anderson et al. 2021, §4.5 (penalties of what proved bad).
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from metol import _core
from metol.errors import DeadEndError, SearchError
from metol.search.hash_lessons import Hashes, HashLessons, distinct_hashes
from metol.search.sampled import expander_of_pass
from metol.search.strategy import Budget, SearchResult, run_starts, runners_up

__all__ = ["BeamSearch", "rare_dropout"]

# A pass over a beam of a quarter of the width goes first: costs of unfinished loop nests are optimistic, and now and
# then a narrow beam ends better than a wide one, which is full of states that put off what they will have to pay.
_SCOUT_SHARE = 4
# States whose ancestors are permitted in the next pass ("the top few", Adams et al. 2019, §3.2).
_TOP_FEW = 4
# A narrow beam is a second start beside the greedy one; what a wider one finds is worth its time only later.
_NARROW_WIDTH = 8
_NARROW_PASSES = 2
# The chance that a search with rare dropout never passes anything over (Adams et al. 2019, §4.3).
_CHANCE_OF_NO_DROPOUT = 1 / 20


def rare_dropout(decisions: int) -> float:
    """Return the dropout of a search of so many decisions that now and then drops nothing (Adams et al. 2019, §4.3)."""
    return 1 - math.pow(_CHANCE_OF_NO_DROPOUT, 1 / max(1, decisions))


@dataclass(slots=True)
class _Trace:
    """The beams of one pass, so that the ancestors of its results can be found."""

    beams: list[_core.States] = field(default_factory=list)
    parents: list[npt.NDArray[np.intp]] = field(default_factory=list)  # [beam] index into the beam before
    seen: list[Hashes] = field(default_factory=list)  # [children of a decision]; empty where nobody asks

    def ancestors(self, space: _core.Space, indices: list[int], depth: int) -> Hashes:
        """Hash, at `depth`, every state on the way to these states of the last beam, and sort the hashes."""
        hashes: set[int] = set()
        current = sorted(set(indices))
        for beam, parents in zip(reversed(self.beams), reversed(self.parents), strict=True):
            hashes.update(space.structural_hash(beam.take(current), depth).tolist())
            current = sorted({int(parents[i]) for i in current})
        return np.array(sorted(hashes), dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """Keeps the `width` best states of each decision, and goes over all decisions `passes` times.

    Pass p, from 1, admits only states whose structural hash at depth p - 1 lies on the way to a good result of the pass
    before, and ranks the k-th state (from 0) that shares a hash at depth p + 1 with better ones as if it cost
    1 + `duplicate_penalty` * k times as much. With a `bad_penalty`, what does not lie on the way is admitted, and one
    whose hash was seen in the pass before ranks as if it cost so much more. Penalties only order the beam: the cost of
    a result is its own.
    """

    width: int = 32
    """States kept; 1 is greedy."""
    passes: int = 5
    """Coarse-to-fine passes; a beam of width 1 needs but one."""
    dropout: float = 0.0
    """Chance that a state is passed over while the beam is filled, 0 for none (Adams et al. 2019, §4.3)."""
    seed: int = 0
    """Seed of the dropout."""
    duplicate_penalty: float = 1.0
    """By how much each better state with the same hash adds to a state's cost, as a share of it."""
    bad_penalty: float = math.inf
    """By how much a hash that proved bad in the pass before adds to a state's cost, as a share of it."""
    scouts: bool = True
    """Whether a pass over a narrower beam goes before the others."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise SearchError(f"A beam needs a width of at least 1, not {self.width}; use 1 for a greedy search.")
        if self.passes < 1:
            raise SearchError(f"A beam search needs at least 1 pass, not {self.passes}.")
        if not 0 <= self.dropout < 1:
            raise SearchError(f"A dropout is a probability below 1, not {self.dropout}.")

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Find a complete loop nest of low predicted cost."""
        rng = np.random.default_rng(self.seed)
        lessons: HashLessons | None = None
        best: SearchResult | None = None
        finalists: list[tuple[float, _core.States]] = []
        candidates = 0
        is_late = False
        has_scout = self.width > 1 and self.scouts
        for pass_number, width in enumerate(self._widths(), start=1):
            depth = max(1, pass_number - 1) if has_scout else pass_number
            beam, trace, count = self._run_pass(space, model, budget, _Pass(depth, width, lessons, rng))
            candidates += count
            costs = space.cost(beam, model)
            order = np.argsort(costs, kind="stable")
            winner = int(order[0])
            if best is None or costs[winner] < best.cost_seconds:
                best = SearchResult(beam.take([winner]), float(costs[winner]), candidates, True)
                best_trace, best_few = trace, [int(i) for i in order[:_TOP_FEW]]
            finalists += [(float(costs[i]), beam.take([int(i)])) for i in order[:_TOP_FEW]]
            if is_late := budget.is_spent():
                break
            # A pass that only scouts leaves the next as free as it was.
            if pass_number > 1 or not has_scout:
                lessons = HashLessons(best_trace.ancestors(space, best_few, depth), distinct_hashes(trace.seen))
        assert best is not None
        alternatives = runners_up(space, finalists)
        return replace(best, candidates=candidates, is_complete=not is_late, alternatives=alternatives)

    def narrower(self) -> tuple["BeamSearch", "BeamSearch"]:
        """Return a greedy search and a narrow beam: what to start from while this one takes its time."""
        narrow = replace(self, width=min(_NARROW_WIDTH, self.width), passes=min(_NARROW_PASSES, self.passes))
        return replace(self, width=1), narrow

    def _widths(self) -> list[int]:
        """Widths of the passes: a narrow one that scouts, then those of coarse-to-fine search."""
        if self.width == 1:
            return [1]
        scout = [max(1, self.width // _SCOUT_SHARE)] if self.scouts else []
        return [*scout, *[self.width] * self.passes]

    def _run_pass(
        self, space: _core.Space, model: _core.CostModel, budget: Budget, this: "_Pass"
    ) -> tuple[_core.States, _Trace, int]:
        """Make every decision once. Past the end of the budget only the best state is followed."""
        beam = space.root()
        trace = _Trace()
        candidates = 0
        expand = expander_of_pass(space, this.depth - 1)
        for _ in range(space.decision_count):
            children, parents = expand(beam)
            if len(children) == 0:
                raise DeadEndError("No candidate for the next decision is legal; switch fewer parts of the space off.")
            if self._has_no_choice(beam, children, parents) and not budget.is_spent():
                # Ranked they are when there is something to choose again.
                beam = children
                trace.beams.append(beam)
                trace.parents.append(parents.astype(np.intp))
                continue
            factors = np.ones(len(children))
            if this.lessons is not None:
                hashes = space.structural_hash(children, this.depth - 1)
                factors = this.lessons.factors(hashes, self.bad_penalty)
            admitted = np.flatnonzero(np.isfinite(factors))
            if len(admitted) < len(children):
                children, parents, factors = children.take(admitted.tolist()), parents[admitted], factors[admitted]
            costs = space.cost(children, model) * factors
            candidates += len(children)
            now = replace(this, width=1) if budget.is_spent() else this
            kept = self._select(space, children, costs, now)
            beam = children.take(kept)
            trace.beams.append(beam)
            trace.parents.append(parents[kept].astype(np.intp))
            if self.width > 1 and not math.isinf(self.bad_penalty):
                trace.seen.append(space.structural_hash(children, this.depth))
        return beam, trace, candidates

    def _has_no_choice(self, beam: _core.States, children: _core.States, parents: npt.NDArray[np.int32]) -> bool:
        """Whether each state has one child, and none of them may be passed over."""
        keeps_all = math.isfinite(self.bad_penalty) and (self.width == 1 or self.dropout == 0)
        return keeps_all and len(children) == len(beam) and bool(run_starts(parents).all())

    def _select(
        self, space: _core.Space, children: _core.States, costs: npt.NDArray[np.float64], this: "_Pass"
    ) -> list[int]:
        """Positions of the states to keep, best first."""
        order = np.argsort(costs, kind="stable")
        if this.width > 1:
            hashes = space.structural_hash(children, this.depth + 1)
            order = _penalized_order(order, costs, hashes, self.duplicate_penalty)
        if self.dropout == 0:
            return [int(i) for i in order[: this.width]]
        is_kept = this.rng.random(len(order)) >= self.dropout
        # Never nothing: where all were passed over, the best stays.
        return [int(i) for i in order[is_kept][: this.width]] or [int(order[0])]


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one pass of the beam goes by."""

    depth: int
    """Duplicates are told at one more than this depth; what is sampled, and what proved bad, at one less."""
    width: int
    """States kept."""
    lessons: HashLessons | None
    """What became of hashes at `depth` - 1 in the pass before; None where there was none."""
    rng: np.random.Generator
    """Where the dropout comes from."""


def _penalized_order(
    order: npt.NDArray[np.intp], costs: npt.NDArray[np.float64], hashes: Hashes, penalty: float
) -> npt.NDArray[np.intp]:
    """Reorder states, best first, after each pays for the better ones that share its hash."""
    by_hash = np.argsort(hashes[order], kind="stable")
    grouped = hashes[order][by_hash]
    positions = np.arange(len(order))
    better = np.empty(len(order))
    better[by_hash] = positions - np.maximum.accumulate(np.where(run_starts(grouped), positions, 0))
    return order[np.argsort(costs[order] * (1 + penalty * better), kind="stable")]
