"""Applies a list of directives to a Halide pipeline.

Enters: a schedule and a pipeline that carries none. Leaves: nothing; the Funcs of the pipeline are scheduled. Recorded
names of loops are mapped to those of this pipeline by position.
"""

import functools
import operator
from typing import Any

import halide as hl

from metol.errors import RefusedDirectiveError, ScheduleMismatchError
from metol.lower.check import intermediate_funcs
from metol.lower.directive import Call, Directive, Loop, Site, Tail, Var
from metol.lower.func_ref import check_fit, condition_output, describe_funcs, pipeline_funcs
from metol.lower.render import render_arguments
from metol.lower.schedule_data import ScheduleData
from metol.pipeline import placements

__all__ = ["apply_schedule"]


def apply_schedule(schedule: ScheduleData, pipeline: hl.Pipeline | hl.Func) -> None:
    """Make every call of the schedule on a pipeline, or on the pipeline that ends in a Func.

    Raises:
        ScheduleMismatchError: the schedule is for another pipeline; nothing has been scheduled then.
        RefusedDirectiveError: Halide refused a directive; those before it have been applied.
    """
    if isinstance(pipeline, hl.Func):
        pipeline.compute_root()  # what an output is anyway; makes the Func forget what it compiled before
        pipeline = hl.Pipeline(pipeline)
    check_fit(schedule.funcs, describe_funcs(pipeline))
    _check_kept(schedule, pipeline)
    backend = _HalideBackend(schedule, pipeline)
    for number, directive in enumerate(schedule.directives):
        try:
            backend.call(directive)
        except hl.HalideError as refusal:
            raise RefusedDirectiveError(
                f"Halide refused directive {number} of the schedule, `{directive}`, on Func "
                f"`{backend.func(directive.func).name()}`: {str(refusal).strip()}. The directives before it have been "
                "applied: build the pipeline again before scheduling it in another way."
            ) from refusal
    pipeline.invalidate_cache()


def _check_kept(schedule: ScheduleData, pipeline: hl.Pipeline) -> None:
    """Raise ScheduleMismatchError where a Func does not carry the schedule that was written by hand."""
    if not schedule.kept:
        return
    found = placements(pipeline)
    for keep in schedule.kept:
        placement, _ = found[keep.func]
        if placement != keep.placement:
            raise ScheduleMismatchError(
                f"The schedule was made to go with a schedule of `{schedule.funcs[keep.func].name}` that is written by "
                f"hand and puts it {_PLACES[keep.placement]}; here it is {_PLACES[placement]}. Schedule it first."
            )


_PLACES = {"inline": "inline", "root": "at the root", "at": "at a loop of another Func"}


class _HalideBackend:
    """Turns arguments into Halide's objects, and makes the calls."""

    def __init__(self, schedule: ScheduleData, pipeline: hl.Pipeline) -> None:
        self._refs = schedule.funcs + intermediate_funcs(schedule.funcs, schedule.directives)
        self._funcs = pipeline_funcs(pipeline)
        self._loops: dict[tuple[int, str], Any] = {}  # (Func, recorded name) -> Var
        self._rvars: dict[tuple[int, int, str], Any] = {}  # (Func, Stage, recorded name) -> RVar
        self._branches: dict[tuple[int, int, tuple[int, ...]], Any] = {}
        self._branch_counts: dict[tuple[int, int, tuple[int, ...]], int] = {}
        for ref, func in zip(self._refs, self._funcs, strict=False):
            self._name_vars(ref.index, func)
            for update, names in enumerate(ref.rvars):
                for name, rvar in zip(names, func.rvars(update), strict=True):
                    self._rvars[ref.index, update + 1, name] = rvar

    def _name_vars(self, index: int, func: Any) -> None:
        for name, var in zip(self._refs[index].args, func.args(), strict=True):
            self._loops[index, name] = var

    def call(self, directive: Directive) -> None:
        """Make the call of one directive."""
        owner = self._owner(directive)
        result = getattr(owner, directive.call.python_method)(*render_arguments(directive, self))
        key = (directive.func, directive.stage, directive.branch)
        if directive.call.makes_branch:
            count = self._branch_counts.get(key, 0)
            self._branch_counts[key] = count + 1
            self._branches[key[0], key[1], (*directive.branch, count)] = result
        elif directive.call.makes_func:
            index = len(self._funcs)
            self._funcs.append(result)
            self._name_vars(index, result)
            for names in self._refs[index].rvars:  # rfactor hands its RVars on under their old names
                for name in names:
                    if (directive.func, directive.stage, name) in self._rvars:
                        self._rvars[index, 1, name] = self._rvars[directive.func, directive.stage, name]

    def _owner(self, directive: Directive) -> Any:
        if directive.branch:
            return self._branches[directive.func, directive.stage, directive.branch]
        func = self._funcs[directive.func]
        if directive.call is Call.SET_BOUNDS:
            return func.output_buffers()[0].dim(directive.args[0])
        return func if directive.stage == 0 else func.update(directive.stage - 1)

    def loop(self, func: int, stage: int, loop: Loop) -> Any:
        if isinstance(loop, Var):
            return self._loops.get((func, loop.name), hl.Var(loop.name))
        return self._rvars.get((func, stage, loop.name), hl.RVar(loop.name))

    def loops(self, loops: tuple[Any, ...]) -> Any:
        return list(loops)

    def root(self) -> Any:
        return hl.LoopLevel.root()

    def stage_level(self, site: Site) -> Any:
        assert site.loop is not None
        return hl.LoopLevel(self._funcs[site.func], self.loop(site.func, site.stage, site.loop), site.stage)

    def func(self, func: int) -> Any:
        return self._funcs[func]

    def number(self, value: int) -> Any:
        return value

    def tail(self, tail: Tail) -> Any:
        return getattr(hl.TailStrategy, tail.value)

    def memory(self, name: str) -> Any:
        return getattr(hl.MemoryType, name)

    def minimum_extents(self, func: int, extents: tuple[tuple[int, int], ...]) -> Any:
        buffer = self._funcs[condition_output(self._refs, func)].output_buffers()[0]
        return functools.reduce(operator.and_, (buffer.dim(d).extent() >= extent for d, extent in extents))

    def exact_sides(self, func: int, sides: tuple[tuple[int, int, int], ...]) -> Any:
        buffer = self._funcs[condition_output(self._refs, func)].output_buffers()[0]
        conditions = [
            part for d, low, extent in sides for part in (buffer.dim(d).min() == low, buffer.dim(d).extent() == extent)
        ]
        return functools.reduce(operator.and_, conditions)

    def preserved(self, pairs: tuple[tuple[Any, Any], ...]) -> Any:
        return list(pairs)
