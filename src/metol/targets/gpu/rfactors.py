"""Which updates to compute in two steps on a GPU: reductions with too few points of their own for its threads.

Enters: a loop nest that was found without. Leaves: `Rfactor`s to try. The loops over partial results are pure loops of
the Func that each makes, so blocks and threads like any other; neighbouring threads take neighbouring places of what is
reduced, unless the order of a reduction matters: then each takes places that follow each other. The update merges what
they found, and is proposed for two steps itself where that is still much. Anderson et al. 2021, §6.5 and §8, name
`rfactor` and `atomic` for histograms as what that system lacks.
"""

from collections.abc import Sequence
from math import ceil, isqrt, prod

from metol import _core
from metol._core import Rfactor
from metol.pipeline import PipelineDag
from metol.targets.gpu.host_funcs import host_funcs
from metol.targets.gpu.machine import GpuMachine
from metol.targets.rfactor_plan import RfactorPlan, can_be_rfactored

__all__ = ["propose_rfactors"]

# Below so many points of a reduction one more kernel costs more than all of it.
_LEAST_POINTS = 256
# Of the threads that hide the latency of a device, the share that partial results may be for: fewer are merged sooner.
_SHARES = (1, 8)
# Partial results of neighbouring places: two warps, or a usual block.
_NEIGHBOURS = (64, 256)
# Points that a partial result is made of at least, and points of the reduction for each value that is merged.
_LEAST_MERGED = 4
# From so many partial results on, one thread that merges all may take longer than the kernel of another step.
_LEAST_IN_THREE_STEPS = 512


def propose_rfactors(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int], machine: GpuMachine
) -> tuple[tuple[Rfactor, ...], ...]:
    """Return ways to compute some updates in two steps, or in three.

    Args:
        dag: The pipeline.
        schedules: A complete loop nest of it, one entry a Func.
        stages: Stage ids to look at, the most important first.
        machine: The machine.
    """
    on_host = host_funcs(machine, dag)
    ours = [stage for stage in stages if dag.stages[stage].func not in on_host]
    return tuple(rfactors for stage in ours for rfactors in _of_update(dag, schedules, stage, machine))


def _of_update(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage_id: int, machine: GpuMachine
) -> list[tuple[Rfactor, ...]]:
    stage = dag.stages[stage_id]
    schedule = schedules[stage.func]
    # Inside the one Func that reads it an update saves a kernel, and has no more threads than that.
    if not can_be_rfactored(stage, schedule, inside=True):
        return []
    nest = schedule.stages[stage.index]
    all_extents = [prod(level[loop] for level in nest.levels) for loop in range(len(stage.loops))]
    extents = [extent for extent, loop in zip(all_extents, stage.loops, strict=True) if loop.is_reduction]
    reduced = prod(extents)
    # The loops of one inside another are about a part of it.
    region = [interval.extent for interval in dag.funcs[stage.func].root_region]
    pure = prod(
        extent if loop.is_rvar else region[loop.pure_dim]
        for extent, loop in zip(all_extents, stage.loops, strict=True)
        if not loop.is_reduction
    )
    threads = int(machine.multiprocessors * machine.warps_to_hide_latency * machine.warp_threads)
    if reduced < _LEAST_POINTS or pure >= threads:
        return []
    # A histogram has a whole Func of partial results for each thread, a sum one value.
    most = min(reduced, reduced * pure // prod(region)) // _LEAST_MERGED
    counts = {*(threads // pure // share for share in _SHARES), isqrt(reduced), *_NEIGHBOURS}
    wanted = [(neighbours, partials) for partials in sorted(counts) for neighbours in _NEIGHBOURS if partials > 1]
    in_order = not stage.is_commutative
    shapes = dict.fromkeys(_shape(extents, *each, in_order=in_order) for each in wanted)
    fitting = [shape for shape in shapes if 1 < prod(shape) <= most]
    is_serial = nest.vector_loop < 0
    plans = [(_kept(RfactorPlan.of(dag, stage), extents, shape, in_order=in_order), shape) for shape in fitting]
    return [(plan.rfactor,) for plan, _ in plans] + [
        (plan.rfactor, _merged(plan, shape, in_order=in_order).rfactor)
        for plan, shape in plans
        if is_serial and prod(shape) >= _LEAST_IN_THREE_STEPS
    ]


def _shape(extents: Sequence[int], neighbours: int, partials: int, *, in_order: bool) -> tuple[int, ...]:
    """Return how many partial results lie along each loop: neighbours from the innermost on, the rest from outside.

    A loop with room for all is not shared with the next, and the last takes what is left. In order all come from
    outside, and one loop after the other is taken whole.
    """
    widths = [1] * len(extents)
    inwards = range(len(extents) - 1, -1, -1)
    if in_order:
        for loop in inwards:
            most = min(partials, extents[loop])
            partials = ceil(partials / most) if most == extents[loop] else 1
            widths[loop] = ceil(extents[loop] / ceil(extents[loop] / most))  # so many parts of equal length there are
        return tuple(widths)
    for order, wanted in ((range(len(extents)), min(neighbours, partials)), (inwards, ceil(partials / neighbours))):
        left = wanted
        for loop in order:
            taken = min(left, ceil(extents[loop] / widths[loop]))
            widths[loop] = min(widths[loop] * taken, extents[loop])
            left = ceil(left / taken)
    return tuple(widths)


def _kept(plan: RfactorPlan, extents: Sequence[int], shape: Sequence[int], *, in_order: bool) -> RfactorPlan:
    """Keep every so-many-th iteration of each loop: as many partial results at any size, of neighbouring places.

    In order they are of iterations that follow each other.
    """
    for loop, (extent, width) in enumerate(zip(extents, shape, strict=True)):
        if 1 < width < extent and in_order:
            plan.keep_outer(loop, ceil(extent / width))
        elif 1 < width < extent:
            plan.keep_inner(loop, width)
        elif width > 1:
            plan.keep(loop)
    return plan


def _merged(plan: RfactorPlan, shape: Sequence[int], *, in_order: bool) -> RfactorPlan:
    """Merge partial results in two steps that take about as long."""
    extents = [width for width in shape if width > 1]
    partials = isqrt(prod(extents))
    merged = _shape(extents, partials, partials, in_order=in_order)
    return _kept(plan.merge(), extents, merged, in_order=in_order)
