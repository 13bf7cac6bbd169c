"""What was measured earlier is tried again in a pipeline that was built again."""

from dataclasses import replace

import halide as hl
from measured import KEY
from small_pipelines import HEIGHT, WIDTH, ExactRuns, X, Y, finish, image

from metol.lower import Call, Schedule
from metol.measure import Status
from metol.options import SearchOptions
from metol.tune import Problem, Record, TunerOptions
from metol.tune.standings import Standings
from metol.tune.tuner import Tuner

QUICK = SearchOptions(strategy="greedy", budget_seconds=None)


def total() -> hl.Pipeline:
    """A sum over what nobody has named, so that Halide names it differently each time."""
    source, r, output = image(WIDTH, HEIGHT), hl.RDom([(0, WIDTH), (0, HEIGHT)]), hl.Func("output")
    whole = hl.Func("whole")
    whole[()] = 0
    whole[()] += source[r.x, r.y]
    output[X, Y] = whole[()] + X
    return finish(output)


def schedule_of(problem: Problem) -> Schedule:
    best = next(iter(problem.planner.search().candidates))
    frame = problem.planner.frame
    return Schedule(frame.funcs, best.directives(), frame.algorithm_hash)


def test_a_schedule_without_decisions_is_tried_where_names_that_nobody_chose_differ() -> None:
    with Problem(total(), options=QUICK, threads=2) as before:
        schedule = schedule_of(before)
    assert any(directive.call is Call.RFACTOR for directive in schedule.directives)
    # Not what the search finds again, whatever its loops are called.
    schedule = replace(schedule, directives=tuple(d for d in schedule.directives if d.call is not Call.VECTORIZE))
    record = Record(KEY, "total", "search", Status.OK, schedule=schedule.to_json(), run_ms=1.0, is_verified=True)
    with Problem(total(), options=QUICK, threads=2) as problem:
        seeds = Tuner(problem, TunerOptions(), Standings()).seeds(problem.planner.search(), [record], [])
    (again,) = [seed for seed in seeds if seed.origin == "record"]
    assert again.is_foreign
    ExactRuns("histogram", total).check(again.schedule)
