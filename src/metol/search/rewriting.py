"""Searches a pipeline, and the pipelines that it becomes when updates are computed in two steps or reads are staged.

A pipeline with its Space enters, together with who reads its rewritten forms and who proposes them. Leaves: the form
whose best loop nest is the cheapest. Each form is tried with a quick strategy first; only the best is searched in full.
Copies of what is read come last, and change what was found (search/staging.py).
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from metol import _core
from metol._core import Rfactor, Staging
from metol.errors import DeadEndError
from metol.pipeline import PipelineDag
from metol.search.form import Form
from metol.search.staging import search_copies
from metol.search.strategy import Budget, SearchResult, Strategy

__all__ = ["Proposer", "Reader", "Rewriting", "search_forms"]

# Updates that are rewritten at most, and what a rewriting must save at least of the predicted time.
_MAX_REWRITES = 4
_LEAST_GAIN = 0.02
# What copies must save for a search of its own: of all loops, with them.
_LEAST_GAIN_OF_OTHER_LOOPS = 0.1
# Stages that take less than this share of the predicted time are left as they are.
_LEAST_SHARE = 0.02


Reader = Callable[[tuple[Rfactor, ...], tuple[Staging, ...]], Form | None]
"""Reads the pipeline with some updates rewritten and some reads staged; None where Halide refuses that."""

Proposer = Callable[[PipelineDag, Sequence[_core.FuncSchedule], Sequence[int]], tuple[tuple[Rfactor, ...], ...]]
"""DAG, loop nest and Stages, the most expensive first -> what could be rewritten, one at a time or some together."""

StagingProposer = Callable[[PipelineDag, Sequence[_core.FuncSchedule], Sequence[int]], tuple[Staging, ...]]
"""The same -> what could be copied, all at once."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How to get at other forms of a pipeline."""

    read: Reader
    propose: Proposer
    propose_stagings: StagingProposer
    quick: Strategy
    """What tells in little time whether a form is worth a search."""
    thorough: Strategy
    """The same of a form with several updates rewritten, of which a beam of one state comes to the worst alone."""


def search_forms(
    start: Form, rewriting: Rewriting | None, strategy: Strategy, model: _core.CostModel, budget: Budget
) -> tuple[Form, SearchResult]:
    """Search the pipeline as it is, then what rewriting makes of it, and return the best.

    Raises:
        DeadEndError: the search of the pipeline as it is comes to no complete loop nest.
    """
    form, found = start, strategy.search(start.space, model, budget)
    if rewriting is None or budget.is_spent():
        return form, found
    as_it_was = found
    # Where another form comes to none, that is all that is known of it.
    with contextlib.suppress(DeadEndError):
        form, found = _search_rewritten(start, found, rewriting, strategy, model=model, budget=budget)
    with contextlib.suppress(DeadEndError):
        form, found = _search_staged(form, found, rewriting, strategy, model=model, budget=budget)
    if not form.rfactors:
        return form, found
    # What updates in two steps gain, a copy that makes rows of columns may gain, too, and more.
    other_form, other = start, as_it_was
    with contextlib.suppress(DeadEndError):
        other_form, other = _search_staged(start, as_it_was, rewriting, strategy, model=model, budget=budget)
    candidates = found.candidates + other.candidates - as_it_was.candidates
    if other.cost_seconds < found.cost_seconds:
        form, found = other_form, other
    return form, replace(found, candidates=candidates)


def _search_rewritten(
    start: Form,
    found: SearchResult,
    rewriting: Rewriting,
    strategy: Strategy,
    *,
    model: _core.CostModel,
    budget: Budget,
) -> tuple[Form, SearchResult]:
    """Return what updates in two steps gain, or what was found without."""
    form, rough, candidates = _rewritten(start, found, rewriting, model, budget)
    candidates += found.candidates
    if form is start or rough is None:
        return start, replace(found, candidates=candidates)
    other = rough if budget.is_spent() else strategy.search(form.space, model, budget)
    other = min((other, rough), key=lambda result: result.cost_seconds)
    candidates += other.candidates
    if other.cost_seconds >= found.cost_seconds * (1 - _LEAST_GAIN):
        return start, replace(found, candidates=candidates)
    return form, replace(other, candidates=candidates)


def _search_staged(
    form: Form,
    found: SearchResult,
    rewriting: Rewriting,
    strategy: Strategy,
    *,
    model: _core.CostModel,
    budget: Budget,
) -> tuple[Form, SearchResult]:
    """Return what copies of what is read gain, or what was found without."""
    proposals = rewriting.propose_stagings(form.dag, found.state.describe(), _expensive_stages(form, found, model))
    if not proposals or budget.is_spent():
        return form, found
    staged = rewriting.read(form.rfactors, proposals)
    if staged is None:
        return form, found
    other = search_copies(form, found, staged, model, budget)
    candidates = found.candidates + other.candidates
    if other.cost_seconds >= found.cost_seconds * (1 - _LEAST_GAIN):
        return form, replace(found, candidates=candidates)
    if other.cost_seconds < found.cost_seconds * (1 - _LEAST_GAIN_OF_OTHER_LOOPS) and not budget.is_spent():
        # So much changes what pays elsewhere: other loops than those that were found without copies, and around them.
        anew = strategy.search(staged.space, model, budget)
        candidates += anew.candidates
        other = min((other, anew), key=lambda result: result.cost_seconds)
    return staged, replace(other, candidates=candidates)


def _rewritten(
    start: Form, found: SearchResult, rewriting: Rewriting, model: _core.CostModel, budget: Budget
) -> tuple[Form, SearchResult | None, int]:
    """Rewrite one update after the other as long as that makes the quick search's result cheaper."""
    form, best, nest, candidates = start, None, found, 0
    # Lanes of partial results pay with tiles that a beam of one state rarely comes to.
    has_narrow_products = any(0 < stage.lane_bytes < _core.VALUE_BYTES for stage in start.dag.stages)
    quick = rewriting.thorough if has_narrow_products else rewriting.quick
    for _ in range(_MAX_REWRITES):
        proposals = rewriting.propose(form.dag, nest.state.describe(), _expensive_stages(form, nest, model))
        if not proposals or budget.is_spent():
            break
        if best is None:
            best = quick.search(start.space, model, budget)
        alone = [proposal for proposal in proposals if len(proposal) == 1]
        tried = _tried(form, alone, rewriting, quick, model, budget)
        together = [proposal for proposal in proposals if len(proposal) > 1]
        others = _tried(form, together, rewriting, rewriting.thorough, model, budget)
        if tried and others and rewriting.thorough is not quick:
            # By the same search as the best of those alone.
            first, _ = min(tried, key=_cost_of)
            with contextlib.suppress(DeadEndError):
                others.append((first, rewriting.thorough.search(first.space, model, budget)))
        candidates += sum(result.candidates for _, result in (*tried, *others))
        if not (tried or others):
            break
        other, result = min((*others, *tried), key=_cost_of)
        if result.cost_seconds >= best.cost_seconds * (1 - _LEAST_GAIN):
            break
        form, best, nest = other, result, result
    return form, best, candidates


def _tried(
    form: Form,
    proposals: Sequence[tuple[Rfactor, ...]],
    rewriting: Rewriting,
    strategy: Strategy,
    model: _core.CostModel,
    budget: Budget,
) -> list[tuple[Form, SearchResult]]:
    """Rewrite a form in several ways, and search each that Halide accepts and that does not end in a dead end."""
    tried = []
    for proposal in proposals:
        other = rewriting.read((*form.rfactors, *proposal), ())
        if other is not None:
            with contextlib.suppress(DeadEndError):
                tried.append((other, strategy.search(other.space, model, budget)))
    return tried


def _cost_of(pair: tuple[Form, SearchResult]) -> float:
    return pair[1].cost_seconds


def _expensive_stages(form: Form, found: SearchResult, model: _core.CostModel) -> list[int]:
    """Stage ids whose predicted time counts, the most expensive first."""
    seconds = form.space.stage_costs(found.state, model)
    least = _LEAST_SHARE * seconds.sum()
    return [int(stage) for stage in (-seconds).argsort(kind="stable") if seconds[stage] > least]
