"""Loads that all lanes of a vector share, and that a `where` which tells lanes apart no longer holds back."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import (
    SOME_TARGET,
    WIDE_TARGET,
    X,
    Y,
    finish,
    func_named,
    image,
    make_gate,
    make_space,
    schedule_of,
    schedule_with,
    some_machine,
)

from metol import autoschedule
from metol.lower import Call, Directive, Tail, Var, describe_funcs, safe_directives
from metol.pipeline import PipelineDag, extract

SIDE = 48
ROLLOUTS = 100
Condition = Callable[[hl.Expr], hl.Expr]

CONDITIONS: dict[str, Condition] = {
    "both": lambda k: k <= hl.min(X, Y),
    "column": lambda k: k < X,
    "from_column": lambda k: k >= X,
    "row": lambda k: k <= Y,
    "band": lambda k: hl.abs(k - X) < 4,
    "others": lambda k: k != X,
    "numbers": lambda k: k < SIDE - 3,
}


def product(condition: str) -> hl.Pipeline:
    """A product of matrices of which a condition leaves some terms out."""
    a, b, sums = image(SIDE, SIDE, name="a"), image(SIDE, SIDE, name="b"), hl.Func("sums")
    k = hl.RDom([(0, SIDE)], "k")
    k.where(CONDITIONS[condition](k.x))
    sums[X, Y] = 0
    sums[X, Y] += a[k.x, Y] * b[X, k.x]
    return finish(sums, sizes=(SIDE, SIDE))


def bare_loops(dag: PipelineDag, name: str = "sums") -> set[str]:
    update = dag.stages[dag.funcs[func_named(dag, name)].stages[1]]
    return {loop.name for loop, is_bare in zip(update.loops, update.bare_loops, strict=True) if is_bare}


@pytest.mark.parametrize(
    ("condition", "bare"),
    [
        ("both", {"x", "y"}),
        ("column", {"x"}),
        ("from_column", {"x"}),
        ("row", {"y"}),
        ("band", set()),
        ("others", set()),
        ("numbers", set()),
    ],
)
def test_lanes_leave_loads_bare_that_a_condition_on_them_ends(condition: str, bare: set[str]) -> None:
    assert bare_loops(extract(product(condition))) == bare


def test_loads_of_what_is_inlined_are_looked_at() -> None:
    def scaled(*, by_column: bool) -> hl.Pipeline:
        source, scale, product, sums = image(SIDE, SIDE), image(SIDE), hl.Func("product"), hl.Func("sums")
        k = hl.RDom([(0, SIDE)], "k")
        k.where(k.x <= X)
        product[X, Y] = source[X, Y] * scale[X if by_column else Y]
        sums[X, Y] = 0
        sums[X, Y] += product[X, k.x] + Y
        return finish(sums, sizes=(SIDE, SIDE))

    assert bare_loops(extract(scaled(by_column=False))) == {"x"}
    assert "x" not in bare_loops(extract(scaled(by_column=True)))


def test_where_a_point_is_read_as_well_as_a_loop_its_coordinates_end_nothing() -> None:
    points, sums, k = image(SIDE, 3), hl.Func("sums"), hl.RDom([(0, SIDE)], "k")
    k.where(k.x != X)
    sums[X, Y] = 0
    sums[X, Y] += (points[k.x, Y] - points[X, Y]) * points[k.x, 0]
    assert bare_loops(extract(finish(sums, sizes=(SIDE, 3)))) == set()


def test_what_a_condition_itself_reads_ends_nothing() -> None:
    points, sums, k = image(SIDE), hl.Func("sums"), hl.RDom([(0, SIDE)], "k")
    k.where(points[k.x] < points[X])
    sums[X] = 0
    sums[X] += points[k.x]
    assert bare_loops(extract(finish(sums, sizes=(SIDE,)))) == set()


@pytest.mark.parametrize("condition", ["both", "row"])
def test_halide_loads_for_all_lanes_what_no_lane_wants(condition: str) -> None:
    (func,) = (func.index for func in describe_funcs(product(condition)) if func.name == "sums")
    outer, lanes = Var("outer"), Var("lanes")
    split = Directive(func, 1, Call.SPLIT, (Var("x"), outer, lanes, 8, Tail.GUARD_WITH_IF))
    at_root = Directive(func, 0, Call.COMPUTE_ROOT)
    vectors = schedule_with(lambda: product(condition), (at_root, split, Directive(func, 1, Call.VECTORIZE, (lanes,))))
    refusal = make_gate(lambda: product(condition), SOME_TARGET).refusal(vectors)
    assert ("its code touches element" in refusal) == (condition == "both")


@pytest.mark.parametrize("condition", ["column", "row"])
def test_the_safe_schedule_makes_no_such_vectors(condition: str) -> None:
    def build() -> hl.Pipeline:
        (sums,) = product(condition).outputs()
        output = hl.Func("output")
        output[X, Y] = sums[X, Y] * 2
        return finish(output, sizes=(SIDE, SIDE))

    dag = extract(build())
    safe = safe_directives(dag, 32)
    update = {one.call for one in safe if one.stage == 1}
    assert (Call.VECTORIZE in update) == (condition == "row")
    assert Call.PARALLEL in update
    assert make_gate(build, SOME_TARGET).refusal(schedule_with(build, safe)) == ""


@pytest.mark.parametrize("target", [SOME_TARGET, WIDE_TARGET])
@pytest.mark.parametrize("condition", ["both", "column", "row", "band"])
def test_no_vectors_go_along_such_a_loop_and_all_loop_nests_are_accepted(condition: str, target: str) -> None:
    dag = extract(product(condition))
    space = make_space(dag, target=target)
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    func = func_named(dag, "sums")
    update = dag.stages[dag.funcs[func].stages[1]]
    found = {leaves.take([i]).describe()[func].stages[1].vector_loop for i in range(ROLLOUTS)}
    names = {update.loops[loop].name if loop >= 0 else "" for loop in found}
    # An output runs in vectors along its rows or not at all, and where a condition tells lanes apart, not always.
    assert names == {"both": {""}, "column": {""}, "row": {"x"}, "band": {"x", ""}}[condition]
    gate = make_gate(lambda: product(condition))
    for i in range(0, ROLLOUTS, 20):
        assert gate.refusal(schedule_of(lambda: product(condition), dag, leaves.take([i]))) == ""


@pytest.mark.parametrize("condition", ["both", "column", "row", "band"])
def test_the_best_found_is_accepted_and_has_tasks(condition: str) -> None:
    result = autoschedule(product(condition), target=SOME_TARGET, machine=some_machine(), threads=2)
    assert (result.origin, result.fallbacks) == ("search", ())
    update = {one.call for one in result.schedule.directives if one.stage == 1}
    assert Call.PARALLEL in update
    assert (Call.VECTORIZE in update) == (condition == "row")
    assert (Call.UNROLL in update) or condition == "row"


def test_what_is_read_in_many_ways_through_what_may_be_inlined_is_looked_at_once() -> None:
    side = 256
    func: hl.Func | hl.ImageParam = image(side, side, name="a")
    for level in range(24):  # 3 to this power ways
        smoothed = hl.Func(f"smoothed_{level}")
        smoothed[X, Y] = func[X, Y] + func[X // 2, Y] + func[X // 3, Y]
        func = smoothed
    sums, k = hl.Func("sums"), hl.RDom([(0, SIDE)], "k")
    k.where(k.x <= X)
    sums[X] = hl.f32(0)
    sums[X] += func[k.x, X]
    assert bare_loops(extract(finish(sums, sizes=(SIDE,)), target=SOME_TARGET)) == set()
