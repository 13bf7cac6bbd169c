"""What to copy for which consumer on a CPU: what is read again and again from beyond a cache, or across its rows.

Enters: a loop nest that was found without copies. Leaves: `Staging`s to try, each of which makes a Func that may be
computed anywhere, in any order in memory, or not at all.
"""

from collections.abc import Sequence
from math import prod

from metol import _core
from metol._core import Staging
from metol.pipeline import PipelineDag
from metol.targets.cpu.machine import CpuMachine

__all__ = ["propose_stagings"]

# Copies that are offered at once; each adds decisions to the search. The most expensive Stages come first.
_MOST = 3
# A value must be read so often for a copy, which reads and writes it once more, to pay.
_LEAST_READS = 4


def propose_stagings(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int], machine: CpuMachine
) -> tuple[Staging, ...]:
    """Return copies that may pay, at most three.

    Args:
        dag: The pipeline.
        schedules: A complete loop nest of it, one entry a Func.
        stages: Stage ids to look at, the most important first.
        machine: The machine.
    """
    found: list[tuple[int, int]] = []
    for stage_id in stages:
        stage = dag.stages[stage_id]
        schedule = schedules[stage.func]
        is_ours = not (stage.is_extern or stage.is_undef) and len(schedule.stages) > stage.index
        for edge in stage.edges if is_ours else ():
            pair = (edge.producer, stage.func)
            is_copyable = _is_copyable(dag, schedules, edge.producer) and pair not in found
            if is_copyable and _pays(dag, schedule.stages[stage.index], stage, edge, machine):
                found.append(pair)
    return tuple(Staging(dag.funcs[func].origin, dag.funcs[consumer].origin) for func, consumer in found[:_MOST])


def _is_copyable(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], producer: int) -> bool:
    """Is it a Func that `in()` can be called on, and in memory beyond all loops?"""
    func = dag.funcs[producer]
    is_at_root = func.is_input or schedules[producer].placement == _core.Placement.ROOT
    return producer < dag.real_func_count and not (func.is_output or func.is_wrapper) and is_at_root


def _pays(dag: PipelineDag, nest: _core.StageNest, stage: _core.Stage, edge: _core.Edge, machine: CpuMachine) -> bool:
    """Is it larger than the first cache, and read either many times or across its rows?"""
    producer = dag.funcs[edge.producer]
    points = prod(side.extent for side in producer.root_region)
    if points * producer.bytes_per_point <= machine.l1_bytes or stage.has_data_dependent_read:
        return False
    extents = [prod(level[loop] for level in nest.levels) for loop in range(len(stage.loops))]
    return any(
        _reads_of_a_value(access, extents) >= _LEAST_READS or _is_across_rows(access, nest.vector_loop, nest)
        for access in edge.accesses
    )


def _reads_of_a_value(access: _core.Access, extents: Sequence[int]) -> int:
    """Iterations of the loops that do not move the place that is read."""
    return prod(
        extent
        for loop, extent in enumerate(extents)
        if all(row.is_known[loop] and row.numerator[loop] == 0 for row in access.jacobian)
    )


def _is_across_rows(access: _core.Access, loop: int, nest: _core.StageNest) -> bool:
    """Do the lanes of a vector read from different rows?"""
    if nest.vector_width == 1:
        return False
    return any(not row.is_known[loop] or row.numerator[loop] != 0 for row in access.jacobian[1:])
