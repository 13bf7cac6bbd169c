"""Outputs of parts that lie side by side: where their code changes, and the version that has a turn for each part."""

from collections.abc import Callable
from math import prod

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, ExactRuns, X, Y, finish, func_named, image, make_space

from metol import _core
from metol.lower import Call, LoweringOptions, Schedule, cpu_directives, describe_funcs
from metol.lower.directive import Var
from metol.pipeline import PipelineDag, extract

PART, HEIGHT = 64, 96


@pytest.mark.parametrize(
    ("value", "seams"),
    [
        (hl.select(X < 5, 1, 2), [5]),
        (hl.select(X <= 5, 1, 2), [6]),
        (hl.select(X > 5, 1, 2), [6]),
        (hl.select(X >= 5, 1, 2), [5]),
        (hl.select(hl.i32(5) > X, 1, 2), [5]),
        (hl.select(hl.i32(5) >= X + 2, 1, 2), [4]),
        (hl.select(7 - X < 5, 1, 2), [3]),
        (hl.select(7 - X <= 5, 1, 2), [2]),
        (hl.select(X == 5, 1, 2), []),
        (hl.select(2 * X < 5, 1, 2), []),
        (hl.select(X + Y < 5, 1, 2), []),
        (hl.min(X, 4), [5]),
        (hl.max(X, 5), [5]),
        (hl.clamp(X - 8, 0, 7), [8, 16]),
    ],
    ids=str,
)
def test_a_loop_has_seams_where_a_comparison_or_a_clamp_turns(value: hl.Expr, seams: list[int]) -> None:
    func = hl.Func("func")
    func[X, Y] = value
    func.set_estimates([(0, 64), (0, 64)])
    (stage,) = extract(hl.Pipeline(func)).stages
    assert stage.seams == [seams, []]


def side_by_side(*, of: str = "output") -> hl.Pipeline:
    """Two images, of which the second is twice as wide, joined in the output or in what is inlined into it."""
    left, right = image(PART, HEIGHT, name="left"), image(2 * PART, HEIGHT, name="right")
    joined, output = hl.Func("joined"), hl.Func("output")
    joined[X, Y] = hl.select(
        X < PART, left[hl.clamp(X, 0, PART - 1), Y], right[hl.clamp(X - PART, 0, 2 * PART - 1), Y] + 1
    )
    if of == "output":
        joined.set_estimates([(0, 3 * PART), (0, HEIGHT)])
        return hl.Pipeline(joined)
    output[X, Y] = joined[X, Y] * 2
    return finish(output, sizes=(3 * PART, HEIGHT))


def of_another() -> hl.Pipeline:
    return side_by_side(of="another")


def in_quarters() -> hl.Pipeline:
    """Four parts, told apart along both dimensions, of which rows of tiles do not divide the height."""
    source, output = image(3 * PART, HEIGHT), hl.Func("output")
    across, down = hl.clamp(X - 3 * PART // 2, 0, 3 * PART // 2 - 1), hl.clamp(Y - HEIGHT // 2, 0, HEIGHT // 2 - 1)
    right = hl.select(Y < HEIGHT // 2, source[across, Y], source[across, down])
    output[X, Y] = hl.select(X < 3 * PART // 2, source[X, Y] + 1, right)
    return finish(output, sizes=(3 * PART, HEIGHT))


def read_by_another() -> hl.Pipeline:
    """An output of parts, which another output reads."""
    source, joined, output = image(3 * PART, HEIGHT), hl.Func("joined"), hl.Func("output")
    joined[X, Y] = hl.select(X < PART, source[X, Y], source[X, Y] + 1)
    output[X, Y] = joined[X, Y] * 2
    for func in (joined, output):
        func.set_estimates([(0, 3 * PART), (0, HEIGHT)])
    return hl.Pipeline([joined, output])


def by_a_parameter() -> hl.Pipeline:
    """Where the parts meet, a parameter says: its estimate is no place to split at."""
    source, output, where = image(3 * PART, HEIGHT), hl.Func("output"), hl.Param(hl.Int(32), "where")
    where.set_estimate(PART)
    output[X, Y] = hl.select(where > X, source[X, Y], source[X, Y] + 1)
    return finish(output, sizes=(3 * PART, HEIGHT))


def in_many_parts() -> hl.Pipeline:
    """Parts whose widths have no divisor."""
    source, output = image(3 * PART, HEIGHT), hl.Func("output")
    output[X, Y] = hl.select(X < PART + 1, source[X, Y], source[X, Y] + 1)
    return finish(output, sizes=(3 * PART, HEIGHT))


def leaves(dag: PipelineDag) -> list[list[_core.FuncSchedule]]:
    space = make_space(dag, target=SOME_TARGET)
    found = space.rollout(space.root(), range(40))
    return [found.take([i]).describe() for i in range(40)]


def part_splits(dag: PipelineDag, schedules: list[_core.FuncSchedule], **options: bool) -> list[int]:
    directives = cpu_directives(dag, schedules, LoweringOptions(**options))
    return [d.args[3] for d in directives if d.call is Call.SPLIT and d.args[1] == Var("x_panel")]


@pytest.mark.parametrize("build", [side_by_side, of_another])
def test_an_output_has_a_version_with_a_turn_for_each_part(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    seen = set()
    for schedules in leaves(dag):
        (output,) = (s for s in schedules if dag.funcs[s.func].is_output)
        (nest,) = output.stages
        is_alone = all(s.placement != _core.Placement.AT for s in schedules)
        *around, tile = [level[0] for level in nest.levels]
        is_parallel = nest.is_parallel and around[0] > 1
        # All of the outermost loop that turns, but for one turn of it, is inside of a part.
        turning = [count for count in around if count > 1]
        is_split = max(1, len(turning)) + (tile > 1) > 1
        expected = is_alone and is_split and tile * prod(turning[1:]) <= PART and not is_parallel
        splits = part_splits(dag, schedules)
        assert splits == ([PART] if expected and is_joined_inside(dag, schedules) else [])
        seen.add(expected)
        assert part_splits(dag, schedules, specialize_estimate=False) == []
        # There the sizes are known anyway.
        assert part_splits(dag, schedules, specialize_estimate=False, fixed_sizes=True) == splits
    assert seen == {True, False}


def is_joined_inside(dag: PipelineDag, schedules: list[_core.FuncSchedule]) -> bool:
    """Is what joins the parts the output, or inlined into it?"""
    return all(
        schedule.placement == _core.Placement.INLINE
        for func, schedule in zip(dag.funcs, schedules, strict=True)
        if not (func.is_output or func.is_input)
    )


@pytest.mark.parametrize("build", [in_many_parts, by_a_parameter])
def test_parts_that_no_width_divides_stay_together(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    assert not any(part_splits(dag, schedules) for schedules in leaves(dag))


@pytest.mark.parametrize("options", [{}, {"fixed_sizes": True}])
def test_an_output_that_another_reads_has_one_version(options: dict[str, bool]) -> None:
    dag = extract(read_by_another())
    for schedules in leaves(dag):
        directives = cpu_directives(dag, schedules, LoweringOptions(**options))
        assert not any(Var("x_panel") in d.args for d in directives if d.func == joined_func(dag))


def joined_func(dag: PipelineDag) -> int:
    return dag.funcs[func_named(dag, "joined")].origin


@pytest.mark.parametrize("fixed_sizes", [False, True])
@pytest.mark.parametrize("build", [side_by_side, of_another, in_quarters])
def test_parts_change_no_result(build: Callable[[], hl.Pipeline], fixed_sizes: bool) -> None:
    dag = extract(build())
    runs = ExactRuns("panels", build)
    runs.cases = runs.cases[:1] if fixed_sizes else runs.cases
    made = [cpu_directives(dag, schedules, LoweringOptions(fixed_sizes=fixed_sizes)) for schedules in leaves(dag)]
    split = [directives for directives in made if any(Var("x_panel") in d.args for d in directives)]
    assert split
    for directives in split[:4]:
        runs.check(Schedule(funcs=describe_funcs(build()), directives=directives))
