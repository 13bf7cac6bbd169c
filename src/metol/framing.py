"""What a schedule is for, before there is one: the pipeline, its sizes, the target and the versions.

Enters: a pipeline and what extraction read of it. Leaves: a `Schedule` without directives, and the sizes it is for.
"""

from importlib import metadata

import halide as hl

from metol import _core
from metol.errors import ExtractionError
from metol.lower import Estimate, Kept, Schedule, describe_funcs
from metol.measure import BlockLimits, BufferSizes
from metol.pipeline import EstimateMap, PipelineDag, base_name, extract
from metol.provenance import metol_version
from metol.targets import Machine
from metol.targets.gpu import GpuMachine

__all__ = ["block_limits", "buffer_sizes", "frame_of", "read_pipeline"]


def read_pipeline(
    pipeline: hl.Pipeline | hl.Func, estimates: EstimateMap | None, target: str
) -> PipelineDag | ExtractionError:
    """Read the pipeline; what the search cannot describe, Halide may compile all the same."""
    try:
        return extract(pipeline, estimates, target=target)
    except ExtractionError as error:
        return error


def frame_of(
    pipeline: hl.Pipeline, read: PipelineDag | ExtractionError, target: str, kept: tuple[Kept, ...]
) -> Schedule:
    """Return a schedule that tells what it is for, without any directives.

    Args:
        pipeline: What is scheduled.
        read: The pipeline as extraction read it, or why it could not: then only its Funcs are told.
        target: A Halide target.
        kept: Funcs that keep their hand-written schedule.
    """
    dag = None if isinstance(read, ExtractionError) else read
    return Schedule(
        funcs=describe_funcs(pipeline),
        directives=(),
        target=target,
        estimates=() if dag is None else _estimates(dag),
        algorithm_hash="" if dag is None else f"{dag.algorithm_hash:016x}",
        halide_version=metadata.version("halide"),
        metol_version=metol_version(),
        kept=kept,
    )


def buffer_sizes(read: PipelineDag | ExtractionError) -> BufferSizes:
    """Return what the schedules are made for; nothing where it could not be read."""
    if isinstance(read, ExtractionError):
        return BufferSizes((), {}, {})
    return BufferSizes(
        outputs=tuple(_region(read.funcs[output]) for output in read.outputs),
        inputs={base_name(func.name): _region(func) for func in read.funcs if func.is_input},
        scalars={p.name: p.estimate for p in read.parameters if p.estimate is not None},
    )


def block_limits(machine: Machine) -> BlockLimits | None:
    """Return what a block of threads may have on a GPU; None for a CPU."""
    if not isinstance(machine, GpuMachine):
        return None
    return BlockLimits(machine.max_threads_per_block, machine.shared_bytes_per_block)


def _region(func: _core.Func) -> tuple[tuple[int, int], ...]:
    return tuple((side.min, side.extent) for side in func.estimate)


def _estimates(dag: PipelineDag) -> tuple[Estimate, ...]:
    regions = tuple(Estimate(base_name(func.name), _region(func)) for func in dag.funcs if func.estimate)
    scalars = tuple(Estimate(p.name, value=p.estimate) for p in dag.parameters if p.estimate is not None)
    return regions + scalars
