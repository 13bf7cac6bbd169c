"""A more exact schedule to compare with: everything at root, and long sums of floats in parts.

A pipeline enters, and leaves scheduled. The rounding of a sum grows with the terms that are added one after the other:
four million single floats in one row may be off by more than a result may differ, while whoever adds partial results
is not. With about as many parts as each has terms, both rows are as short as they can be.
"""

from math import isqrt, prod
from typing import Any

import halide as hl

from metol import _core
from metol.errors import MetolError
from metol.measure.at_root import schedule_at_root
from metol.pipeline import extract

__all__ = ["schedule_exactly"]

# What has fewer terms is off by a sixteenth of what is allowed, at worst (`tolerance`).
_LEAST_TERMS = 1024


def schedule_exactly(pipeline: Any) -> None:
    """Compute every Func at root, and sums of floats that have many terms in parts, as far as that can be done."""
    schedule_at_root(pipeline)
    try:
        dag = extract(pipeline)
    except MetolError:
        return
    for position, func in enumerate(dag.funcs):
        if func.is_input or func.is_extern or func.must_inline:
            continue
        if not any(value.is_float() for value in pipeline.get_func(position).types()):
            continue
        for stage in (dag.stages[number] for number in func.stages[1:]):
            # Where a place ends the loop, Halide asks of inputs for whole parts of it.
            if stage.is_associative and stage.has_safe_identities and not stage.ends_by_point:
                _add_in_parts(pipeline.get_func(position), stage, [(i.min, i.max) for i in func.root_region])


def _add_in_parts(func: Any, stage: _core.Stage, region: list[tuple[int, int]]) -> None:
    """Make about the square root of its terms of partial results, of the outermost loops of an update.

    ``for r: f += term(r)`` --> ``for ro: for ri: part(ro) += term(ro, ri)`` and ``for ro: f += part(ro)``
    """
    update = stage.index - 1
    loops = [loop for loop in stage.loops if loop.is_rvar]
    extents = [loop.bounds.evaluate(region).extent for loop in loops]
    terms = prod(extents)
    if terms < _LEAST_TERMS:
        return
    wanted, kept = isqrt(terms), []
    for rvar, extent in reversed(list(zip(func.rvars(update), extents, strict=True))):
        if wanted > 1 and 1 < extent <= wanted:
            kept.append(rvar)
            wanted //= extent
        elif wanted > 1 and extent > wanted:
            outer, inner = hl.RVar(f"{rvar.name()}_part"), hl.RVar(f"{rvar.name()}_term")
            func.update(update).split(rvar, outer, inner, -(-extent // wanted))
            kept.append(outer)
            wanted = 1
    parts = func.update(update).rfactor([(rvar, hl.Var(f"part_{place}")) for place, rvar in enumerate(kept)])
    pure = [loop.name for loop in stage.loops if not loop.is_rvar]
    outermost = [variable for variable in func.args() if pure and variable.name() == pure[-1]]
    # For all points of the Func at once they could take many times its memory.
    if outermost:
        parts.compute_at(func, outermost[0])
    else:
        parts.compute_root()
