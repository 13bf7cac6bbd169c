"""What of a loop nest may be copied at all, on any machine; whether it pays is for each target to say.

Enters: a loop nest that was found without copies. Leaves: `Staging`s to try.
"""

from collections.abc import Callable, Sequence
from math import prod

from metol import _core
from metol._core import Staging
from metol.pipeline import PipelineDag

__all__ = ["plan_stagings", "reads_of_a_value"]

# Copies that are offered at once; each adds decisions to the search. The most expensive Stages come first.
_MOST = 3


def plan_stagings(
    dag: PipelineDag,
    schedules: Sequence[_core.FuncSchedule],
    stages: Sequence[int],
    is_worth_it: Callable[[_core.StageNest, _core.Stage, _core.Edge], bool],
) -> tuple[Staging, ...]:
    """Return copies that may pay, at most three.

    Args:
        dag: The pipeline.
        schedules: A complete loop nest of it, one entry a Func.
        stages: Stage ids to look at, the most important first.
        is_worth_it: Tells whether a Stage, as it is scheduled, may read faster from a copy of a producer.
    """
    found: list[tuple[int, int]] = []
    for stage_id in stages:
        stage = dag.stages[stage_id]
        schedule = schedules[stage.func]
        is_one = not dag.funcs[stage.func].joint  # a copy is for one Func
        is_ours = is_one and not (stage.is_extern or stage.is_undef) and len(schedule.stages) > stage.index
        for edge in stage.edges if is_ours else ():
            pair = (edge.producer, stage.func)
            is_copyable = _is_copyable(dag, schedules, edge.producer) and pair not in found
            if is_copyable and is_worth_it(schedule.stages[stage.index], stage, edge):
                found.append(pair)
    return tuple(Staging(dag.funcs[func].origin, dag.funcs[consumer].origin) for func, consumer in found[:_MOST])


def reads_of_a_value(access: _core.Access, extents: Sequence[int]) -> int:
    """Return how often a value is read: iterations, by loop `extents`, of the loops that do not move its place."""
    return prod(
        extent
        for loop, extent in enumerate(extents)
        if all(row.is_known[loop] and row.numerator[loop] == 0 for row in access.jacobian)
    )


def _is_copyable(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], producer: int) -> bool:
    """Is it a Func that `in()` can be called on, and in memory beyond all loops?"""
    func = dag.funcs[producer]
    is_at_root = func.is_input or schedules[producer].placement == _core.Placement.ROOT
    return producer < dag.real_func_count and not (func.is_output or func.is_wrapper) and is_at_root
