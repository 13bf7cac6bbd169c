"""Which updates to compute in two steps on a CPU: reductions that otherwise run on one thread, or lane by lane.

Enters: a loop nest that was found without. Leaves: `Rfactor`s to try, each of which makes a Func that the search treats
as any other. Adams et al. 2019, §3.3, names `rfactor` among what that system leaves out.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
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
# Fewer partial results side by side are no vector.
_LEAST_ROW = 4
# Of a sum of products of narrow numbers.
_SUM_BYTES = 4
# Lanes further apart are loaded one by one.
_FAR_APART = _core.CPU_MOST_DENSE_STRIDE
# Updates that are rewritten at once: those of a normalization are two.
_MOST_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class _Plan:
    """How an update is to be computed in steps."""

    is_parallel: bool = False
    """Whether tasks have partial results."""
    width: int = 0
    """How many partial results are side by side."""
    steps: int = 1
    """Points that follow each other in each of these, before the next has its own."""
    has_own_sum: bool = False
    """Whether what they add up to is a Func of its own, which may be computed inside."""


def propose_rfactors(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int], machine: CpuMachine
) -> tuple[tuple[Rfactor, ...], ...]:
    """Return ways to compute some updates in two steps: each by itself, and those that are alike all together.

    Args:
        dag: The pipeline.
        schedules: A complete loop nest of it, one entry a Func.
        stages: Stage ids to look at, the most important first.
        machine: The machine.
    """
    alike: dict[_Plan, list[tuple[Rfactor, ...]]] = defaultdict(list)
    for stage in stages:
        for plan, rfactors in _of_update(dag, schedules, stage, machine).items():
            alike[plan].append(rfactors)
    alone = [rfactors for updates in alike.values() for rfactors in updates]
    # One that is rewritten by itself gains little where the other, which reads the same rows, keeps it from their loop.
    together = [tuple(chain(*updates)) for updates in alike.values() if 1 < len(updates) <= _MOST_TOGETHER]
    return tuple(alone + together)


def _of_update(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage_id: int, machine: CpuMachine
) -> dict[_Plan, tuple[Rfactor, ...]]:
    """Ways to compute one update in two steps, or in three where what they add up to is a Func of its own."""
    stage = dag.stages[stage_id]
    schedule = schedules[stage.func]
    # Where values tell what is read, vectors load lane by lane, and a lane by itself ends where its values say.
    has_lanes = not stage.has_data_dependent_read
    if not can_be_rfactored(stage, schedule, inside=True, in_whole_parts=has_lanes):
        return {}
    nest = schedule.stages[stage.index]
    extents = [prod(level[loop] for level in nest.levels) for loop in range(len(stage.loops))]
    reductions = [number for number, loop in enumerate(stage.loops) if loop.is_reduction]
    if prod(extents) < _LEAST_POINTS:
        return {}
    lanes = max(1, machine.vector_bytes // stage.narrowest_bytes)
    is_at_root = schedule.placement == _core.Placement.ROOT
    is_serial = is_at_root and not nest.is_parallel and machine.cores > 1
    # Inside others a scalar sum is as good as what it is inside of.
    is_lane_by_lane = is_at_root if nest.vector_width == 1 else _gathers(dag, schedules, stage, nest.vector_loop)
    is_scalar = is_lane_by_lane and not stage.has_data_dependent_write
    # What Halide takes for aligned has no vectors; partial results of it have.
    has_no_vectors = dag.funcs[stage.func].is_taken_for_aligned(by_itself=True)
    is_barred = has_no_vectors and stage.has_loading_condition and has_lanes
    plans = [_Plan(is_parallel=True)] if is_serial or is_barred else []
    # Results of every so-many-th point are merged in another order.
    if is_scalar and stage.is_commutative:
        widths = _widths([extents[number] for number in reductions], lanes)
        plans += [_Plan(parallel, width) for parallel in sorted({False, is_serial}) for width in widths]
    # Halide makes atomic additions of lanes in loops that are parallel themselves, as those of an output.
    is_output = dag.funcs[stage.func].is_output
    dots = _dots(dag, stage, machine)
    plans += [_Plan(parallel, *dot, is_output) for parallel in sorted({False, is_serial}) for dot in dots]
    made = {plan: _make(dag, stage, extents, machine.cores, plan) for plan in plans}
    return {plan: rfactors for plan, rfactors in made.items() if rfactors}


def _widths(extents: Sequence[int], lanes: int) -> list[int]:
    """How many partial results may be side by side: some vectors, or all of a short row that is one of several."""
    if extents[0] >= 2 * lanes:
        return [lanes * many for many in _ACCUMULATORS]
    return [extents[0]] if extents[0] >= _LEAST_ROW and len(extents) > 1 else []


def _dots(dag: PipelineDag, stage: _core.Stage, machine: CpuMachine) -> list[tuple[int, int]]:
    """How many partial results of how many products each an instruction adds up, of a sum along rows; or none.

    Halide makes no vectors of steps that are lanes under a condition: there may be no rest.
    """
    steps = machine.dot_steps(stage.lane_bytes)
    number = next(number for number, loop in enumerate(stage.loops) if loop.is_reduction)
    loop = stage.loops[number]
    if steps < 2 or not loop.has_constant_extent or not _is_along_rows(dag, stage, number):
        return []
    extent = loop.bounds.max.constant - loop.bounds.min.constant + 1
    lanes = machine.vector_bytes // _SUM_BYTES
    while lanes >= _LEAST_ROW and extent % (lanes * steps):
        lanes //= 2
    return [(lanes, steps)] if lanes >= _LEAST_ROW else []


def _is_along_rows(dag: PipelineDag, stage: _core.Stage, loop: int) -> bool:
    """Whether the steps of a loop read neighbours in inputs, or one place for all."""
    return all(
        row.is_known[loop] and row.numerator[loop] == (row.denominator[loop] if dim == producer.dense_dim else 0)
        for edge in stage.edges
        if (producer := dag.funcs[edge.producer]).is_input
        for access in edge.accesses
        for dim, row in enumerate(access.jacobian)
        if row.numerator[loop] != 0 or not row.is_known[loop]
    )


def _gathers(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage: _core.Stage, vector_loop: int) -> bool:
    """Whether the lanes of a vector load from different rows, as of a sum along each row, or far apart in one."""

    def is_across(edge: _core.Edge, dim: int) -> bool:
        producer = dag.funcs[edge.producer]
        # Neighbours along rows are neighbours of interleaved channels, too.
        rows = (producer.row_dim, producer.dense_dim) if producer.interleaved > 1 else (producer.dense_dim,)
        return dim not in rows if producer.is_input else dim != schedules[edge.producer].innermost_dim

    return any(
        row.is_known[vector_loop]
        and row.numerator[vector_loop] != 0
        and (is_across(edge, dim) or abs(row.numerator[vector_loop] / row.denominator[vector_loop]) > _FAR_APART)
        for edge in stage.edges
        for access in edge.accesses
        for dim, row in enumerate(access.jacobian)
    )


def _make(
    dag: PipelineDag, stage: _core.Stage, extents: Sequence[int], cores: int, wanted: _Plan
) -> tuple[Rfactor, ...]:
    """Keep the innermost `width` points of the innermost loop, or lanes of several, tasks of the outermost, or both."""
    plan = RfactorPlan.of(dag, stage)
    loops = [(loop, extent) for loop, extent in zip(stage.loops, extents, strict=True) if loop.is_reduction]
    left = [extent for _, extent in loops]
    inner, outer = 0, len(left) - 1
    # A guard where the last part ends is reckoned out together with the condition: what that reads is then not inside.
    in_whole_parts = stage.ends_by_point
    if in_whole_parts and not all(loops[number][0].has_constant_extent for number in {inner, outer}):
        return ()
    if wanted.width > 0:
        points = wanted.width * wanted.steps
        if in_whole_parts and left[inner] % points:
            return ()
        is_whole = left[inner] == points and loops[inner][0].has_constant_extent
        if is_whole and wanted.steps > 1:
            plan.keep_outer(inner, wanted.steps)
        elif is_whole:
            plan.keep(inner)
        elif wanted.steps > 1:
            plan.keep_middle(inner, wanted.width, wanted.steps)
        else:
            plan.keep_inner(inner, wanted.width)
        left[inner] = ceil(left[inner] / points)
        if prod(left) < 2:
            return ()  # nothing would be left to reduce
    if wanted.is_parallel:
        tasks = cores * _TASKS_PER_CORE
        if left[outer] < 2 or (wanted.width > 0 and left[outer] < tasks):
            return ()
        part = ceil(left[outer] / tasks)
        if in_whole_parts:
            part = next(size for size in range(part, left[outer] + 1) if left[outer] % size == 0)
        if left[outer] <= 2 * tasks:
            if prod(left) == left[outer] and stage.lane_bytes == _core.VALUE_BYTES:
                return ()  # each partial result would be a copy of what is there
            plan.keep(outer)
        else:
            plan.keep_outer(outer, part)
    return (plan.rfactor, plan.merge().rfactor) if wanted.has_own_sum else (plan.rfactor,)
