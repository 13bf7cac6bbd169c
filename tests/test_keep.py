"""Funcs that keep the schedule their author gave them."""

import halide as hl
import pytest
from loop_nests import loops
from small_pipelines import ExactRuns, X, Y, finish, image, some_machine

import metol
from metol import _core
from metol.errors import KeepError, ScheduleMismatchError
from metol.lower import Call, Site, describe_funcs
from metol.lower.func_ref import pipeline_funcs
from metol.options import SearchOptions
from metol.pipeline import strip_schedules
from metol.planner import Planner
from metol.targets.rfactor_plan import RfactorPlan

QUICK = SearchOptions(strategy="greedy")


def hand_scheduled() -> hl.Pipeline:
    """Three Funcs, of which the second has a schedule that nobody would find."""
    source, output = image(48, 32), hl.Func("output")
    first, second = hl.Func("first"), hl.Func("second")
    first[X, Y] = source[X, Y] * source[X + 1, Y] + Y
    second[X, Y] = first[X, Y] + first[X, Y + 1]
    output[X, Y] = second[X, Y] - second[X + 1, Y + 2]
    second.compute_root().split(X, hl.Var("by_hand"), hl.Var("inner"), 5, hl.TailStrategy.GuardWithIf)
    return finish(output)


@pytest.mark.parametrize("by_name", [True, False])
def test_kept_func_keeps_its_schedule(by_name: bool, capfd: pytest.CaptureFixture[str]) -> None:
    pipeline = hand_scheduled()
    (second,) = (func for func in pipeline_funcs(pipeline) if func.name().startswith("second"))
    result = metol.autoschedule(pipeline, options=QUICK, threads=2, keep=["second" if by_name else second])
    nest = loops(pipeline, capfd)
    assert "by_hand" in nest
    (kept,) = result.schedule.kept
    assert (result.schedule.funcs[kept.func].name, kept.placement) == ("second", "root")
    assert kept.func not in {directive.func for directive in result.schedule.directives}
    assert result.origin == "search"
    assert "Schedule by hand, before: second" in result.to_python()
    other = hand_scheduled()
    metol.Schedule.from_json(result.schedule.to_json()).apply(other)
    assert loops(other, capfd) == nest
    ExactRuns("kept", hand_scheduled).check(result.schedule)


def test_a_single_func_needs_no_list() -> None:
    pipeline = hand_scheduled()
    (second,) = (func for func in pipeline_funcs(pipeline) if func.name().startswith("second"))
    for keep in ("second", second):
        result = metol.autoschedule(hand_scheduled() if keep == "second" else pipeline, options=QUICK, keep=keep)
        assert [result.schedule.funcs[kept.func].name for kept in result.schedule.kept] == ["second"]


def test_nothing_is_computed_in_the_loops_of_a_kept_func() -> None:
    pipeline = hand_scheduled()
    (second,) = (i for i, func in enumerate(describe_funcs(pipeline)) if func.name == "second")
    result = metol.autoschedule(pipeline, options=SearchOptions(beam_width=8), threads=2, keep=["second"])
    sites = [a for d in result.schedule.directives for a in d.args if isinstance(a, Site)]
    assert second not in {site.func for site in sites}


def test_kept_func_is_verified_with_its_schedule() -> None:
    result = metol.autoschedule(hand_scheduled(), options=QUICK, threads=1, keep=["second"], verify=True)
    assert "exact" in result.verification


def test_schedule_refuses_a_pipeline_without_the_hand_written_part() -> None:
    result = metol.autoschedule(hand_scheduled(), options=QUICK, threads=2, keep=["second"])
    bare = hand_scheduled()
    strip_schedules(bare)
    with pytest.raises(
        ScheduleMismatchError, match="`second` that is written by hand and puts it at the root; here it"
    ):
        result.schedule.apply(bare)


def test_inline_may_be_what_is_kept() -> None:
    result = metol.autoschedule(hand_scheduled(), options=QUICK, threads=2, keep=["first"])
    (kept,) = result.schedule.kept
    assert kept.placement == "inline"
    ExactRuns("kept", lambda: stripped(hand_scheduled())).check(result.schedule)


def stripped(pipeline: hl.Pipeline) -> hl.Pipeline:
    strip_schedules(pipeline)
    return pipeline


def test_unknown_func_to_keep_is_told_with_those_that_there_are() -> None:
    with pytest.raises(KeepError, match=r"no Func `third`.*first, second, output"):
        metol.autoschedule(hand_scheduled(), options=QUICK, keep=["third"])


def test_func_at_a_loop_of_one_that_is_scheduled_anew_cannot_be_kept() -> None:
    pipeline = hand_scheduled()
    first, second = (func for func in pipeline_funcs(pipeline) if func.name().split("$")[0] in ("first", "second"))
    first.compute_at(second, Y)
    with pytest.raises(KeepError, match="Keep `second`, too"):
        metol.autoschedule(pipeline, options=QUICK, keep=[first])
    result = metol.autoschedule(pipeline, options=QUICK, threads=2, keep=[first, second])
    assert [kept.placement for kept in result.schedule.kept] == ["at", "root"]


def around_a_sum() -> hl.Pipeline:
    """A sum of all of what one kept Func computes, which another reads; both are in the pipeline as it was given."""
    source = image(512, 256)
    before, whole, after, output = (hl.Func(name) for name in ("before", "whole", "after", "output"))
    r = hl.RDom([(0, 512), (0, 256)], "r")
    before[X, Y] = source[X, Y] // 2
    whole[()] = 0
    whole[()] += before[r.x, r.y]
    after[X, Y] = before[X, Y] - whole[()]
    output[X, Y] = after[X, Y] * after[X + 1, Y]
    for func in (before, after):
        func.compute_root().split(X, hl.Var("by_hand"), hl.Var("inner"), 5, hl.TailStrategy.GuardWithIf)
    return finish(output, sizes=(511, 256))


def names_of(schedule: metol.Schedule, call: Call) -> set[str]:
    return {schedule.funcs[directive.func].name for directive in schedule.directives if directive.call is call}


def test_others_are_computed_in_two_steps_beside_kept_funcs(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline = around_a_sum()
    result = metol.autoschedule(pipeline, machine=some_machine(), options=QUICK, keep=["before", "after"], verify=True)
    assert result.origin == "search"
    assert names_of(result.schedule, Call.RFACTOR) == {"whole"}
    kept = {keep.func for keep in result.schedule.kept}
    assert not kept & {directive.func for directive in result.schedule.directives}
    assert loops(pipeline, capfd).count("by_hand") == 2


def test_kept_funcs_are_at_root_where_another_is_computed_in_two_steps() -> None:
    planner = Planner(around_a_sum(), QUICK, machine=some_machine(), keep=["before", "after"])
    kept = {keep.func for keep in planner.kept}
    update = next(stage for stage in planner.dag.stages if any(loop.is_reduction for loop in stage.loops))
    plan = RfactorPlan.of(planner.dag, update)
    plan.keep(0)
    dag, space = planner.form((plan.rfactor,)).dag, planner.form((plan.rfactor,)).space
    positions = {position for position, func in enumerate(dag.funcs) if func.origin in kept}
    assert positions != kept
    rolled = space.rollout(space.root(), range(30))
    for number in range(30):
        nest = rolled.take([number]).describe()
        guests = [schedule for schedule in nest if schedule.placement == _core.Placement.AT]
        assert {nest[position].placement for position in positions} == {_core.Placement.ROOT}
        assert not positions & {dag.stages[guest.compute.stage].func for guest in guests}


def test_updates_of_kept_funcs_stay_in_one_step() -> None:
    pipeline = around_a_sum()
    (whole,) = (func for func in pipeline_funcs(pipeline) if func.name().startswith("whole"))
    whole.compute_root()
    result = metol.autoschedule(pipeline, machine=some_machine(), options=QUICK, keep=[whole])
    assert result.origin == "search"
    assert names_of(result.schedule, Call.RFACTOR) == set()


@pytest.mark.parametrize("is_scheduled", [False, True])
def test_output_that_is_kept_is_at_root(is_scheduled: bool) -> None:
    x, y = hl.Var("x"), hl.Var("y")
    source, blurred, output = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("blurred"), hl.Func("output")
    blurred[x, y] = source[x, y] * source[x + 1, y]
    output[x, y] = blurred[x, y] + blurred[x, y + 1]
    output.set_estimates([(0, 300), (0, 200)])
    source.set_estimates([(0, 301), (0, 201)])
    if is_scheduled:
        output.parallel(y)
    result = metol.autoschedule(hl.Pipeline(output), keep=[output])
    assert result.origin == "search", result.fallbacks
