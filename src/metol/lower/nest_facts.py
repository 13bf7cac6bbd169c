"""What the rules for tails need to know of a schedule: where Funcs are computed, which loops are vectors, what slides.

In: the loop nests of a search, or directives. Out: `NestFacts`.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from metol import _core
from metol.lower.directive import Call, Directive, RVar, Site, Var
from metol.lower.func_ref import FuncRef
from metol.lower.loop_origins import LoopOrigins
from metol.lower.sliding import slide_dims
from metol.pipeline import PipelineDag

__all__ = ["NestFacts", "facts_of_directives", "facts_of_nests", "stage_loops"]


@dataclass(frozen=True, slots=True)
class NestFacts:
    """Where each Func of a schedule is computed, and how. Funcs and Stages are ids of the DAG."""

    inlined: Set[int]
    """Funcs that are computed nowhere but in what reads them."""
    innermost_dims: Mapping[int, int]
    """Func -> the dimension whose neighbours are neighbours in its memory; 0 for others."""
    vector_loops: Mapping[int, int]
    """Stage -> the position of the loop that runs in vectors; -1, or nothing, for none."""
    slide_dims: Mapping[int, Set[int]]
    """Func -> the dimensions along which it keeps what an iteration before computed."""
    share_loops: Set[int]
    """Funcs that run in the loops of others (`compute_with`), and those others."""
    hosts: Mapping[int, int]
    """Func -> the Func in whose loops it is computed."""


def facts_of_nests(dag: PipelineDag, schedules: Sequence[_core.FuncSchedule]) -> NestFacts:
    """Return the facts of a complete loop nest."""
    followers = {s.func for s in schedules if any(nest.leader >= 0 for nest in s.stages)}
    leaders = {dag.stages[nest.leader].func for s in schedules for nest in s.stages if nest.leader >= 0}
    return NestFacts(
        inlined={s.func for s in schedules if s.placement == _core.Placement.INLINE},
        innermost_dims={s.func: s.innermost_dim for s in schedules},
        vector_loops={
            stage: nest.vector_loop
            for s in schedules
            for stage, nest in zip(dag.funcs[s.func].stages, s.stages, strict=False)
        },
        slide_dims={s.func: {s.slide_dim} for s in schedules if s.slide_dim >= 0},
        share_loops=followers | leaders | {number for number, func in enumerate(dag.funcs) if func.joint},
        hosts={s.func: dag.stages[s.compute.stage].func for s in schedules if s.placement == _core.Placement.AT},
    )


def storage_order(func: _core.Func, schedule: _core.FuncSchedule) -> tuple[Var, ...]:
    """The order of a Func's memory, innermost first, for `reorder_storage`; empty where it is as declared, or given."""
    inner = schedule.innermost_dim
    if inner <= 0 or func.is_output:
        return ()
    return tuple(Var(func.args[d]) for d in (inner, *(d for d in range(func.dimensions) if d != inner)))


def stage_loops(refs: Sequence[FuncRef], directives: Sequence[Directive], dag: PipelineDag) -> dict[int, LoopOrigins]:
    """Return the loops that each Stage of each scheduled Func has in the end, by Stage of the DAG."""
    return {
        stage: LoopOrigins(refs[func], dag.stages[stage], _of_stage(directives, func, index))
        for func in {directive.func for directive in directives}
        for index, stage in enumerate(dag.funcs[func].stages)
    }


def facts_of_directives(refs: Sequence[FuncRef], directives: Sequence[Directive], dag: PipelineDag) -> NestFacts:
    """Return the facts of a schedule without specializations and `compute_with`.

    Args:
        refs: The Funcs, as the directives name their loops.
        directives: All of the schedule.
        dag: The pipeline.
    """
    loops = stage_loops(refs, directives, dag)
    scheduled = {directive.func for directive in directives}
    innermost_dims, vector_loops, hosts = {}, {}, {}
    for directive in directives:
        match directive.call, directive.args:
            case Call.REORDER_STORAGE, (Var(name), *_):
                innermost_dims[directive.func] = refs[directive.func].args.index(name)
            case Call.VECTORIZE, (Var() | RVar() as loop, *_):
                stage = dag.funcs[directive.func].stages[directive.stage]
                number = loops[stage][loop].loop
                # Steps of a sum that are lanes, too, are not where the vectors lie.
                if not dag.stages[stage].loops[number].is_reduction:
                    vector_loops[stage] = number
            case Call.COMPUTE_AT, (Site(host),):
                hosts[directive.func] = host
    return NestFacts(
        inlined={
            position
            for position, func in enumerate(dag.funcs[: dag.real_func_count])
            if position not in scheduled and not func.is_input and not func.is_output
        },
        innermost_dims=innermost_dims,
        vector_loops=vector_loops,
        slide_dims=slide_dims(dag, directives, loops),
        share_loops=frozenset(),
        hosts=hosts,
    )


def _of_stage(directives: Sequence[Directive], func: int, stage: int) -> Iterator[Directive]:
    return (directive for directive in directives if (directive.func, directive.stage) == (func, stage))
