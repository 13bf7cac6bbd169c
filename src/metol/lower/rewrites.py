"""Directives of a pipeline that was rewritten: what `rfactor` and `in` make comes first, joint outputs come apart.

Enters: what was factored out and copied, and the directives of the DAG that was read with it. Leaves: directives of the
pipeline as it is, in whose numbering the Funcs that are made come last.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from metol._core import Rfactor, Staging
from metol.lower.directive import Argument, Call, Directive, Kind, RVar, Site, Tail, Var, arguments
from metol.pipeline import PipelineDag

__all__ = ["rewritten_directives"]


def rewritten_directives(
    dag: PipelineDag,
    rfactors: Sequence[Rfactor],
    directives: Iterable[Directive],
    given_count: int,
    stagings: Sequence[Staging] = (),
) -> tuple[Directive, ...]:
    """Return the directives of the pipeline as it was given: what rewrites it, then how it is scheduled.

    Args:
        dag: The pipeline, read with `rfactors` and `stagings`, and with joints or without.
        rfactors: What to factor out; the k-th makes the Func `given_count` + k.
        directives: The schedule of that DAG.
        given_count: Funcs of the pipeline as it was given.
        stagings: What to copy; copies that `directives` leave inline are not made.
    """
    scheduled = list(directives)
    numbers = {func: dag.funcs[func].origin for func in range(len(dag.funcs))}
    wrappers = {func.origin: position for position, func in enumerate(dag.funcs) if func.is_wrapper}
    is_made = {directive.func for directive in scheduled}
    first: list[Directive] = []
    for number, rfactor in enumerate(rfactors):
        stage = rfactor.update + 1
        for old, outer, inner, factor in rfactor.splits:
            args = (RVar(old), RVar(outer), RVar(inner), factor, Tail.GUARD_WITH_IF)
            first.append(Directive(rfactor.func, stage, Call.SPLIT, args))
        preserved = tuple(loop for rvar, var in rfactor.preserved for loop in (RVar(rvar), Var(var)))
        first.append(Directive(rfactor.func, stage, Call.RFACTOR, (given_count + number, *preserved)))
    # To Halide an update has a schedule once something was factored out of it.
    factored = {(directive.func, directive.stage) for directive in first}
    next_number = given_count + len(rfactors)
    for origin, staging in enumerate(stagings, next_number):
        if wrappers[origin] in is_made:
            numbers[wrappers[origin]] = next_number
            first.append(Directive(staging.func, 0, Call.IN, (next_number, staging.consumer)))
            next_number += 1
    joints = {func.joint[0]: func.joint for func in dag.funcs if func.joint}
    then = _apart([_renumbered(directive, numbers) for directive in scheduled], joints)
    return (
        *first,
        *(d for d in then if d.call is not Call.UNSCHEDULED or (d.func, d.stage) not in factored),
    )


def _apart(directives: Sequence[Directive], joints: Mapping[int, Sequence[int]]) -> Iterator[Directive]:
    """Yield directives of which those of a joint are there for each of its outputs.

    What says that the first of them is computed with itself says where the others are.
    """
    for func, own in itertools.groupby(directives, key=lambda directive: directive.func):
        calls = list(own)
        for member in joints.get(func, [func]):
            for directive in calls:
                is_with_itself = directive.call is Call.COMPUTE_WITH and _leader(directive) == member
                if not is_with_itself:
                    yield replace(directive, func=member)


def _leader(directive: Directive) -> int:
    """The Func whose loops a Stage shares."""
    (site,) = directive.args
    assert isinstance(site, Site)
    return site.func


def _renumbered(directive: Directive, numbers: dict[int, int]) -> Directive:
    """Return a directive of a rewritten DAG with the numbers that its Funcs have in the pipeline as it was given."""

    def argument(kind: Kind, value: Argument) -> Argument:
        if isinstance(value, Site):
            return replace(value, func=numbers[value.func]) if value.loop is not None else value
        if kind is Kind.FUNC and isinstance(value, int):
            return numbers[value]
        return value

    args = (argument(kind, value) for kind, values in arguments(directive) for value in values)
    return replace(directive, func=numbers[directive.func], args=tuple(args))
