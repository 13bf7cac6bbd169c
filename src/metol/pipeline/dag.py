"""The DAG of a pipeline, read from Halide once: the thin Python side of `extract.cpp`.

An hl.Pipeline or hl.Func enters, a read-only `PipelineDag` leaves; the pipeline is never lowered. Funcs are numbered as
`Pipeline.get_func` numbers them. Source: Adams et al. 2019, §4.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import halide as hl

from metol import _core
from metol._core import LoweredPipeline, PipelineDag, Rfactor, Staging
from metol.pipeline.estimates import EstimateMap, split_estimates

__all__ = [
    "Joint",
    "LoweredPipeline",
    "OpClass",
    "PipelineDag",
    "Rfactor",
    "Staging",
    "constant_value",
    "copy_pipeline",
    "extract",
    "func_names",
    "op_classes",
    "placements",
    "restore_output_estimates",
    "strip_schedules",
]

Joint: TypeAlias = Sequence[int]
"""Outputs that are computed in the same loops (Halide's `compute_with`): positions in `Pipeline.get_func`, that of the
Func whose loops they are first."""


@dataclass(frozen=True, slots=True)
class OpClass:
    """One of the classes of operations that `Stage.op_histogram` counts."""

    name: str
    """As in `op_classes.def`: `AddFloat`, `LoadStencil`."""

    meaning: str
    """What is counted, in words."""


def extract(
    pipeline: object,
    estimates: EstimateMap | None = None,
    *,
    target: str = "",
    rfactors: Sequence[Rfactor] = (),
    stagings: Sequence[Staging] = (),
    joints: Sequence[Joint] = (),
) -> PipelineDag:
    """Read a pipeline into a DAG of Funcs, Stages and Edges.

    Args:
        pipeline: An hl.Pipeline, or the hl.Func of a single output. A schedule that it carries is not looked at.
        estimates: Sizes and parameters that take precedence over the pipeline's own estimates.
        target: The Halide target; with `strict_float`, sums of floats are taken in their order. Empty for none.
        rfactors: Updates to be computed in two steps: the DAG is that of a copy on which Halide's `rfactor` was called.
        stagings: Funcs to be copied for a consumer: the DAG is that of a copy on which Halide's `in_` was called, too.
        joints: Outputs to be computed in the same loops; the DAG has one Func with the values of all, in the place of
            the first of each.

    Returns:
        The DAG. Its ids are positions in `Pipeline.get_func`; images that are read without a Func follow after.

    Raises:
        UndefinedPipelineError: The pipeline has no output, or a Func has no definition.
        MissingEstimateError: An output, an input, or a parameter that a size depends on has no estimate.
        ContradictoryEstimateError: An estimate contradicts a constraint, is empty, or of another kind.
        ExtractionError: A read is unbounded and cannot be inlined, Halide refuses an `rfactor`, a staging copies what
            its consumer does not read, a joint is of what are no outputs of the same loops, or `pipeline` is something
            else.
        UnsupportedTargetError: `target` is no Halide target.
    """
    regions, scalars = split_estimates(estimates)
    return _core.extract(
        pipeline, regions=regions, scalars=scalars, target=target, rfactors=rfactors, stagings=stagings, joints=joints
    )


def reuse_device_allocations(*, is_reused: bool) -> None:
    """Say whether Halide's runtime in this process keeps memory of a device that was given back, for what asks next."""
    _core.reuse_device_allocations(is_reused)


def strip_schedules(pipeline: object, kept: Sequence[int] = ()) -> None:
    """Take every directive off every Func that `pipeline` reaches, in place; estimates stay.

    What `rfactor` and `in_` made stays or goes with its kind: wrappers are detached, `rfactor` cannot be undone.

    Args:
        pipeline: An hl.Pipeline, or the hl.Func of a single output.
        kept: Positions, in `Pipeline.get_func`, of Funcs that are left as they are, with their wrappers.

    Raises:
        UndefinedPipelineError: The pipeline has no output.
        ExtractionError: `pipeline` is neither an hl.Pipeline nor an hl.Func.
    """
    _core.strip_schedules(pipeline, kept)


def placements(pipeline: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Tell where the schedule of each Func puts it, in the order of `Pipeline.get_func`.

    Returns:
        For each Func ``inline``, ``root`` or ``at``, and the full names of the Funcs whose loops its schedule names.
    """
    return tuple((placement, tuple(hosts)) for placement, hosts in _core.placements(pipeline))


def copy_pipeline(pipeline: object) -> hl.Pipeline:
    """Return a pipeline of the same algorithm and schedule that shares no Func with `pipeline`."""
    copy = hl.Pipeline()
    _core.copy_pipeline(pipeline, copy)
    return copy


def restore_output_estimates(pipeline: object) -> None:
    """Give the buffers of outputs the estimates of their Funcs, in place; those that have some keep them.

    Halide serializes the estimates of Funcs, and not those of the buffers, which `set_estimates` gives both.
    """
    _core.restore_output_estimates(pipeline)


def constant_value(expr: object) -> int | float | None:
    """Return the number that an hl.Expr holds; None where it is undefined, symbolic, or no hl.Expr.

    Halide's Python bindings print six digits of it, or compile it.
    """
    return _core.constant_value(expr)


def func_names(pipeline: object) -> tuple[str, ...]:
    """Name the Funcs in the order of `Pipeline.get_func`, without extracting anything."""
    return tuple(_core.func_names(pipeline))


def op_classes() -> tuple[OpClass, ...]:
    """List the classes of `Stage.op_histogram`, in its order."""
    return tuple(OpClass(name, meaning) for name, meaning in _core.op_classes())
