"""Which updates to compute in two steps on a CPU: reductions that otherwise run on one thread, or lane by lane.

Enters: a loop nest that was found without. Leaves: `Rfactor`s to try, each of which makes a Func that the search treats
as any other. Adams et al. 2019, §3.3, names `rfactor` among what that system leaves out.
"""

from collections.abc import Sequence
from itertools import count
from math import ceil, prod

from metol import _core
from metol._core import Rfactor
from metol.pipeline import PipelineDag
from metol.targets.cpu.machine import CpuMachine

__all__ = ["propose_rfactors"]

# Partial results for each core: enough that the last to end is not waited for long.
_TASKS_PER_CORE = 4
# Below so many points of the reduction a second step does not pay.
_LEAST_POINTS = 256
# Vectors of partial results: one, or enough to hide the latency of an addition.
_ACCUMULATORS = (1, 4)


def propose_rfactors(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int], machine: CpuMachine
) -> tuple[Rfactor, ...]:
    """Return ways to compute some updates in two steps.

    Args:
        dag: The pipeline.
        schedules: A complete loop nest of it, one entry a Func.
        stages: Stage ids to look at, the most important first.
        machine: The machine.
    """
    return tuple(rfactor for stage in stages for rfactor in _of_update(dag, schedules, stage, machine))


def _of_update(
    dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stage_id: int, machine: CpuMachine
) -> list[Rfactor]:
    stage = dag.stages[stage_id]
    schedule = schedules[stage.func]
    can_be = stage.index > 0 and stage.is_associative and schedule.placement == _core.Placement.ROOT
    if not can_be or len(schedule.stages) <= stage.index:
        return []
    nest = schedule.stages[stage.index]
    extents = [prod(level[loop] for level in nest.levels) for loop in range(len(stage.loops))]
    reductions = [number for number, loop in enumerate(stage.loops) if loop.is_reduction]
    if not reductions or prod(extents) < _LEAST_POINTS:
        return []
    lanes = max(1, machine.vector_bytes // stage.narrowest_bytes)
    is_serial = not nest.is_parallel and machine.cores > 1
    is_scalar = nest.vector_width == 1 and not stage.has_data_dependent_write
    plans: list[tuple[bool, int]] = [(True, 0)] if is_serial else []
    if is_scalar and extents[reductions[0]] >= 2 * lanes:
        plans += [(parallel, lanes * many) for parallel in sorted({False, is_serial}) for many in _ACCUMULATORS]
    names = {loop.name for loop in stage.loops}
    made = (_Plan(stage, extents, reductions, machine.cores, names).make(dag, *plan) for plan in plans)
    return [rfactor for rfactor in made if rfactor is not None]


class _Plan:
    """The splits of one update, and the names of the loops that they make."""

    def __init__(
        self, stage: _core.Stage, extents: Sequence[int], reductions: Sequence[int], cores: int, names: set[str]
    ) -> None:
        self.stage = stage
        self.extents = list(extents)
        self.inner = reductions[0]
        self.outer = reductions[-1]
        self.cores = cores
        self.taken = set(names)
        self.names = {number: stage.loops[number].name for number in reductions}
        self.splits: list[tuple[str, str, str, int]] = []
        self.preserved: list[tuple[str, str]] = []

    def make(self, dag: PipelineDag, is_parallel: bool, width: int) -> Rfactor | None:
        """Preserve the innermost `width` points of the innermost loop, tasks of the outermost, or both."""
        if width > 0:
            self._split(self.inner, width, keep_inner=True)
            self.extents[self.inner] = ceil(self.extents[self.inner] / width)
        if is_parallel:
            tasks = self.cores * _TASKS_PER_CORE
            extent = self.extents[self.outer]
            if extent < 2 or (width > 0 and extent < tasks):
                return None
            if extent <= 2 * tasks:
                self._preserve(self.names[self.outer])
            else:
                self._split(self.outer, ceil(extent / tasks), keep_inner=False)
        func = dag.funcs[self.stage.func]
        return Rfactor(func.origin, self.stage.index - 1, self.splits, self.preserved)

    def _split(self, loop: int, factor: int, *, keep_inner: bool) -> None:
        """Split what is left of a loop, and preserve one of the parts."""
        outer, inner = self._name("o"), self._name("i")
        self.splits.append((self.names[loop], outer, inner, factor))
        self._preserve(inner if keep_inner else outer)
        self.names[loop] = outer if keep_inner else inner

    def _preserve(self, rvar: str) -> None:
        self.preserved.append((rvar, self._name("v")))

    def _name(self, suffix: str) -> str:
        base = f"{self.stage.loops[self.inner].name.split('$')[0]}_f{self.stage.index}{suffix}"
        name = next(n for n in (base if k == 0 else f"{base}{k}" for k in count()) if n not in self.taken)
        self.taken.add(name)
        return name
