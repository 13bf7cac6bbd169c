"""Parts of an output that lie side by side, each made in its own way, as images that are joined.

Enters: a Stage, and how its Funcs are scheduled. Leaves: how wide the parts are, where all are as wide. A loop that is
split so, with one turn a part, unrolled, leaves nothing of the comparisons and clamps that tell parts apart: vectors
load neighbours, and of one part alone.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd
from typing import TypeAlias

from metol import _core
from metol.pipeline import PipelineDag

__all__ = ["panel_widths"]

# Each part is code of its own, and so is each part of a part.
_MOST_PANELS = 8


def panel_widths(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage: _core.Stage) -> dict[int, int]:
    """Return the width of the parts by loop, of loops that have several; what is inlined is part of the Stage."""
    widths: dict[int, int] = {}
    known: _Known = {}
    count = 1
    for loop, dim in enumerate(stage.loops):
        if dim.is_rvar:
            continue
        side = dag.funcs[stage.func].estimate[dim.pure_dim]
        seams = _seams(dag, schedules, stage, loop, known)
        inside = [seam - side.min for seam in seams if 0 < seam - side.min < side.extent]
        width = gcd(side.extent, *inside)
        if inside and count * side.extent <= _MOST_PANELS * width:
            widths[loop] = width
            count *= side.extent // width
    return widths


_Known: TypeAlias = "dict[tuple[int, int], frozenset[int]]"
"""Seams by Func and loop."""


def _seams(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage: _core.Stage, loop: int, known: _Known
) -> frozenset[int]:
    """Where the code of a Stage changes along a loop, and that of what is inlined into it."""
    key = (stage.func, loop)
    if key not in known:
        known[key] = frozenset(stage.seams[loop]).union(*_seams_inside(dag, schedules, stage, loop, known))
    return known[key]


def _seams_inside(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage: _core.Stage, loop: int, known: _Known
) -> Iterator[set[int]]:
    for edge in stage.edges:
        func = dag.funcs[edge.producer]
        if func.is_input or schedules[edge.producer].placement != _core.Placement.INLINE:
            continue
        inlined = dag.stages[func.stages[0]]
        for access, (number, dim) in product(edge.accesses, enumerate(inlined.loops)):
            row = access.jacobian[dim.pure_dim]
            moves = [numerator != 0 for numerator in row.numerator]
            is_step = moves[loop] and sum(moves) == 1 and row.numerator[loop] == row.denominator[loop]
            if is_step and all(row.is_known):
                offsets = {offset[dim.pure_dim] for offset in access.offsets}
                seams = _seams(dag, schedules, inlined, number, known)
                yield {seam - offset for seam in seams for offset in offsets}
