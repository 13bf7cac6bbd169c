"""From a finished loop nest to the directives that make Halide generate it on a CPU.

Enters: one FuncSchedule a Func. Leaves: Directives. Every loop is split from the outside in, so that only its first
split can leave a remainder; which tail that split gets is what keeps the result right at every output size.
"""

from collections.abc import Iterator, Sequence

from metol import _core
from metol.lower.directive import Argument, Call, Directive, Site, Var
from metol.lower.fixed_sides import fixed_sides
from metol.lower.guard_names import with_guards_named
from metol.lower.lowering_options import NO_PROMISES, LoweringOptions
from metol.lower.nest_facts import facts_of_nests, storage_order
from metol.lower.nest_loops import StageLoops
from metol.lower.panels import panel_widths
from metol.lower.tails import OutputSize, TailRule
from metol.pipeline import PipelineDag

__all__ = ["cpu_directives"]


def cpu_directives(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], options: LoweringOptions = NO_PROMISES
) -> tuple[Directive, ...]:
    """Return the directives of a complete loop nest.

    Args:
        dag: The pipeline.
        schedules: One a Func, in the order of the DAG, none of them unscheduled.
        options: What the user promised about the outputs.
    """
    facts = facts_of_nests(dag, schedules)
    orders, whole_levels, picking, loops_in_lanes = _core.cpu_loop_plans(dag, schedules)
    nests = {
        stage: StageLoops(
            dag,
            stage,
            schedule.stages[position],
            tile_order=() if schedule.func in facts.share_loops else orders[stage],
            whole_levels=whole_levels[stage],
            shares_loops=schedule.func in facts.share_loops,
        )
        for schedule in schedules
        for position, stage in enumerate(dag.funcs[schedule.func].stages[: len(schedule.stages)])
    }
    for stage, loops in nests.items():
        loops.loop_in_lanes = loops_in_lanes[stage]
    tails = TailRule(dag, facts, options)
    size = OutputSize.ESTIMATED if options.fixed_sizes else OutputSize.ANY
    for loops in nests.values():
        loops.keep_guarded_tasks_apart(tails, size)
    if options.specialize_estimate:
        for guest in (s for s in schedules if s.placement == _core.Placement.AT):
            for site in (guest.compute, guest.store):
                if not site.is_root:
                    nests[site.stage].guest_levels.add(site.level)
        for stage, loops in nests.items():
            if dag.funcs[loops.stage.func].is_output:
                loops.picking_loops = frozenset(picking[stage])
    if options.specialize_estimate or options.fixed_sizes:
        for loops in nests.values():
            if tails.has_two_versions(loops.stage) and not loops.stage.is_extern:
                loops.panels = panel_widths(dag, schedules, loops.stage)
    for guest in (s for s in schedules if s.placement == _core.Placement.AT):
        nests[guest.compute.stage].is_host = True
        for stage in dag.funcs[guest.func].stages[: len(guest.stages)]:
            nests[stage].is_inside = True
    windowed = {s.compute.stage for s in schedules if s.slide_dim >= 0}
    for guest in (s for s in schedules if s.placement == _core.Placement.AT and s.compute.stage not in windowed):
        host = nests[guest.compute.stage]
        # Only where all tasks are one loop.
        if (
            host.is_inside
            and not options.fixed_sizes
            and any(outer.fused is not None for outer in _hosts(schedules, guest, nests))
        ):
            host.split_whole_loops(guest.compute.level)
    for window in (s for s in schedules if s.slide_dim >= 0):
        nests[window.compute.stage].hold_window(window.compute.level)
    directives: list[Directive] = []
    for schedule in schedules:
        func = dag.funcs[schedule.func]
        if (
            func.is_input
            or func.origin in options.kept
            or schedule.placement in (_core.Placement.INLINE, _core.Placement.UNSCHEDULED)
        ):
            continue
        directives += _placement(dag, schedules, schedule, nests)
        if options.fixed_sizes and func.is_output:
            directives += fixed_sides(dag, schedule.func)
        for stage in func.stages:
            if dag.stages[stage].is_undef or dag.stages[stage].is_extern:
                continue
            if options.fixed_sizes:
                directives += nests[stage].version(tails, size)
            else:
                directives += nests[stage].versions(tails)
            if nests[stage].nest.leader >= 0:
                directives.append(_shared_loops(nests, stage))
            if func.joint:
                directives.append(nests[stage].with_itself())
    return tuple(with_guards_named(dag, directives, tails.share_loops))


def _placement(
    dag: PipelineDag,
    schedules: Sequence[_core.FuncSchedule],
    schedule: _core.FuncSchedule,
    nests: dict[int, StageLoops],
) -> tuple[Directive, ...]:
    """Where a Func is computed and stored, and how its storage is laid out."""

    def site(where: _core.Site) -> Site:
        stage = dag.stages[where.stage]
        return Site(stage.func, stage.index, nests[where.stage].body(where.level))

    func = dag.funcs[schedule.func]
    calls: list[tuple[Call, tuple[Argument, ...]]] = []
    if schedule.placement == _core.Placement.ROOT:
        calls.append((Call.COMPUTE_ROOT, ()))
    else:
        if schedule.slide_dim >= 0:
            is_root = schedule.store.is_root
            calls.append((Call.STORE_ROOT, ()) if is_root else (Call.STORE_AT, (site(schedule.store),)))
        calls.append((Call.COMPUTE_AT, (site(schedule.compute),)))
    if schedule.storage == _core.Storage.STACK:
        calls.append((Call.STORE_IN, ("Stack",)))
    elif schedule.storage == _core.Storage.HOISTED:
        calls.append((Call.HOIST_STORAGE, (_task_body(schedules, schedule, nests),)))
    if order := storage_order(func, schedule):
        calls.append((Call.REORDER_STORAGE, order))
    if schedule.row_alignment > 1:
        calls.append((Call.ALIGN_STORAGE, (Var(func.args[schedule.innermost_dim]), schedule.row_alignment)))
    return tuple(Directive(schedule.func, 0, call, args) for call, args in calls)


def _shared_loops(nests: dict[int, StageLoops], follower: int) -> Directive:
    """The follower runs in the loops of its leader, down to the body of the level that they share."""
    own, leader = nests[follower], nests[nests[follower].nest.leader]
    site = Site(leader.stage.func, leader.stage.index, leader.body(own.nest.shared_level))
    return Directive(own.stage.func, own.stage.index, Call.COMPUTE_WITH, (site,))


def _hosts(
    schedules: Sequence[_core.FuncSchedule], schedule: _core.FuncSchedule, nests: dict[int, StageLoops]
) -> Iterator[StageLoops]:
    """The loops that a Func is computed in, from the innermost Stage to that of a Func at root."""
    while schedule.placement == _core.Placement.AT:
        host = nests[schedule.compute.stage]
        yield host
        schedule = schedules[host.stage.func]


def _task_body(
    schedules: Sequence[_core.FuncSchedule], schedule: _core.FuncSchedule, nests: dict[int, StageLoops]
) -> Site:
    """The body of the parallel loop around a Func computed inside others, or the root."""
    func = schedule.func
    for host in _hosts(schedules, schedule, nests):
        func = host.stage.func
        if host.nest.is_parallel:
            return Site(func, host.stage.index, host.body(0))
    return Site(func, 0, None)
