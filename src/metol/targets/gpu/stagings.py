"""What to copy for which consumer on a GPU: what several points of a block read of memory beyond it.

Enters: a loop nest that was found without copies. Leaves: `Staging`s to try, each of which makes a Func that blocks may
keep in shared memory, or threads in registers, or that is not there (targets/gpu/copies.hpp).
"""

from collections.abc import Sequence
from math import prod

from metol import _core
from metol._core import Staging
from metol.pipeline import PipelineDag

__all__ = ["propose_stagings"]

# Copies that are offered at once; each adds decisions to the search. The most expensive Stages come first.
_MOST = 3
# A copy reads each value once and stores it: it has to be read twice at least.
_LEAST_READS = 2
# The levels of the loops of a Stage (targets/gpu/kernels.hpp).
_THREADS, _POINTS = 1, 2


def propose_stagings(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int]
) -> tuple[Staging, ...]:
    """Return copies that may pay, at most three.

    Args:
        dag: The pipeline.
        schedules: A complete loop nest of it, one entry a Func.
        stages: Stage ids to look at, the most important first.
    """
    found: list[tuple[int, int]] = []
    for stage_id in stages:
        stage = dag.stages[stage_id]
        schedule = schedules[stage.func]
        is_ours = not (stage.is_extern or stage.is_undef) and len(schedule.stages) > stage.index
        for edge in stage.edges if is_ours else ():
            pair = (edge.producer, stage.func)
            is_new = _is_copyable(dag, schedules, edge.producer) and pair not in found
            if is_new and _is_shared(schedule.stages[stage.index], stage, edge):
                found.append(pair)
    return tuple(Staging(dag.funcs[func].origin, dag.funcs[consumer].origin) for func, consumer in found[:_MOST])


def _is_copyable(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], producer: int) -> bool:
    """Is it a Func that `in()` can be called on, and in global memory?"""
    func = dag.funcs[producer]
    is_at_root = func.is_input or schedules[producer].placement == _core.Placement.ROOT
    return producer < dag.real_func_count and not (func.is_output or func.is_wrapper) and is_at_root


def _is_shared(nest: _core.StageNest, stage: _core.Stage, edge: _core.Edge) -> bool:
    """Do several points of a block read the same?"""
    if stage.has_data_dependent_read:
        return False
    extents = [nest.levels[_THREADS][loop] * nest.levels[_POINTS][loop] for loop in range(len(stage.loops))]
    return any(access.count * _reads_of_a_value(access, extents) >= _LEAST_READS for access in edge.accesses)


def _reads_of_a_value(access: _core.Access, extents: Sequence[int]) -> int:
    """Iterations of the loops that do not move the place that is read."""
    return prod(
        extent
        for loop, extent in enumerate(extents)
        if all(row.is_known[loop] and row.numerator[loop] == 0 for row in access.jacobian)
    )
