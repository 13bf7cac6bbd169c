"""Searches a pipeline with copies of what its Funcs read, made by Halide's `in()`: staging.

A form of the pipeline and the best loop nest found for it enter, with the copies that may pay. Leaves: the form with
those copies and a cheaper loop nest, or what entered. Nothing is searched anew: a copy that is inlined is not there, so
the loop nest found is one of the form with copies, too, from which single decisions are changed. Only where one of them
pays, or greed finds a cheaper loop nest with copies, does coordinate descent look at all decisions again.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from metol import _core
from metol.pipeline import PipelineDag
from metol.search.beam import BeamSearch
from metol.search.refine import Refined, improve
from metol.search.strategy import Budget, SearchResult

__all__ = ["search_copies"]

# What greed finds with copies is looked at further where it costs at most so many times what was found without.
_MOST_BEHIND = 1.15


@dataclass(frozen=True, slots=True)
class _Given:
    """The strategy whose result is known."""

    result: SearchResult

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Return it."""
        return self.result


def search_copies(
    dag: PipelineDag,
    found: SearchResult,
    path: Sequence[tuple[int, ...]],
    staged_dag: PipelineDag,
    space: _core.Space,
    *,
    model: _core.CostModel,
    budget: Budget,
) -> SearchResult:
    """Return the best loop nest found of a pipeline with copies; where none is cheaper, `found` with what was costed.

    Args:
        dag: The pipeline without copies.
        found: The best loop nest of it.
        path: The decisions that lead there.
        staged_dag: The pipeline with copies.
        space: Its space.
        model: The cost model.
        budget: How long it may take.
    """
    starts: list[SearchResult] = []
    candidates = 0
    state = _transplanted(dag, path, staged_dag, space)
    if state is not None:
        # Where Halide refuses the copies, it is the alternative.
        start = SearchResult(state, float(space.cost(state, model)[0]), 0, found.is_complete, (state,))
        best = start
        for position in _location_positions(staged_dag, space):
            best = improve(space, model, best, position)
        candidates += best.candidates
        if best.cost_seconds < start.cost_seconds:
            starts.append(replace(best, candidates=0))
    if not budget.is_spent():
        greedy = BeamSearch(width=1).search(space, model, budget)
        candidates += greedy.candidates
        if greedy.cost_seconds < found.cost_seconds * _MOST_BEHIND and _has_copies(staged_dag, greedy.state):
            starts.append(replace(greedy, candidates=0, alternatives=() if state is None else (state,)))
    if not starts:
        return replace(found, candidates=candidates)
    refined = Refined(tuple(_Given(start) for start in starts)).search(space, model, budget)
    is_complete = found.is_complete and refined.is_complete
    return replace(refined, candidates=refined.candidates + candidates, is_complete=is_complete)


def _has_copies(dag: PipelineDag, state: _core.States) -> bool:
    return any(
        dag.funcs[schedule.func].is_wrapper and schedule.placement != _core.Placement.INLINE
        for schedule in state.describe()
    )


def _location_positions(dag: PipelineDag, space: _core.Space) -> list[int]:
    """Of all decisions, those where a copy goes."""
    funcs = space.decision_funcs
    return [
        position
        for position, func in enumerate(funcs)
        if dag.funcs[func].is_wrapper and (position == 0 or funcs[position - 1] != func)
    ]


def _transplanted(
    dag: PipelineDag, path: Sequence[tuple[int, ...]], staged_dag: PipelineDag, space: _core.Space
) -> _core.States | None:
    """The same loop nest in the space with copies, all of which are inlined; None where Halide's order differs."""
    staged = {func.origin: position for position, func in enumerate(staged_dag.funcs[: staged_dag.real_func_count])}
    funcs = {position: staged[func.origin] for position, func in enumerate(dag.funcs[: dag.real_func_count])}
    stages = {
        old: new
        for func, other in funcs.items()
        for old, new in zip(dag.funcs[func].stages, staged_dag.funcs[other].stages, strict=True)
    }
    decisions: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for kind, func, stage, *rest in path:
        decisions[funcs[func]].append((kind, funcs[func], stages.get(stage, -1), *rest))
    made: list[tuple[int, ...]] = []
    try:
        for func in space.decision_funcs:
            if staged_dag.funcs[func].is_wrapper:
                child = space.child(space.replay(made), 0)  # the first place is inline, and then nothing is to choose
                if isinstance(child, str):
                    return None
                made.append(space.path(child)[-1])
            else:
                made.append(decisions[func].pop(0))
        return space.replay(made)
    except ValueError:
        return None
