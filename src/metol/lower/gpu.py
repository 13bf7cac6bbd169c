"""From a finished loop nest to the directives that make Halide generate it on a GPU.

Enters: one FuncSchedule a Func. Leaves: Directives. Each Stage at root becomes one kernel; what is computed in its
blocks lies in shared memory, what is computed in its threads in registers. Tails are right at every size (tails.py): an
output gets a kernel for sizes of at least a block, whose last blocks are shifted inwards, and a guarded one for smaller
sizes. Without guards all that lies inside a block has a constant size, and sums of several points stay in registers.
Source: Anderson et al. 2021, §4.7; Sioutas et al. 2020, §4.3.
"""

from collections.abc import Callable, Sequence, Set
from math import prod
from typing import TypeAlias

from metol import _core
from metol.lower.directive import Argument, Call, Directive, Loop, RVar, Site, Tail, Var
from metol.lower.fixed_sides import fixed_sides
from metol.lower.guard_names import with_guards_named
from metol.lower.loop_names import free_base, loop_bases, whole_loop
from metol.lower.lowering_options import NO_PROMISES, LoweringOptions
from metol.lower.nest_facts import facts_of_nests, storage_order
from metol.lower.tails import OutputSize, TailRule
from metol.pipeline import PipelineDag

__all__ = ["gpu_directives"]

# Dimensions of a grid of blocks, and of a block of threads.
_DIMENSIONS = 3
# CUDA counts at most 65535 blocks along the second and third dimension of a grid. A loop stays a dimension of its own
# where outputs may grow 16 times along it.
_MOST_BLOCKS = 65535 // 16

# The levels of the loop nest of a Stage, as targets/gpu makes them.
_BLOCKS, _THREADS, _POINTS = 0, 1, 2

_Calls: TypeAlias = list[tuple[Call, tuple[Argument, ...]]]
_FirstTail: TypeAlias = Callable[[int, int], Tail]
"""From a loop of a Stage and the factor of its first split to the tail of that."""


def gpu_directives(
    dag: PipelineDag,
    schedules: Sequence[_core.FuncSchedule],
    on_host: Set[int] = frozenset(),
    options: LoweringOptions = NO_PROMISES,
) -> tuple[Directive, ...]:
    """Return the directives of a complete loop nest.

    Args:
        dag: The pipeline.
        schedules: One a Func, in the order of the DAG, none of them unscheduled.
        on_host: Funcs that the CPU computes, at root.
        options: What the user promised about the outputs. A version for the estimated size beside others is not made:
            the kernel for sizes of at least a block has constant sizes inside.
    """
    tails = TailRule(dag, facts_of_nests(dag, schedules), options)
    loops: dict[int, _StageLoops] = {}
    hosts = {schedule.compute.stage for schedule in schedules if _is_in_thread(schedule)}
    for schedule in schedules:
        kind = _ThreadLoops if _is_in_thread(schedule) else _StageLoops
        is_root = schedule.placement == _core.Placement.ROOT
        for number, nest in zip(dag.funcs[schedule.func].stages, schedule.stages, strict=False):
            loops[number] = kind(dag.stages[number], nest, is_root=is_root, is_host=number in hosts)
    padding = _padding(dag, schedules)
    directives: list[Directive] = []
    for schedule in schedules:
        func = dag.funcs[schedule.func]
        is_placed = schedule.placement in (_core.Placement.ROOT, _core.Placement.AT)
        if func.is_input or func.origin in options.kept or not is_placed:
            continue
        directives.append(_place(dag, schedule, loops))
        if order := storage_order(func, schedule):
            directives.append(Directive(schedule.func, 0, Call.REORDER_STORAGE, order))
        if _is_in_thread(schedule):
            directives += _bounds_of_registers(dag, schedule)
        directives += padding.get(schedule.func, [])
        for stage_id in func.stages:
            stage = dag.stages[stage_id]
            # Halide runs an extern stage on the CPU, and copies what comes of it; an undefined one has no code.
            if not stage.is_extern and not stage.is_undef and schedule.func not in on_host:
                made = loops[stage_id]
                directives += made.fixed_version(tails) if options.fixed_sizes else made.versions(tails)
        if options.fixed_sizes and func.is_output:
            directives += fixed_sides(dag, schedule.func)
    return tuple(with_guards_named(dag, directives))


def _place(dag: PipelineDag, schedule: _core.FuncSchedule, loops: dict[int, "_StageLoops"]) -> Directive:
    if schedule.placement == _core.Placement.ROOT:
        return Directive(schedule.func, 0, Call.COMPUTE_ROOT)
    host = dag.stages[schedule.compute.stage]
    body = loops[schedule.compute.stage].body(schedule.compute.level)
    return Directive(schedule.func, 0, Call.COMPUTE_AT, (Site(host.func, host.index, body),))


def _padding(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule]) -> dict[int, list[Directive]]:
    """Return, by Func, how rows in shared memory are padded to whole words of the widest type in their kernel.

    Halide 21 places each Func at such a word, and allocates what all take together, rounded up once: the last would
    reach beyond, and where Halide knows that, it leaves out all that comes to it.
    """
    shared: dict[int, list[_core.FuncSchedule]] = {}
    for schedule in schedules:
        if schedule.placement == _core.Placement.AT and schedule.compute.level == _BLOCKS:
            shared.setdefault(schedule.compute.stage, []).append(schedule)
    padding: dict[int, list[Directive]] = {}
    for members in shared.values():
        widest = max(max(dag.funcs[member.func].value_bytes) for member in members)
        for member in members:
            func = dag.funcs[member.func]
            points = widest // min(func.value_bytes)
            if points > 1 and func.dimensions > 0:
                side = Var(func.args[member.innermost_dim])
                padding[member.func] = [Directive(member.func, 0, Call.ALIGN_STORAGE, (side, points))]
    return padding


def _is_in_thread(schedule: _core.FuncSchedule) -> bool:
    """Does each thread compute the Func for itself?"""
    return schedule.placement == _core.Placement.AT and schedule.compute.level == _THREADS


def _bounds_of_registers(dag: PipelineDag, schedule: _core.FuncSchedule) -> list[Directive]:
    """Return how much of a Func a thread computes, which registers need to know wherever a guard may cut it short.

    The numbers are exact: no Func is computed in threads of which they depend on the place (`has_constant_share`).
    Halide would check them, but not in a kernel.
    """
    func = dag.funcs[schedule.func]
    loops, levels = dag.stages[func.stages[0]].loops, schedule.stages[0].levels
    points = {loop.pure_dim: count for loop, count in zip(loops, levels[_POINTS], strict=False)}
    return [
        Directive(schedule.func, 0, Call.BOUND_STORAGE, (Var(func.args[dim]), points[dim])) for dim in sorted(points)
    ]


class _StageLoops:
    """The loops of one Stage that has threads: how each is split, and in which order they nest."""

    def __init__(self, stage: _core.Stage, nest: _core.StageNest, *, is_root: bool, is_host: bool) -> None:
        self._stage = stage
        self._nest = nest
        self._is_root = is_root
        self._is_host = is_host  # others are computed in its threads
        self._bases = loop_bases(stage)
        spread = [i for i in range(len(stage.loops)) if not self._is_serial(i)]
        self._order = sorted(spread, key=lambda i: i != nest.vector_loop) if nest.vector_loop >= 0 else spread
        self._blocks = [(self._block(i), nest.levels[_BLOCKS][i]) for i in self._order]
        self._fusions, self._grid = self._make_grid()
        self._chunked = [i for i in range(len(stage.loops)) if self._has_chunks(i)]

    def _base(self, loop: int) -> str:
        return self._bases[loop]

    def _is_serial(self, loop: int) -> bool:
        """Does each thread run the loop by itself?"""
        return _core.is_serial_on_gpu(self._stage, self._nest, loop)

    def _has_threads(self, loop: int) -> bool:
        return self._nest.vector_loop == loop or self._nest.levels[_THREADS][loop] > 1

    def _points(self, loop: int) -> int:
        return self._nest.levels[_POINTS][loop]

    def _named(self, loop: int, name: str) -> Loop:
        """A loop of this name, of the kind that a loop of the Stage is."""
        return RVar(name) if self._stage.loops[loop].is_rvar else Var(name)

    def _whole(self, loop: int) -> Loop:
        return whole_loop(self._stage.loops[loop])

    def _part(self, loop: int, kind: str) -> Loop:
        return self._named(loop, f"{self._base(loop)}_{kind}")

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
        return self._is_serial(loop) and self._nest.levels[_BLOCKS][loop] > 1

    def _reduction(self, loop: int) -> Loop:
        """The part of a reduction loop that a thread runs without a barrier."""
        return RVar(f"{self._base(loop)}_rest" if self._has_chunks(loop) else self._stage.loops[loop].name)

    def _reductions(self) -> list[Loop]:
        """What a thread runs of the reduction loops that threads do not share, from the innermost on."""
        return [self._reduction(i) for i in range(len(self._stage.loops)) if self._is_serial(i)]

    def _chunk(self, loop: int) -> Loop:
        return RVar(f"{self._base(loop)}_chunk")

    def body(self, level: int) -> Loop:
        """The innermost loop of a level, in whose body others can be computed."""
        if level == _BLOCKS:
            return self._chunk(self._chunked[0]) if self._chunked else self._grid[0]
        return self._thread(self._nest.vector_loop)

    def versions(self, tails: TailRule) -> list[Directive]:
        """Return all versions of the Stage: one, or of an output one for sizes of at least a block before a plain one.

        A loop that is estimated to be shorter than a block stays guarded in both.
        """
        plain = self._version(tails, lambda _: OutputSize.ANY)
        shifted = self._shiftable(tails) if self._is_root else {}
        if not shifted:
            return plain
        whole = self._version(tails, lambda loop: OutputSize.TILE if loop in shifted else OutputSize.ANY, (0,))
        least = [(self._stage.loops[loop].pure_dim, factor) for loop, factor in shifted.items()]
        if self._is_host and len(least) == 1:
            # In the plain version Halide would know that the one side is short, and forget what it is split by.
            least += [(loop.pure_dim, 1) for loop in self._stage.loops if loop.pure_dim != least[0][0]][:1]
        condition = tuple(number for pair in least for number in pair)
        return [Directive(self._stage.func, self._stage.index, Call.SPECIALIZE, condition), *whole, *plain]

    def fixed_version(self, tails: TailRule) -> list[Directive]:
        """Return the only version of the Stage that outputs of the estimated size need."""
        return self._version(tails, lambda _: OutputSize.ESTIMATED)

    def _version(
        self, tails: TailRule, size: Callable[[int], OutputSize], branch: tuple[int, ...] = ()
    ) -> list[Directive]:
        """Return one version of the Stage, for sizes of the output that are told by loop."""

        def first(loop: int, factor: int) -> Tail:
            if not self._is_root:
                return Tail.GUARD_WITH_IF
            if tails.rounds_tiles_up(self._stage, loop):
                return Tail.ROUND_UP
            return tails.first_split(self._stage, loop, factor, is_tile=True, is_only=False, size=size(loop))

        inner = Tail.GUARD_WITH_IF if tails.splits_inside_out(self._stage) else tails.inner_split(self._stage)
        return [Directive(self._stage.func, self._stage.index, *call, branch) for call in self.calls(first, inner)]

    def _shiftable(self, tails: TailRule) -> dict[int, int]:
        """Return the loops of an output whose last block can be shifted inwards, and the points of a block."""
        if not tails.has_two_versions(self._stage):
            return {}
        sides = tails.dag.funcs[self._stage.func].estimate
        factors = {loop: self._block_points(loop) for loop in self._order if not self._stage.loops[loop].is_rvar}
        return {
            loop: factor
            for loop, factor in factors.items()
            if 1 < factor <= sides[self._stage.loops[loop].pure_dim].extent
        }

    def calls(self, first: _FirstTail, inner: Tail) -> _Calls:
        """Return the calls that make the Stage a kernel, or a part of one.

        Args:
            first: Chooses the tails of the splits that can leave a remainder.
            inner: The tail of splits whose factor divides.
        """
        if self._nest.vector_loop < 0:
            return [(Call.GPU_SINGLE_THREAD, ())] if self._is_root else []
        calls: _Calls = [(Call.ATOMIC, ())] if self._nest.is_atomic else []
        threads: list[Loop] = []
        points: list[Loop] = []
        serial: list[Loop] = []
        for loop in self._order:
            if not self._is_root and not self._has_threads(loop):
                serial.append(self._whole(loop))
                continue
            calls += self._splits(loop, first, inner)
            if self._has_threads(loop):
                threads.append(self._thread(loop))
            if self._points(loop) > 1:
                points.append(self._part(loop, "point"))
        reductions = self._reductions()
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

    def _block_points(self, loop: int) -> int:
        """Points of a block along a loop of a Stage at root; 1 where the loop is not split."""
        return (self._nest.levels[_THREADS][loop] if self._has_threads(loop) else 1) * self._points(loop)

    def _splits(self, loop: int, first: _FirstTail, inner: Tail) -> _Calls:
        name, points = self._whole(loop), self._points(loop)
        thread, point = self._thread(loop), self._part(loop, "point")
        if not self._is_root:
            return [(Call.SPLIT, (name, thread, point, points, first(loop, points)))] if points > 1 else []
        block, factor = self._block(loop), self._block_points(loop)
        if not self._has_threads(loop):
            return [(Call.SPLIT, (name, block, point, points, first(loop, factor)))] if points > 1 else []
        if points == 1:
            return [(Call.SPLIT, (name, block, thread, factor, first(loop, factor)))]
        tile = self._part(loop, "tile")
        return [
            (Call.SPLIT, (name, block, tile, factor, first(loop, factor))),
            (Call.SPLIT, (tile, thread, point, points, inner)),
        ]

    def _unrolled_reductions(self) -> list[Loop]:
        """Reduction loops from the innermost on, as long as all that is unrolled stays short.

        None where a condition reads how far they go: unrolled, it is reckoned out together with the guards of the
        threads, beyond what they guard.
        """
        loops: list[Loop] = []
        if self._stage.has_loading_condition:
            return loops
        unrolled = prod(self._points(loop) for loop in self._order)
        for i, loop in enumerate(self._stage.loops):
            if not self._is_serial(i):
                continue
            unrolled *= self._points(i)
            if not loop.has_constant_extent or unrolled > _core.GPU_MOST_UNROLLED:
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
                name = f"{free_base(self._stage, 'blocks')}_{len(calls)}"
                is_reducing = isinstance(grid[0], RVar) or isinstance(loop, RVar)
                fused: Loop = RVar(name) if is_reducing else Var(name)
                calls.append((Call.FUSE, (grid[0], loop, fused)))
                grid[0] = fused
        return calls, grid


class _ThreadLoops(_StageLoops):
    """The loops of a Stage that each thread runs by itself: unrolled where they are short, to stay in registers."""

    def calls(self, first: _FirstTail, inner: Tail) -> _Calls:
        """Return the calls that unroll the loops, all of which have ends that Halide knows; nothing is split.

        All points turn inside the reductions: what several sums read is then loaded once.
        """
        turning = [i for i in self._order if self._points(i) > 1]
        if prod(self._points(i) for i in turning) > _core.GPU_MOST_UNROLLED:
            return []
        points: list[Loop] = [self._whole(i) for i in turning]
        reductions = self._reductions()
        calls: _Calls = [(Call.REORDER, (*points, *reductions))] if points and reductions else []
        return calls + [(Call.UNROLL, (loop,)) for loop in [*points, *self._unrolled_reductions()]]
