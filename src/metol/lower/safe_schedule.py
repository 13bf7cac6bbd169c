"""Schedules that need no search: what is used where Halide refuses all that the search found.

Enters: a pipeline. Leaves: directives. The safe schedule inlines what merely passes on one value, computes the rest at
root, in vectors along the innermost dimension and in parallel along the outermost, with every remainder guarded. The
plain one computes everything at root and nothing else.
"""

from collections.abc import Collection

import halide as hl

from metol import _core
from metol.lower.directive import Argument, Call, Directive, Tail, Var
from metol.lower.func_ref import describe_funcs
from metol.lower.guard_names import with_guards_named
from metol.lower.lanes import descends
from metol.lower.loop_names import whole_loop
from metol.pipeline import PipelineDag, base_name

__all__ = ["plain_directives", "root_directives", "safe_directives"]


def plain_directives(pipeline: hl.Pipeline, kept: Collection[int] = ()) -> tuple[Directive, ...]:
    """Return what `root_directives` does, for a pipeline that cannot be read into a DAG."""
    inputs = {base_name(argument.name) for argument in pipeline.infer_arguments()}
    return tuple(
        Directive(func.index, 0, Call.COMPUTE_ROOT)
        for func in describe_funcs(pipeline)
        # Halide lists an input as a Func, too: `input_im`.
        if func.index not in kept and func.name.removesuffix("_im") not in inputs
    )


def root_directives(dag: PipelineDag, kept: Collection[int] = ()) -> tuple[Directive, ...]:
    """Return the directives that compute every Func at root.

    Args:
        dag: The pipeline.
        kept: Funcs that keep the schedule they have.
    """
    return tuple(Directive(func, 0, Call.COMPUTE_ROOT) for func in _scheduled(dag, kept))


def safe_directives(
    dag: PipelineDag, vector_bytes: int, kept: Collection[int] = (), at_root: Collection[int] = ()
) -> tuple[Directive, ...]:
    """Return the directives of the safe schedule.

    Args:
        dag: The pipeline.
        vector_bytes: Bytes of a native vector.
        kept: Funcs that keep the schedule they have.
        at_root: Funcs that must not be inlined.
    """
    directives: list[Directive] = []
    scheduled = _scheduled(dag, kept)
    inlined = {func for func in scheduled if func not in at_root and _passes_on_one_value(dag, func)}
    for func in scheduled:
        if func in inlined:
            continue
        directives.append(Directive(func, 0, Call.COMPUTE_ROOT))
        for stage in dag.funcs[func].stages:
            directives += _stage_directives(dag, dag.stages[stage], vector_bytes, inlined)
    return tuple(with_guards_named(dag, directives))


def _scheduled(dag: PipelineDag, kept: Collection[int]) -> list[int]:
    """The Funcs of the algorithm itself, without inputs and what only a decision would create."""
    return [
        position
        for position, func in enumerate(dag.funcs[: dag.real_func_count])
        if not func.is_input and position not in kept
    ]


def _passes_on_one_value(dag: PipelineDag, position: int) -> bool:
    """May the Func be inlined, and reads one value at one place? However many such are, no work is multiplied."""
    func = dag.funcs[position]
    return func.is_inlinable and sum(edge.calls for edge in dag.stages[func.stages[0]].edges) <= 1


def _descends(dag: PipelineDag, stage: _core.Stage, inlined: Collection[int]) -> bool:
    """Would Halide have to mask loads of lanes that go down in memory? It does not compile all of these."""
    (loop,) = (i for i, dim in enumerate(stage.loops) if dim.pure_dim == 0)
    return descends(dag, stage, loop, inlined, lambda func: dag.funcs[func].dense_dim)


def _stage_directives(
    dag: PipelineDag, stage: _core.Stage, vector_bytes: int, inlined: Collection[int]
) -> list[Directive]:
    """Vectors along the first dimension, parallel along the last, as far as the estimated size has any."""
    func = dag.funcs[stage.func]
    calls: list[tuple[Call, tuple[Argument, ...]]] = []
    loops = {loop.pure_dim: loop for loop in stage.loops if not loop.is_reduction}
    region = [(side.min, side.min + side.extent - 1) for side in func.root_region]
    extents = {
        dim: (loop.bounds.evaluate(region) if loop.is_rvar else func.root_region[dim]).extent
        for dim, loop in loops.items()
    }
    lanes = max(2, vector_bytes // max(1, stage.widest_bytes))
    # Vectors of a pipeline's own output are read as if they were aligned, which a caller's memory need not be.
    is_read = func.is_output and stage.index > 0
    reads_output = is_read or any(dag.funcs[edge.producer].is_output for edge in stage.edges)
    can_vectorize = not (stage.is_undef or stage.is_extern or stage.has_data_dependent_write or reads_output)
    # What Halide asks for where a loop of an RDom is split depends on more than is looked at here.
    is_split = can_vectorize and 0 in loops and not loops[0].is_rvar and extents[0] >= lanes
    is_split = is_split and not any(
        is_bare and dim.pure_dim == 0 for dim, is_bare in zip(stage.loops, stage.bare_loops, strict=True)
    )
    if is_split and not _descends(dag, stage, inlined):
        outer, inner = (Var(f"{loops[0].name}_{suffix}_s{stage.index}") for suffix in "oi")
        calls.append((Call.SPLIT, (Var(loops[0].name), outer, inner, lanes, Tail.GUARD_WITH_IF)))
        calls.append((Call.VECTORIZE, (inner,)))
    outermost = max(extents, default=0)
    if not stage.is_undef and outermost > 0 and extents[outermost] > 1:
        calls.append((Call.PARALLEL, (whole_loop(loops[outermost]),)))
    if not calls and stage.index > 0:
        calls.append((Call.UNSCHEDULED, ()))
    return [Directive(stage.func, stage.index, call, args) for call, args in calls]
