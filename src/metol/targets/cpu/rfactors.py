"""Which updates to compute in two steps on a CPU: reductions that otherwise run on one thread, or lane by lane.

Enters: a loop nest that was found without. Leaves: `Rfactor`s to try, each of which makes a Func that the search treats
as any other. Adams et al. 2019, §3.3, names `rfactor` among what that system leaves out.
"""

from collections.abc import Sequence
from math import ceil, prod

from metol import _core
from metol._core import Rfactor
from metol.pipeline import PipelineDag
from metol.targets.cpu.machine import CpuMachine
from metol.targets.rfactor_plan import RfactorPlan, can_be_rfactored

__all__ = ["propose_rfactors"]

# Partial results for each core: enough that the last to end is not waited for long.
_TASKS_PER_CORE = 4
# Below so many points of the reduction a second step does not pay.
_LEAST_POINTS = 256
# Vectors of partial results: one, or enough to hide the latency of an addition.
_ACCUMULATORS = (1, 4)


def propose_rfactors(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int], machine: CpuMachine
) -> tuple[Rfactor, ...]:
    """Return ways to compute some updates in two steps.

    Args:
        dag: The pipeline.
        schedules: A complete loop nest of it, one entry a Func.
        stages: Stage ids to look at, the most important first.
        machine: The machine.
    """
    return tuple(rfactor for stage in stages for rfactor in _of_update(dag, schedules, stage, machine))


def _of_update(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage_id: int, machine: CpuMachine
) -> list[Rfactor]:
    stage = dag.stages[stage_id]
    schedule = schedules[stage.func]
    if not can_be_rfactored(stage, schedule):
        return []
    nest = schedule.stages[stage.index]
    extents = [prod(level[loop] for level in nest.levels) for loop in range(len(stage.loops))]
    reductions = [number for number, loop in enumerate(stage.loops) if loop.is_reduction]
    if prod(extents) < _LEAST_POINTS:
        return []
    lanes = max(1, machine.vector_bytes // stage.narrowest_bytes)
    is_serial = not nest.is_parallel and machine.cores > 1
    is_scalar = nest.vector_width == 1 and not stage.has_data_dependent_write
    plans: list[tuple[bool, int]] = [(True, 0)] if is_serial else []
    if is_scalar and extents[reductions[0]] >= 2 * lanes:
        plans += [(parallel, lanes * many) for parallel in sorted({False, is_serial}) for many in _ACCUMULATORS]
    made = (
        _make(dag, stage, extents, machine.cores, is_parallel=is_parallel, width=width) for is_parallel, width in plans
    )
    return [rfactor for rfactor in made if rfactor is not None]


def _make(
    dag: PipelineDag, stage: _core.Stage, extents: Sequence[int], cores: int, *, is_parallel: bool, width: int
) -> Rfactor | None:
    """Keep the innermost `width` points of the innermost loop, tasks of the outermost, or both."""
    plan = RfactorPlan.of(dag, stage)
    left = [extent for extent, loop in zip(extents, stage.loops, strict=True) if loop.is_reduction]
    inner, outer = 0, len(left) - 1
    if width > 0:
        plan.keep_inner(inner, width)
        left[inner] = ceil(left[inner] / width)
    if is_parallel:
        tasks = cores * _TASKS_PER_CORE
        if left[outer] < 2 or (width > 0 and left[outer] < tasks):
            return None
        if left[outer] <= 2 * tasks:
            plan.keep(outer)
        else:
            plan.keep_outer(outer, ceil(left[outer] / tasks))
    return plan.rfactor
