"""From a finished loop nest to the directives that make Halide generate it on a GPU.

Enters: one FuncSchedule a Func. Leaves: Directives. Each Stage at root becomes one kernel; what is computed in its
blocks lies in shared memory, what is computed in its threads in registers. Every split is guarded, so that the result
is right at every size, and nothing outside of a buffer is touched. Source: Anderson et al. 2021, §4.7; Sioutas et al.
2020, §4.3.
"""

from collections.abc import Sequence, Set
from math import prod
from typing import TypeAlias

from metol import _core
from metol.lower.directive import Argument, Call, Directive, Loop, RVar, Site, Tail, Var
from metol.lower.guard_names import with_guards_named
from metol.pipeline import PipelineDag

__all__ = ["gpu_directives"]

# Dimensions of a grid of blocks, and of a block of threads.
_DIMENSIONS = 3
# CUDA counts at most 65535 blocks along the second and third dimension of a grid. A loop stays a dimension of its own
# where outputs may grow 16 times along it.
_MOST_BLOCKS = 65535 // 16
# Points of one thread that are unrolled, with the reduction loops whose ends are constants (Anderson et al. 2021, §4.7,
# has 16; a window of 5 by 5 is unrolled whole).
_MOST_UNROLLED = 32

# The levels of the loop nest of a Stage, as targets/gpu makes them.
_BLOCKS, _THREADS, _POINTS = 0, 1, 2

_Calls: TypeAlias = list[tuple[Call, tuple[Argument, ...]]]


def gpu_directives(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], on_host: Set[int] = frozenset()
) -> tuple[Directive, ...]:
    """Return the directives of a complete loop nest.

    Args:
        dag: The pipeline.
        schedules: One a Func, in the order of the DAG, none of them unscheduled.
        on_host: Funcs that the CPU computes, at root.
    """
    loops: dict[int, _StageLoops] = {}
    for schedule in schedules:
        is_in_thread = schedule.placement == _core.Placement.AT and schedule.compute.level == _THREADS
        for number, nest in zip(dag.funcs[schedule.func].stages, schedule.stages, strict=False):
            kind = _ThreadLoops if is_in_thread else _StageLoops
            loops[number] = kind(dag.stages[number], nest, is_root=schedule.placement == _core.Placement.ROOT)
    directives: list[Directive] = []
    for schedule in schedules:
        func = dag.funcs[schedule.func]
        if func.is_input or schedule.placement not in (_core.Placement.ROOT, _core.Placement.AT):
            continue
        directives.append(_place(dag, schedule, loops))
        if schedule.innermost_dim > 0:
            order = [schedule.innermost_dim, *(d for d in range(func.dimensions) if d != schedule.innermost_dim)]
            args = tuple(Var(func.args[d]) for d in order)
            directives.append(Directive(schedule.func, 0, Call.REORDER_STORAGE, args))
        for stage_id in func.stages:
            stage = dag.stages[stage_id]
            # Halide runs an extern stage on the CPU, and copies what comes of it; an undefined one has no code.
            if not stage.is_extern and not stage.is_undef and schedule.func not in on_host:
                directives += [Directive(stage.func, stage.index, *call) for call in loops[stage_id].calls()]
    return tuple(with_guards_named(dag, directives))


def _place(dag: PipelineDag, schedule: _core.FuncSchedule, loops: dict[int, "_StageLoops"]) -> Directive:
    if schedule.placement == _core.Placement.ROOT:
        return Directive(schedule.func, 0, Call.COMPUTE_ROOT)
    host = dag.stages[schedule.compute.stage]
    body = loops[schedule.compute.stage].body(schedule.compute.level)
    return Directive(schedule.func, 0, Call.COMPUTE_AT, (Site(host.func, host.index, body),))


class _StageLoops:
    """The loops of one Stage that has threads: how each is split, and in which order they nest."""

    def __init__(self, stage: _core.Stage, nest: _core.StageNest, *, is_root: bool) -> None:
        self._stage = stage
        self._nest = nest
        self._is_root = is_root
        self._suffix = f"_u{stage.index}" if stage.index else ""
        self._is_atomic = nest.vector_loop >= 0 and stage.loops[nest.vector_loop].is_reduction
        spread = [i for i, loop in enumerate(stage.loops) if loop.is_reduction == self._is_atomic]
        self._order = sorted(spread, key=lambda i: i != nest.vector_loop) if nest.vector_loop >= 0 else spread
        self._blocks = [(self._block(i), nest.levels[_BLOCKS][i]) for i in self._order]
        self._fusions, self._grid = self._make_grid()
        self._chunked = [i for i, loop in enumerate(stage.loops) if loop.is_reduction and self._has_chunks(i)]

    def _base(self, loop: int) -> str:
        return self._stage.loops[loop].name.replace("$", "_") + self._suffix

    def _has_threads(self, loop: int) -> bool:
        return self._nest.vector_loop == loop or self._nest.levels[_THREADS][loop] > 1

    def _points(self, loop: int) -> int:
        return self._nest.levels[_POINTS][loop]

    def _named(self, name: str) -> Loop:
        """A loop that this Stage is spread over; all are of one kind."""
        return RVar(name) if self._is_atomic else Var(name)

    def _whole(self, loop: int) -> Loop:
        return self._named(self._stage.loops[loop].name)

    def _part(self, loop: int, kind: str) -> Loop:
        return self._named(f"{self._base(loop)}_{kind}")

    def _block(self, loop: int) -> Loop:
        """The loop over blocks at root: the whole one where it has neither threads nor points."""
        is_whole = not self._has_threads(loop) and self._points(loop) == 1
        return self._whole(loop) if is_whole else self._part(loop, "block")

    def _thread(self, loop: int) -> Loop:
        """The loop over threads: inside a block it is the whole one where a thread has one point."""
        is_whole = not self._is_root and self._points(loop) == 1
        return self._whole(loop) if is_whole else self._part(loop, "thread")

    def _has_chunks(self, loop: int) -> bool:
        """Does a block go through this reduction loop in chunks, with what it shares computed anew for each?"""
        return not self._is_atomic and self._nest.levels[_BLOCKS][loop] > 1

    def _reduction(self, loop: int) -> Loop:
        """The part of a reduction loop that a thread runs without a barrier."""
        return RVar(f"{self._base(loop)}_rest" if self._has_chunks(loop) else self._stage.loops[loop].name)

    def _chunk(self, loop: int) -> Loop:
        return RVar(f"{self._base(loop)}_chunk")

    def body(self, level: int) -> Loop:
        """The innermost loop of a level, in whose body others can be computed."""
        if level == _BLOCKS:
            return self._chunk(self._chunked[0]) if self._chunked else self._grid[0]
        return self._thread(self._nest.vector_loop)

    def calls(self) -> _Calls:
        """Return the calls that make the Stage a kernel, or a part of one."""
        if self._nest.vector_loop < 0:
            return [(Call.GPU_SINGLE_THREAD, ())] if self._is_root else []
        calls: _Calls = [(Call.ATOMIC, ())] if self._is_atomic else []
        threads: list[Loop] = []
        points: list[Loop] = []
        serial: list[Loop] = []
        for loop in self._order:
            if not self._is_root and not self._has_threads(loop):
                serial.append(self._whole(loop))
                continue
            calls += self._splits(loop)
            if self._has_threads(loop):
                threads.append(self._thread(loop))
            if self._points(loop) > 1:
                points.append(self._part(loop, "point"))
        reductions: list[Loop] = [
            self._reduction(i) for i, loop in enumerate(self._stage.loops) if loop.is_reduction and not self._is_atomic
        ]
        for loop in self._chunked:
            whole, rest = RVar(self._stage.loops[loop].name), self._reduction(loop)
            calls.append((Call.SPLIT, (whole, self._chunk(loop), rest, self._points(loop), Tail.GUARD_WITH_IF)))
        grid = self._grid if self._is_root else []
        calls += self._fusions if self._is_root else []
        order = [*points, *reductions, *serial, *threads, *map(self._chunk, self._chunked), *grid]
        if len(order) > 1:
            calls.append((Call.REORDER, tuple(order)))
        if grid:
            calls.append((Call.GPU_BLOCKS, tuple(grid)))
        calls.append((Call.GPU_THREADS, tuple(threads)))
        return calls + [(Call.UNROLL, (loop,)) for loop in [*points, *self._unrolled_reductions()]]

    def _splits(self, loop: int) -> _Calls:
        name, points = self._whole(loop), self._points(loop)
        thread, point = self._thread(loop), self._part(loop, "point")
        if not self._is_root:
            return [(Call.SPLIT, (name, thread, point, points, Tail.GUARD_WITH_IF))] if points > 1 else []
        block = self._block(loop)
        if not self._has_threads(loop):
            return [(Call.SPLIT, (name, block, point, points, Tail.GUARD_WITH_IF))] if points > 1 else []
        count = self._nest.levels[_THREADS][loop]
        if points == 1:
            return [(Call.SPLIT, (name, block, thread, count, Tail.GUARD_WITH_IF))]
        tile = self._part(loop, "tile")
        return [
            (Call.SPLIT, (name, block, tile, count * points, Tail.GUARD_WITH_IF)),
            (Call.SPLIT, (tile, thread, point, points, Tail.GUARD_WITH_IF)),
        ]

    def _unrolled_reductions(self) -> list[Loop]:
        """Reduction loops from the innermost on, as long as all that is unrolled stays short."""
        loops: list[Loop] = []
        if self._is_atomic:
            return loops
        unrolled = prod(self._points(loop) for loop in self._order)
        for i, loop in enumerate(self._stage.loops):
            if not loop.is_reduction:
                continue
            unrolled *= self._points(i)
            if not loop.has_constant_extent or unrolled > _MOST_UNROLLED:
                break
            loops.append(self._reduction(i))
        return loops

    def _make_grid(self) -> tuple[_Calls, list[Loop]]:
        """Return the calls that fuse all other loops into the first, and the loops that are dimensions of the grid.

        The first dimension holds any number of blocks; a loop becomes one of the others only where it may grow.
        """
        grid: list[Loop] = []
        calls: _Calls = []
        for loop, count in self._blocks:
            if not grid or (len(grid) < _DIMENSIONS and count <= _MOST_BLOCKS):
                grid.append(loop)
            else:
                fused = self._named(f"blocks_{len(calls)}{self._suffix}")
                calls.append((Call.FUSE, (grid[0], loop, fused)))
                grid[0] = fused
        return calls, grid


class _ThreadLoops(_StageLoops):
    """The loops of a Stage that each thread runs by itself: unrolled where they are short, to stay in registers."""

    def calls(self) -> _Calls:
        """Return the calls that unroll the loops, all of which have ends that Halide knows."""
        turning = [i for i in self._order if self._points(i) > 1]
        if prod(self._points(i) for i in turning) > _MOST_UNROLLED:
            return []
        reductions = self._unrolled_reductions()
        points: list[Loop] = [self._whole(i) for i in turning]
        return [(Call.UNROLL, (loop,)) for loop in [*points, *reductions]]
