"""Searches a pipeline, and the pipelines that it becomes when updates are computed in two steps.

A pipeline with its Space enters, together with who reads its rewritten forms and who proposes them. Leaves: the form
whose best loop nest is the cheapest. Each form is tried with a quick strategy first; only the best is searched in full.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from metol import _core
from metol._core import Rfactor
from metol.pipeline import PipelineDag
from metol.search.strategy import Budget, SearchResult, Strategy

__all__ = ["Form", "Proposer", "Reader", "Rewriting", "search_forms"]

# Updates that are rewritten at most, and what a rewriting must save at least of the predicted time.
_MAX_REWRITES = 4
_LEAST_GAIN = 0.02
# Stages that take less than this share of the predicted time are left as they are.
_LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a pipeline."""

    dag: PipelineDag
    """The pipeline after `rfactors`."""
    space: _core.Space
    """Its search space."""
    rfactors: tuple[Rfactor, ...] = ()
    """What is computed in two steps."""


Reader = Callable[[tuple[Rfactor, ...]], Form | None]
"""Reads the pipeline with some updates rewritten; None where Halide refuses that."""

Proposer = Callable[[PipelineDag, Sequence[_core.FuncSchedule], Sequence[int]], tuple[Rfactor, ...]]
"""DAG, loop nest and Stages, the most expensive first -> what could be rewritten."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """How to get at other forms of a pipeline."""

    read: Reader
    propose: Proposer
    quick: Strategy
    """What tells in little time whether a form is worth a search."""


def search_forms(
    start: Form, rewriting: Rewriting | None, strategy: Strategy, model: _core.CostModel, budget: Budget
) -> tuple[Form, SearchResult]:
    """Search the pipeline as it is, then what rewriting makes of it, and return the best."""
    found = strategy.search(start.space, model, budget)
    if rewriting is None or budget.is_spent():
        return start, found
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


def _rewritten(
    start: Form, found: SearchResult, rewriting: Rewriting, model: _core.CostModel, budget: Budget
) -> tuple[Form, SearchResult | None, int]:
    """Rewrite one update after the other as long as that makes the quick search's result cheaper."""
    form, best, nest, candidates = start, None, found, 0
    for _ in range(_MAX_REWRITES):
        proposals = rewriting.propose(form.dag, nest.state.describe(), _expensive_stages(form, nest, model))
        if not proposals or budget.is_spent():
            break
        if best is None:
            best = rewriting.quick.search(start.space, model, budget)
        forms = (rewriting.read((*form.rfactors, proposal)) for proposal in proposals)
        tried = [(other, rewriting.quick.search(other.space, model, budget)) for other in forms if other is not None]
        candidates += sum(result.candidates for _, result in tried)
        if not tried:
            break
        other, result = min(tried, key=lambda pair: pair[1].cost_seconds)
        if result.cost_seconds >= best.cost_seconds * (1 - _LEAST_GAIN):
            break
        form, best, nest = other, result, result
    return form, best, candidates


def _expensive_stages(form: Form, found: SearchResult, model: _core.CostModel) -> list[int]:
    """Stage ids whose predicted time counts, the most expensive first."""
    seconds = form.space.stage_costs(found.state, model)
    least = _LEAST_SHARE * seconds.sum()
    return [int(stage) for stage in (-seconds).argsort(kind="stable") if seconds[stage] > least]
