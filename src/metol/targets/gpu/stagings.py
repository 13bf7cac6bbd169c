"""What to copy for which consumer on a GPU: what several points of a block read of memory beyond it.

Enters: a loop nest that was found without copies. Leaves: `Staging`s to try, each of which makes a Func that blocks may
keep in shared memory, or threads in registers, or that is not there (targets/gpu/copies.hpp).
"""

from collections.abc import Sequence

from metol import _core
from metol._core import Staging
from metol.pipeline import PipelineDag
from metol.targets.staging_plan import plan_stagings, reads_of_a_value

__all__ = ["propose_stagings"]

# A copy reads each value once and stores it: it has to be read twice at least.
_LEAST_READS = 2
# The levels of the loops of a Stage (targets/gpu/kernels.hpp).
_THREADS, _POINTS = 1, 2


def propose_stagings(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int]
) -> tuple[Staging, ...]:
    """Return copies that may pay on a GPU, at most three; the arguments are those of `plan_stagings`."""
    return plan_stagings(dag, schedules, stages, _is_shared)


def _is_shared(nest: _core.StageNest, stage: _core.Stage, edge: _core.Edge) -> bool:
    """Do several points of a block read the same?"""
    if stage.has_data_dependent_read:
        return False
    extents = [nest.levels[_THREADS][loop] * nest.levels[_POINTS][loop] for loop in range(len(stage.loops))]
    return any(access.count * reads_of_a_value(access, extents) >= _LEAST_READS for access in edge.accesses)
