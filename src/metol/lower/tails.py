"""Which tail strategy a split gets, so that the result is right at every output size.

Only the first split of a loop can leave a remainder; the factors of those inside divide. Outputs and updates are guarded.
Other Funcs may compute a little more than is asked of them, unless they read an input whose size the user fixes, or
use a computed value as an index.
"""

from collections.abc import Sequence

from metol import _core
from metol.lower.directive import Tail
from metol.pipeline import PipelineDag

__all__ = ["TailRule"]


class TailRule:
    """Chooses tails for the splits of one scheduled pipeline."""

    def __init__(self, dag: PipelineDag, schedules: Sequence[_core.FuncSchedule]) -> None:
        self.dag = dag
        self.inlined = {s.func for s in schedules if s.placement == _core.Placement.INLINE}

    def first_split(self, stage: _core.Stage, loop: int, *, is_tile: bool, is_only: bool) -> Tail:
        """The tail of the split that can leave a remainder.

        Args:
            stage: The Stage.
            loop: Position of the loop in it.
            is_tile: The inner part is the innermost tile: rounding up costs part of a vector, not part of a task.
            is_only: The inner part is not split again; Halide refuses to split what predicated loads came from.
        """
        func = self.dag.funcs[stage.func]
        is_guarded = (
            func.is_output
            or len(func.stages) > 1
            or stage.loops[loop].is_reduction
            or not is_tile
            or self._indexes_by_value(stage)
        )
        if is_guarded:
            return Tail.GUARD_WITH_IF
        if self._reads_input(stage):
            return Tail.PREDICATE_LOADS if is_only else Tail.GUARD_WITH_IF
        return Tail.ROUND_UP

    def inner_split(self, stage: _core.Stage) -> Tail:
        """The tail of a split whose factor divides what it splits; updates accept nothing but a guard."""
        return Tail.GUARD_WITH_IF if stage.index > 0 else Tail.ROUND_UP

    def _reads_input(self, stage: _core.Stage) -> bool:
        """Does the Stage load from an input at coordinates that nothing clamps?"""
        for edge in stage.edges:
            producer = self.dag.funcs[edge.producer]
            if producer.is_input:
                return True
            is_looked_through = edge.producer in self.inlined and not producer.is_boundary_condition
            if is_looked_through and self._reads_input(self.dag.stages[producer.stages[0]]):
                return True
        return False

    def _indexes_by_value(self, stage: _core.Stage) -> bool:
        """Does the Stage, or anything inlined into it, use a loaded value as a coordinate?"""
        if stage.has_data_dependent_read or stage.has_data_dependent_write:
            return True
        return any(
            self._indexes_by_value(self.dag.stages[self.dag.funcs[edge.producer].stages[0]])
            for edge in stage.edges
            if edge.producer in self.inlined
        )
