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


def propose_stagings(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int], machine: CpuMachine
) -> tuple[Staging, ...]:
    """Return copies that may pay on a CPU, at most three; the other arguments are those of `plan_stagings`."""
    return plan_stagings(dag, schedules, stages, partial(_pays, dag, machine))


def _pays(dag: PipelineDag, machine: CpuMachine, nest: _core.StageNest, stage: _core.Stage, edge: _core.Edge) -> bool:
    """Is it larger than the first cache, and read either many times or across its rows?"""
    producer = dag.funcs[edge.producer]
    points = prod(side.extent for side in producer.root_region)
    if points * producer.bytes_per_point <= machine.l1_bytes or stage.has_data_dependent_read:
        return False
    extents = [prod(level[loop] for level in nest.levels) for loop in range(len(stage.loops))]
    return any(
        reads_of_a_value(access, extents) >= _LEAST_READS or _is_across_rows(access, nest.vector_loop, nest)
        for access in edge.accesses
    )


def _is_across_rows(access: _core.Access, loop: int, nest: _core.StageNest) -> bool:
    """Do the lanes of a vector read from different rows?"""
    if nest.vector_width == 1:
        return False
    return any(not row.is_known[loop] or row.numerator[loop] != 0 for row in access.jacobian[1:])
