"""Parts of an output that lie side by side, each made in its own way, as images that are joined.

Enters: a Stage, and how its Funcs are scheduled. Leaves: how wide the parts are, where all are as wide. A loop that is
split so, with one turn a part, unrolled, leaves nothing of the comparisons and clamps that tell parts apart: vectors
load neighbours, and of one part alone.
"""

from collections.abc import Sequence
from math import gcd

from metol import _core
from metol.pipeline import PipelineDag

__all__ = ["panel_widths"]

# Each part is code of its own.
_MOST_PANELS = 8


def panel_widths(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage: _core.Stage) -> dict[int, int]:
    """Return the width of the parts by loop, of loops that have several; what is inlined is part of the Stage."""
    widths = {}
    for loop, dim in enumerate(stage.loops):
        if dim.is_rvar:
            continue
        side = dag.funcs[stage.func].estimate[dim.pure_dim]
        inside = [seam - side.min for seam in _seams(dag, schedules, stage, loop) if 0 < seam - side.min < side.extent]
        width = gcd(side.extent, *inside)
        if inside and side.extent <= _MOST_PANELS * width:
            widths[loop] = width
    return widths


def _seams(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage: _core.Stage, loop: int) -> set[int]:
    """Where the code of a Stage changes along a loop, and that of what is inlined into it."""
    seams = set(stage.seams[loop])
    for edge in stage.edges:
        func = dag.funcs[edge.producer]
        if func.is_input or schedules[edge.producer].placement != _core.Placement.INLINE:
            continue
        inlined = dag.stages[func.stages[0]]
        for access in edge.accesses:
            for number, dim in enumerate(inlined.loops):
                row = access.jacobian[dim.pure_dim]
                steps = [
                    numerator / denominator
                    for numerator, denominator in zip(row.numerator, row.denominator, strict=True)
                ]
                if not all(row.is_known) or steps[loop] != 1 or sum(map(abs, steps)) != 1:
                    continue
                offsets = {offset[dim.pure_dim] for offset in access.offsets}
                further = _seams(dag, schedules, inlined, number)
                seams |= {seam - offset for seam in further for offset in offsets}
    return seams
