"""Searches a pipeline with copies of what its Funcs read, made by Halide's `in()`: staging.

A form of the pipeline and the best loop nest found for it enter, with the copies that may pay. Leaves: the form with
those copies and a cheaper loop nest, or what entered. Nothing is searched anew: a copy that is inlined is not there, so
the loop nest found is one of the form with copies, too, from which single decisions are changed. Only where one of them
pays, or greed finds a cheaper loop nest with copies, does coordinate descent look at all decisions again.
"""

from collections import defaultdict
from dataclasses import replace

from metol import _core
from metol.errors import SearchError
from metol.pipeline import PipelineDag
from metol.search.beam import BeamSearch
from metol.search.form import Form
from metol.search.refine import Refined, improve
from metol.search.strategy import Budget, Known, SearchResult

__all__ = ["search_copies"]

# What greed finds with copies is looked at further where it costs at most so many times what was found without.
_MOST_BEHIND = 1.15
# Loop nests that the beam keeps that places all copies.
_TOGETHER_WIDTH = 48


def search_copies(
    form: Form,
    found: SearchResult,
    staged: Form,
    model: _core.CostModel,
    budget: Budget,
) -> SearchResult:
    """Return the best loop nest found of a pipeline with copies; where none is cheaper, `found` with what was costed.

    Copies are tried one by one, and all together with other loops of what reads them: where one brings nothing without
    the others, as both factors of a product in shared memory, or nothing without lanes along another dimension.

    Args:
        form: The pipeline without copies.
        found: The best loop nest of it.
        staged: The pipeline with copies.
        model: The cost model.
        budget: How long it may take.
    """
    space = staged.space
    starts: list[SearchResult] = []
    candidates = 0
    state = _transplanted(form, found, staged)
    if state is not None:
        start = SearchResult(state, float(space.cost(state, model)[0]), 0, found.is_complete)
        best = start
        for position in _location_positions(staged.dag, space):
            best = improve(space, model, best, position)
        candidates += best.candidates
        if best.cost_seconds < start.cost_seconds:
            starts.append(replace(best, candidates=0))
        together = None if budget.is_spent() else _search_together(staged, state, model, budget)
        if together is not None:
            candidates += together.candidates
            if together.cost_seconds < found.cost_seconds * _MOST_BEHIND:
                starts.append(replace(together, candidates=0))
    if not budget.is_spent():
        greedy = BeamSearch(width=1).search(space, model, budget)
        candidates += greedy.candidates
        if greedy.cost_seconds < found.cost_seconds * _MOST_BEHIND and _has_copies(staged.dag, greedy.state):
            starts.append(replace(greedy, candidates=0))
    if not starts:
        return replace(found, candidates=candidates)
    refined = Refined(tuple(Known(start) for start in starts)).search(space, model, budget)
    is_complete = found.is_complete and refined.is_complete
    alternatives = refined.alternatives
    if state is not None:  # where Halide refuses the copies
        seen = {int(space.identity_hash(other)[0]) for other in (refined.state, *alternatives)}
        alternatives += () if int(space.identity_hash(state)[0]) in seen else (state,)
    count = refined.candidates + candidates
    return replace(refined, candidates=count, is_complete=is_complete, alternatives=alternatives)


def _search_together(staged: Form, state: _core.States, model: _core.CostModel, budget: Budget) -> SearchResult | None:
    """Return what a beam finds where every copy has a place, and the loops of `state` where none is read."""
    space, dag = staged.space, staged.dag
    copies = {number for number, func in enumerate(dag.funcs) if func.is_wrapper}
    readers = {stage for stage, one in enumerate(dag.stages) if any(edge.producer in copies for edge in one.edges)}
    settled: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    is_open: set[int] = set(copies)
    for (func, stage), decision in zip(_steps(space), space.path(state), strict=True):
        # What reads a copy stays where it is, in other loops.
        is_open |= {func} if stage in readers else set()
        settled[func] += [] if func in is_open else [decision]
    options = space.options
    options.allow_inline = False
    for func, decisions in settled.items():
        options.freeze(func, decisions)
    try:
        return BeamSearch(width=_TOGETHER_WIDTH, passes=1).search(space.restrict(options), model, budget)
    except SearchError:  # no place is legal for one of them
        return None


def _has_copies(dag: PipelineDag, state: _core.States) -> bool:
    return any(
        dag.funcs[schedule.func].is_wrapper and schedule.placement != _core.Placement.INLINE
        for schedule in state.describe()
    )


def _location_positions(dag: PipelineDag, space: _core.Space) -> list[int]:
    """Of all decisions, those where a copy goes."""
    seen: set[int] = set()
    positions = []
    for position, func in enumerate(space.decision_funcs):
        if dag.funcs[func].is_wrapper and func not in seen:
            positions.append(position)
        seen.add(func)
    return positions


def _transplanted(form: Form, found: SearchResult, staged: Form) -> _core.States | None:
    """The same loop nest in the space with copies, all of which are inlined; None where Halide's order differs."""
    origins = {func.origin: position for position, func in enumerate(_real_funcs(staged.dag))}
    funcs = {position: origins[func.origin] for position, func in enumerate(_real_funcs(form.dag))}
    stages = {-1: -1} | {
        old: new
        for func, other in funcs.items()
        for old, new in zip(form.dag.funcs[func].stages, staged.dag.funcs[other].stages, strict=True)
    }
    # By what a step is about: a copy that two Stages read lets them share loops, and so adds steps of theirs.
    decisions: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
    for (func, stage), decision in zip(_steps(form.space), form.space.path(found.state), strict=True):
        decisions[funcs[func], stages[stage]].append(_core.renumber(decision, funcs, stages))
    space = staged.space
    made: list[tuple[int, ...]] = []
    try:
        for step in _steps(space):
            if decisions[step]:
                made.append(decisions[step].pop(0))
                continue
            # The first place of a copy is inline, and then nothing is to choose; nor is anything shared at first.
            child = space.child(space.replay(made), 0)
            if isinstance(child, str):
                return None
            made.append(space.path(child)[-1])
        return space.replay(made)
    except ValueError:
        return None


def _real_funcs(dag: PipelineDag) -> list[_core.Func]:
    return dag.funcs[: dag.real_func_count]


def _steps(space: _core.Space) -> list[tuple[int, int]]:
    return list(zip(space.decision_funcs, space.decision_stages, strict=True))
