"""The DAG of a pipeline, read from Halide once: the thin Python side of `extract.cpp`.

An hl.Pipeline or hl.Func enters, a read-only `PipelineDag` leaves; the pipeline is never lowered. Funcs are numbered as
`Pipeline.get_func` numbers them. Source: Adams et al. 2019, §4.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from metol import _core
from metol._core import PipelineDag, Rfactor
from metol.pipeline.estimates import EstimateMap, split_estimates

__all__ = ["OpClass", "PipelineDag", "Rfactor", "extract", "func_names", "op_classes", "strip_schedules"]


@dataclass(frozen=True, slots=True)
class OpClass:
    """One of the 40 classes of operations that `Stage.op_histogram` counts."""

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
) -> PipelineDag:
    """Read a pipeline into a DAG of Funcs, Stages and Edges.

    Args:
        pipeline: An hl.Pipeline, or the hl.Func of a single output. A schedule that it carries is not looked at.
        estimates: Sizes and parameters that take precedence over the pipeline's own estimates.
        target: A Halide target, checked for being one; empty for no check.
        rfactors: Updates to be computed in two steps: the DAG is that of a copy on which Halide's `rfactor` was called.

    Returns:
        The DAG. Its ids are positions in `Pipeline.get_func`; images that are read without a Func follow after.

    Raises:
        UndefinedPipelineError: The pipeline has no output, or a Func has no definition.
        MissingEstimateError: An output, an input, or a parameter that a size depends on has no estimate.
        ContradictoryEstimateError: An estimate contradicts a constraint, is empty, or of another kind.
        ExtractionError: A read is unbounded and cannot be inlined, Halide refuses an `rfactor`, or `pipeline` is
            something else.
        UnsupportedTargetError: `target` is no Halide target.
    """
    regions, scalars = split_estimates(estimates)
    return _core.extract(pipeline, regions=regions, scalars=scalars, target=target, rfactors=rfactors)


def strip_schedules(pipeline: object) -> None:
    """Take every directive off every Func that `pipeline` reaches, in place; estimates stay.

    What `rfactor` and `in_` made stays or goes with its kind: wrappers are detached, `rfactor` cannot be undone.

    Raises:
        UndefinedPipelineError: The pipeline has no output.
        ExtractionError: `pipeline` is neither an hl.Pipeline nor an hl.Func.
    """
    _core.strip_schedules(pipeline)


def func_names(pipeline: object) -> tuple[str, ...]:
    """Name the Funcs in the order of `Pipeline.get_func`, without extracting anything."""
    return tuple(_core.func_names(pipeline))


def op_classes() -> tuple[OpClass, ...]:
    """List the classes of `Stage.op_histogram`, in its order."""
    return tuple(OpClass(name, meaning) for name, meaning in _core.op_classes())
