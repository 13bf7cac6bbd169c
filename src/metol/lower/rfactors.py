"""Directives of a pipeline whose updates are computed in two steps: what `rfactor` makes comes first.

Enters: what was factored out, and the directives of the DAG that was read with it. Leaves: directives of the pipeline
as it is, in whose numbering the Funcs that `rfactor` makes come last.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from metol._core import Rfactor
from metol.lower.directive import Argument, Call, Directive, Kind, RVar, Site, Tail, Var, arguments
from metol.pipeline import PipelineDag

__all__ = ["rewritten_directives"]


def rewritten_directives(
    dag: PipelineDag, rfactors: Sequence[Rfactor], directives: Iterable[Directive], given_count: int
) -> tuple[Directive, ...]:
    """Return the directives of the pipeline as it was given: what rewrites it, then how it is scheduled.

    Args:
        dag: The pipeline, read with `rfactors`.
        rfactors: What to factor out; the k-th makes the Func `given_count` + k.
        directives: The schedule of that DAG.
        given_count: Funcs of the pipeline as it was given.
    """
    first: list[Directive] = []
    for number, rfactor in enumerate(rfactors):
        stage = rfactor.update + 1
        for old, outer, inner, factor in rfactor.splits:
            args = (RVar(old), RVar(outer), RVar(inner), factor, Tail.GUARD_WITH_IF)
            first.append(Directive(rfactor.func, stage, Call.SPLIT, args))
        preserved = tuple(loop for rvar, var in rfactor.preserved for loop in (RVar(rvar), Var(var)))
        first.append(Directive(rfactor.func, stage, Call.RFACTOR, (given_count + number, *preserved)))
    # To Halide an update has a schedule once something was factored out of it.
    scheduled = {(directive.func, directive.stage) for directive in first}
    then = (_renumbered(directive, dag) for directive in directives)
    return (
        *first,
        *(d for d in then if d.call is not Call.UNSCHEDULED or (d.func, d.stage) not in scheduled),
    )


def _renumbered(directive: Directive, dag: PipelineDag) -> Directive:
    """Return a directive of a rewritten DAG with the numbers that its Funcs have in the pipeline as it was given."""

    def argument(kind: Kind, value: Argument) -> Argument:
        if isinstance(value, Site):
            return replace(value, func=dag.funcs[value.func].origin) if value.loop is not None else value
        if kind is Kind.FUNC and isinstance(value, int):
            return dag.funcs[value].origin
        return value

    args = (argument(kind, value) for kind, values in arguments(directive) for value in values)
    return replace(directive, func=dag.funcs[directive.func].origin, args=tuple(args))
