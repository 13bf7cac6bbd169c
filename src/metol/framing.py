"""What a schedule is for, before there is one: the pipeline, its sizes, the target and the versions.

Enters: a pipeline and what extraction read of it. Leaves: a `Schedule` without directives.
"""

from importlib import metadata

import halide as hl

from metol.errors import ExtractionError
from metol.lower import Estimate, Kept, Schedule, describe_funcs
from metol.pipeline import PipelineDag
from metol.provenance import metol_version

__all__ = ["frame_of"]


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


def _estimates(dag: PipelineDag) -> tuple[Estimate, ...]:
    regions = tuple(
        Estimate(func.name.split("$")[0], tuple((i.min, i.extent) for i in func.estimate))
        for func in dag.funcs
        if func.estimate
    )
    scalars = tuple(Estimate(p.name, value=p.estimate) for p in dag.parameters if p.estimate is not None)
    return regions + scalars
