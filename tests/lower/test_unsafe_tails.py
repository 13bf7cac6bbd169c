"""Unsafe tails, which only measurements ask for: one version of each Func, right at the size it is for."""

import halide as hl
import numpy as np
import pytest
from lower_cases import without_renames
from small_pipelines import PIPELINES, blur, cpu_space, schedule_of

from metol import SearchOptions, autoschedule
from metol.lower import Call, LoweringOptions, RVar, Tail, cpu_directives, describe_funcs
from metol.lower.schedule import Schedule
from metol.measure import Acceptance, BufferSizes

UNSAFE = LoweringOptions(unsafe_tails=True)


@pytest.mark.parametrize("name", PIPELINES)
def test_there_is_one_version_and_only_reductions_and_their_like_are_guarded(name: str) -> None:
    dag, space = cpu_space(PIPELINES[name])
    for seed in range(8):
        directives = cpu_directives(dag, space.rollout(space.root(), [seed]).describe(), UNSAFE)
        assert not any(directive.call.makes_branch for directive in directives)
        for directive in directives:
            if directive.call is not Call.SPLIT or isinstance(directive.args[0], RVar):
                continue
            func = dag.funcs[directive.func]
            if not func.is_output and directive.stage == 0:
                assert directive.args[-1] is Tail.ROUND_UP, f"seed {seed}: {directive}"
            assert directive.args[-1] in (Tail.ROUND_UP, Tail.SHIFT_INWARDS, Tail.GUARD_WITH_IF)


def test_loop_nest_and_factors_are_those_of_the_safe_lowering() -> None:
    dag, space = cpu_space(blur)
    for seed in range(20):
        leaf = space.rollout(space.root(), [seed])
        safe = schedule_of(blur, dag, leaf).directives
        unsafe = cpu_directives(dag, leaf.describe(), UNSAFE)

        def places(directives: tuple) -> list:
            kinds = (Call.COMPUTE_ROOT, Call.COMPUTE_AT, Call.STORE_AT, Call.STORE_ROOT, Call.STORE_IN)
            return [d for d in directives if d.call in kinds]

        def factors(directives: tuple) -> set:
            return {(d.func, d.stage, d.args[:4]) for d in without_renames(directives) if d.call is Call.SPLIT}

        assert places(safe) == places(unsafe)
        assert factors(safe) == factors(unsafe)


def padded() -> hl.Func:
    """Two stencils whose widths nothing divides."""
    x, y = hl.Var("x"), hl.Var("y")
    source, rows, result = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("rows"), hl.Func("result")
    rows[x, y] = source[x, y] * source[x + 1, y]
    result[x, y] = rows[x, y] + rows[x + 3, y + 1] + rows[x + 5, y + 2]
    source.set_estimates([(0, 1025), (0, 711)])
    result.set_estimates([(0, 1019), (0, 709)])
    return result


def test_a_result_lowers_its_loop_nest_again_and_stays_what_it_is() -> None:
    result = autoschedule(padded(), threads=2, options=SearchOptions(strategy="greedy", refine=False))
    assert result.lower is not None
    before = result.schedule
    assert result.lower(LoweringOptions()).directives == before.directives
    unsafe = result.lower(UNSAFE)
    assert isinstance(unsafe, Schedule)
    assert unsafe.directives != before.directives
    assert result.schedule == before
    assert not any(d.call.makes_branch for d in unsafe.directives)


def test_unsafe_tails_are_refused_where_schedules_are_accepted() -> None:
    # What a measurement lowers so can never be returned: whatever judges every schedule refuses it.
    dag, space = cpu_space(blur)
    sizes = BufferSizes(
        tuple(tuple((side.min, side.extent) for side in dag.funcs[output].estimate) for output in dag.outputs),
        {f.name.split("$")[0]: tuple((s.min, s.extent) for s in f.estimate) for f in dag.funcs if f.is_input},
        {},
    )
    pipeline = blur()
    with Acceptance(pipeline, sizes, target="host") as acceptance:
        for seed in range(6):
            directives = cpu_directives(dag, space.rollout(space.root(), [seed]).describe(), UNSAFE)
            assert {d.args[-1] for d in directives if d.call is Call.SPLIT} & {Tail.ROUND_UP, Tail.SHIFT_INWARDS}
            assert acceptance.refusal(Schedule(describe_funcs(pipeline), directives)) != ""


def test_unsafe_tails_are_right_at_the_estimated_size() -> None:
    def build() -> hl.Func:
        x, y = hl.Var("x"), hl.Var("y")
        rows, result = hl.Func("rows"), hl.Func("result")
        rows[x, y] = hl.i32(hl.sqrt(hl.f32(x * y + 3)) * 100)
        result[x, y] = rows[x, y] + rows[x + 3, y + 1]
        result.set_estimates([(0, 1019), (0, 301)])
        return result

    wanted = np.array(build().realize([1019, 301]))
    result = autoschedule(build(), threads=2, options=SearchOptions(strategy="greedy"))
    assert result.lower is not None
    output = build()
    result.lower(UNSAFE).apply(output)
    buffer = hl.Buffer(hl.Int(32), [1019, 301])
    output.realize(buffer)
    np.testing.assert_array_equal(np.array(buffer), wanted)
