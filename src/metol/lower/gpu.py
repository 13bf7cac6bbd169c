"""From a finished loop nest to the directives that make Halide generate it on a GPU.

Enters: one FuncSchedule a Func. Leaves: Directives. Each Stage at root becomes one kernel; every split is guarded, so
that the result is right at every size, and nothing outside of a buffer is touched.
"""

from collections.abc import Sequence

from metol import _core
from metol.lower.directive import Argument, Call, Directive, Loop, RVar, Tail, Var
from metol.lower.guard_names import with_guards_named
from metol.pipeline import PipelineDag

__all__ = ["gpu_directives"]

# Dimensions of a grid of blocks, and of a block of threads.
_GRID_DIMENSIONS = 3
# CUDA counts at most 65535 blocks along the second and third dimension of a grid. A loop stays a dimension of its own
# where outputs may grow 16 times along it.
_MOST_BLOCKS = 65535 // 16

# The levels of the loop nest of a kernel, as targets/gpu makes them.
_BLOCKS, _THREADS = 0, 1


def gpu_directives(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule]) -> tuple[Directive, ...]:
    """Return the directives of a complete loop nest.

    Args:
        dag: The pipeline.
        schedules: One a Func, in the order of the DAG, each at root or inline.
    """
    directives: list[Directive] = []
    for schedule in schedules:
        func = dag.funcs[schedule.func]
        if func.is_input or schedule.placement != _core.Placement.ROOT:
            continue
        directives.append(Directive(schedule.func, 0, Call.COMPUTE_ROOT))
        if schedule.innermost_dim > 0:
            order = [schedule.innermost_dim, *(d for d in range(func.dimensions) if d != schedule.innermost_dim)]
            directives.append(
                Directive(schedule.func, 0, Call.REORDER_STORAGE, tuple(Var(func.args[d]) for d in order))
            )
        for stage_id, nest in zip(func.stages, schedule.stages, strict=True):
            stage = dag.stages[stage_id]
            # Halide runs an extern stage on the CPU, and copies what it needs; an undefined one has no code.
            if not stage.is_extern and not stage.is_undef:
                directives += [Directive(stage.func, stage.index, *call) for call in _kernel(stage, nest)]
    return tuple(with_guards_named(dag, directives))


def _kernel(stage: _core.Stage, nest: _core.StageNest) -> list[tuple[Call, tuple[Argument, ...]]]:
    """The calls that make one Stage a kernel; lists of loops begin with the innermost."""
    if not nest.is_parallel:
        return [(Call.GPU_SINGLE_THREAD, ())]
    calls: list[tuple[Call, tuple[Argument, ...]]] = []
    threads: list[Loop] = []
    blocks: list[tuple[Loop, int]] = []
    pure = [i for i, loop in enumerate(stage.loops) if not loop.is_reduction and i != nest.vector_loop]
    for i in (nest.vector_loop, *pure):
        name, count = stage.loops[i].name, nest.levels[_THREADS][i]
        block: Loop = Var(name)
        if count > 1:
            base = name.replace("$", "_") + (f"_u{stage.index}" if stage.index else "")
            block, thread = Var(f"{base}_block"), Var(f"{base}_thread")
            threads.append(thread)
            calls.append((Call.SPLIT, (Var(name), block, thread, count, Tail.GUARD_WITH_IF)))
        blocks.append((block, nest.levels[_BLOCKS][i]))
    serial: list[Loop] = [RVar(loop.name) for loop in stage.loops if loop.is_reduction]
    fusions, grid = _grid(blocks, f"_u{stage.index}" if stage.index else "")
    order = [*serial, *threads, *grid]
    calls += fusions
    if len(order) > 1:
        calls.append((Call.REORDER, tuple(order)))
    calls.append((Call.GPU_BLOCKS, tuple(grid)))
    if threads:
        calls.append((Call.GPU_THREADS, tuple(threads)))
    return calls


def _grid(blocks: list[tuple[Loop, int]], suffix: str) -> tuple[list[tuple[Call, tuple[Argument, ...]]], list[Loop]]:
    """Return the loops that are the dimensions of the grid, and the calls that fuse all others into the first.

    The first dimension holds any number of blocks; a loop becomes one of the others only where it may grow.
    """
    grid: list[Loop] = [blocks[0][0]]
    calls: list[tuple[Call, tuple[Argument, ...]]] = []
    for loop, count in blocks[1:]:
        if len(grid) < _GRID_DIMENSIONS and count <= _MOST_BLOCKS:
            grid.append(loop)
        else:
            fused = Var(f"blocks_{len(calls)}{suffix}")
            calls.append((Call.FUSE, (grid[0], loop, fused)))
            grid[0] = fused
    return calls, grid
