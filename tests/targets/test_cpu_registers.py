"""Which Funcs never reach memory: judged by the loop nest alone here, independently of the core."""

from collections.abc import Callable
from math import prod

import halide as hl
from small_pipelines import WIDE_TARGET, blur, is_one_tile, some_machine

from metol import _core
from metol.lower import Call, cpu_directives
from metol.pipeline import PipelineDag, extract
from metol.targets.cpu import cpu_parameters


def features(space: _core.Space, state: _core.States) -> list[dict[str, float]]:
    return [dict(zip(space.feature_table(), map(float, row), strict=True)) for row in space.featurize(state)[0]]


def lanes(nest: _core.StageNest) -> tuple[int, int]:
    """Width of a vector, and points of the tile along it: what a value of one Stage is to another."""
    return nest.vector_width, nest.levels[-1][nest.vector_loop] if nest.vector_loop >= 0 else 1


def is_inside_a_tile(schedules: list[_core.FuncSchedule], dag: PipelineDag, schedule: _core.FuncSchedule) -> bool:
    """Is it computed, as one tile and not as a window, in the body of its host's tile?"""
    host = dag.stages[schedule.compute.stage]
    nest = schedules[host.func].stages[host.index]
    is_flat = all(is_one_tile(own) for own in schedule.stages)
    return schedule.slide_dim < 0 and is_flat and schedule.compute.level == len(nest.levels) - 2


def leaves(build: Callable[[], hl.Pipeline], count: int) -> tuple[PipelineDag, _core.Space, _core.States]:
    dag = extract(build())
    space = _core.Space(dag, cpu_parameters(some_machine(target=WIDE_TARGET), dag), _core.SpaceOptions(), 1)
    return dag, space, space.rollout(space.root(), range(count))


def test_values_stay_in_registers_between_unrolled_tiles_of_the_same_lanes() -> None:
    dag, space, found = leaves(blur, 1500)
    seen = 0
    for position in range(len(found)):
        state = found.take([position])
        schedules = state.describe()
        for stage, row in zip(dag.stages, features(space, state), strict=True):
            schedule = schedules[stage.func]
            if row["in_registers"] == 0:
                continue
            seen += 1
            assert schedule.placement == _core.Placement.AT
            assert is_inside_a_tile(schedules, dag, schedule)
            own = schedule.stages[0]
            host = dag.stages[schedule.compute.stage]
            reader = schedules[host.func].stages[host.index]
            assert lanes(own) == lanes(reader)
            made = [d for d in cpu_directives(dag, schedules) if (d.func, d.stage) == (schedule.func, 0)]
            assert any(d.call is Call.UNROLL for d in made) or prod(own.levels[-1]) == own.vector_width
            assert prod(own.levels[-1]) / own.vector_width <= 32
            assert row["vector_stores"] == row["loop_iterations"] == row["heap_allocations"] == 0
    assert seen > 0
