"""What to copy for which consumer on a CPU: what is read again and again from beyond a cache, or across its rows.

Enters: a loop nest that was found without copies. Leaves: `Staging`s to try, each of which makes a Func that may be
computed anywhere, in any order in memory, or not at all.
"""

from collections.abc import Sequence
from functools import partial
from math import prod

from metol import _core
from metol._core import Staging
from metol.pipeline import PipelineDag
from metol.targets.cpu.machine import CpuMachine
from metol.targets.staging_plan import plan_stagings, reads_of_a_value

__all__ = ["propose_stagings"]

# A value must be read so often for a copy, which reads and writes it once more, to pay.
_LEAST_READS = 4

# Loops of fewer turns are not for vectors.
_LEAST_LANES = 4


def propose_stagings(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int], machine: CpuMachine
) -> tuple[Staging, ...]:
    """Return copies that may pay on a CPU, at most three; the other arguments are those of `plan_stagings`."""
    return plan_stagings(dag, schedules, stages, partial(_pays, dag, machine))


def _pays(dag: PipelineDag, machine: CpuMachine, nest: _core.StageNest, stage: _core.Stage, edge: _core.Edge) -> bool:
    """Is it larger than the first cache and read many times, or read across its rows, or might it be?"""
    # Scalars skip what a condition leaves out, and a copy has it all.
    if stage.has_data_dependent_read or (nest.vector_width == 1 and any(stage.condition_loops)):
        return False
    producer = dag.funcs[edge.producer]
    points = prod(side.extent for side in producer.root_region)
    is_far = points * producer.bytes_per_point > machine.l1_bytes
    extents = [prod(level[loop] for level in nest.levels) for loop in range(len(stage.loops))]
    rows = producer.row_dim  # the first of what Halide lays out, as far as that is known here
    for access in edge.accesses:
        is_read_often = reads_of_a_value(access, extents) >= _LEAST_READS
        if (is_far and (is_read_often or _is_across_rows(access, rows, nest))) or (
            is_read_often and _may_be_across_rows(access, rows, stage, extents)
        ):
            return True
    return False


def _may_be_across_rows(access: _core.Access, rows: int, stage: _core.Stage, extents: Sequence[int]) -> bool:
    """Would lanes along a pure loop, were they to take it, read from different rows, one each?"""
    return any(
        not loop.is_reduction
        and extents[number] >= _LEAST_LANES
        and all(
            row.is_known[number] and row.numerator[number] == (row.denominator[number] if dim == across else 0)
            for dim, row in enumerate(access.jacobian)
        )
        for across in range(len(access.jacobian))
        if across != rows
        for number, loop in enumerate(stage.loops)
    )


def _is_across_rows(access: _core.Access, rows: int, nest: _core.StageNest) -> bool:
    """Do the lanes of a vector read from different rows?"""
    if nest.vector_width == 1:
        return False
    loop = nest.vector_loop
    return any(
        not row.is_known[loop] or row.numerator[loop] != 0 for dim, row in enumerate(access.jacobian) if dim != rows
    )
