"""What one `Rfactor` splits and keeps, whatever the machine it is for.

Enters: an update, and which parts of its reduction loops are to be loops over partial results. Leaves: an `Rfactor`,
with names for all that it makes. Halide calls a loop over partial results preserved; the Func that holds them has it
as a pure dimension, and the update, which merges them, as a reduction loop of the same name.
"""

from collections.abc import Iterable, Sequence
from itertools import count

from metol import _core
from metol._core import Rfactor
from metol.pipeline import PipelineDag

__all__ = ["RfactorPlan", "can_be_rfactored"]


def can_be_rfactored(
    stage: _core.Stage, schedule: _core.FuncSchedule, *, inside: bool = False, in_whole_parts: bool = False
) -> bool:
    """Whether an update is one that Halide can compute in two steps, and its Func at root, or inside another if it may.

    Where `k <= y` ends a loop, Halide asks for whole parts of it, of inputs, too. Where `k < count[y]` does, it asks
    for no more than without, as long as parts are whole.
    """
    is_asked_for = stage.ends_by_place if in_whole_parts else stage.ends_by_point
    can_be_split = stage.is_associative and stage.has_safe_identities and not is_asked_for
    is_reduction = stage.index > 0 and can_be_split and any(loop.is_reduction for loop in stage.loops)
    is_there = schedule.placement == _core.Placement.ROOT or (inside and schedule.placement == _core.Placement.AT)
    return is_reduction and is_there and stage.index < len(schedule.stages)


class RfactorPlan:
    """The splits of one update, and the loops over its partial results, in the order in which they were asked for.

    A loop is known by its place among the reduction loops of the update; what is said of one that was split is said of
    the part that is left of it, which is not kept.
    """

    def __init__(self, func: int, update: int, loops: Sequence[str], taken: Iterable[str] = ()) -> None:
        """Start with no partial results.

        Args:
            func: The Func, by its number in the pipeline as it was given.
            update: The number of its update.
            loops: The reduction loops of the update, the innermost first.
            taken: Names of other loops, as of those that were made of the update before.
        """
        self._func = func
        self._update = update
        self._left = list(loops)
        self._base = f"{max(loops, key=len).split('$')[0]}_f{update + 1}"
        self._taken = {*loops, *taken}
        self._splits: list[tuple[str, str, str, int]] = []
        self._preserved: list[tuple[str, str]] = []

    @staticmethod
    def of(dag: PipelineDag, stage: _core.Stage) -> "RfactorPlan":
        """Return the plan of a Stage that has reduction loops."""
        loops = [loop.name for loop in stage.loops if loop.is_reduction]
        # A loop that was kept as it is has its name still.
        taken = {loop.name for other in dag.stages for loop in other.loops}
        return RfactorPlan(dag.funcs[stage.func].origin, stage.index - 1, loops, taken)

    @property
    def rfactor(self) -> Rfactor:
        """What to tell Halide."""
        return Rfactor(self._func, self._update, self._splits, self._preserved)

    def merge(self) -> "RfactorPlan":
        """Return a plan of the update that is left: its loops are those over partial results, in their order."""
        return RfactorPlan(self._func, self._update, [rvar for rvar, _ in self._preserved], self._taken)

    def keep(self, loop: int) -> None:
        """Make a partial result of each iteration."""
        self._preserved.append((self._left[loop], self._name("v")))

    def keep_inner(self, loop: int, factor: int) -> None:
        """Make `factor` partial results, of every `factor`-th iteration each."""
        outer, inner = self._split(loop, factor)
        self._left[loop] = inner
        self.keep(loop)
        self._left[loop] = outer

    def keep_middle(self, loop: int, count: int, factor: int) -> None:
        """Make `count` partial results, of `factor` iterations that follow each other in every `count * factor`."""
        outer, inner = self._split(loop, count * factor)
        self._left[loop] = inner
        self.keep_outer(loop, factor)
        self._left[loop] = outer

    def keep_outer(self, loop: int, factor: int) -> None:
        """Make one partial result of `factor` iterations that follow each other."""
        outer, inner = self._split(loop, factor)
        self._left[loop] = outer
        self.keep(loop)
        self._left[loop] = inner

    def _split(self, loop: int, factor: int) -> tuple[str, str]:
        outer, inner = self._name("o"), self._name("i")
        self._splits.append((self._left[loop], outer, inner, factor))
        return outer, inner

    def _name(self, suffix: str) -> str:
        base = f"{self._base}{suffix}"
        name = next(n for n in (base if k == 0 else f"{base}{k}" for k in count()) if n not in self._taken)
        self._taken.add(name)
        return name
