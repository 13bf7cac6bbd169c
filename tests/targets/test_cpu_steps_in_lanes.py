"""Steps of a reduction that are lanes of its vectors: of which updates, what is proposed, priced, and comes out."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import halide as hl
import pytest
from slow_cases import EXHAUSTIVE
from small_pipelines import (
    SOME_TARGET,
    WIDE_TARGET,
    ExactRuns,
    X,
    Y,
    finish,
    func_named,
    image,
    make_gate,
    make_space,
    schedule_with,
    some_machine,
)

import metol
from metol import _core
from metol.lower import Call, Schedule, cpu_directives, describe_funcs, rewritten_directives
from metol.lower.directive import RVar
from metol.pipeline import PipelineDag, Rfactor, extract
from metol.search import BeamSearch, Budget
from metol.targets.cpu import CpuMachine, propose_rfactors

C = hl.Var("c")
ROWS, COLUMNS, DEPTH = 24, 64, 512
BYTE_TARGET = f"{WIDE_TARGET}-avx512_cannonlake-avx512_sapphirerapids"
"""A target with an instruction that multiplies and adds four bytes for each lane."""

BYTES, SIGNED_BYTES, WORDS = hl.UInt(8), hl.Int(8), hl.Int(16)


def products(
    first: hl.Type = BYTES, second: hl.Type = SIGNED_BYTES, depth: int = DEPTH, *, is_dense: bool = True
) -> hl.Pipeline:
    """Sums of products of two matrices of narrow numbers, both along rows, or one along columns."""
    one = image(depth, ROWS, name="one", pixel=first)
    other = image(*((depth, COLUMNS) if is_dense else (COLUMNS, depth)), name="other", pixel=second)
    k, sums, output = hl.RDom([(0, depth)], "k"), hl.Func("sums"), hl.Func("output")
    sums[X, Y] = 0
    sums[X, Y] += hl.i32(one[k.x, Y]) * hl.i32(other[k.x, X] if is_dense else other[X, k.x])
    output[X, Y] = sums[X, Y] // 16
    return finish(output, sizes=(COLUMNS, ROWS))


def step_bytes(step: Callable[[hl.Expr, hl.Expr], hl.Expr], a: hl.Type, b: hl.Type, sum_type: hl.Type) -> int:
    """`Stage.lane_bytes` of an update that adds what `step` makes of values of two types."""
    one, other = image(64, 64, name="one", pixel=a), image(64, 64, name="other", pixel=b)
    r, sums = hl.RDom([(0, 16)], "r"), hl.Func("sums")
    sums[X] = hl.cast(sum_type, 0)
    sums[X] += hl.cast(sum_type, step(one[r.x, X], other[r.x, X]))
    dag = extract(finish(sums, sizes=(64,)))
    return int(dag.stages[dag.funcs[func_named(dag, "sums")].stages[1]].lane_bytes)


def wide_product(a: hl.Expr, b: hl.Expr) -> hl.Expr:
    return hl.i32(a) * hl.i32(b)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (BYTES, SIGNED_BYTES, 1),
        (SIGNED_BYTES, BYTES, 1),
        (BYTES, BYTES, 2),
        (SIGNED_BYTES, SIGNED_BYTES, 2),
        (WORDS, BYTES, 2),
        (WORDS, WORDS, 2),
        (hl.UInt(16), WORDS, 0),
        (hl.Int(32), BYTES, 0),
    ],
    ids=str,
)
def test_products_of_narrow_numbers_may_be_lanes(a: hl.Type, b: hl.Type, expected: int) -> None:
    assert step_bytes(wide_product, a, b, hl.Int(32)) == expected


def test_values_of_32_bits_may_be_lanes_as_they_are() -> None:
    def value(a: hl.Expr, _: hl.Expr) -> hl.Expr:
        return a

    assert step_bytes(value, hl.Float(32), BYTES, hl.Float(32)) == 4
    assert step_bytes(value, hl.Int(32), BYTES, hl.Int(32)) == 4
    assert step_bytes(value, hl.Float(64), BYTES, hl.Float(64)) == 0
    assert step_bytes(value, BYTES, BYTES, hl.UInt(32)) == 0
    # Halide 21 loses what was there before.
    assert step_bytes(lambda a, b: hl.i32(hl.absd(a, b)), BYTES, BYTES, hl.Int(32)) == 0


def test_an_update_that_reduces_nothing_has_no_steps() -> None:
    source, r, copied = image(64, name="source"), hl.RDom([(0, 16)], "r"), hl.Func("copied")
    copied[X] = 0
    copied[r.x] += source[r.x]
    dag = extract(finish(copied, sizes=(64,)))
    assert [stage.lane_bytes for stage in dag.stages] == [0, 0]


def proposals(build: Callable[[], hl.Pipeline], target: str) -> list[Rfactor]:
    """What is proposed for a pipeline, of one update each."""
    dag = extract(build())
    space = make_space(dag, target=target)
    found = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start())
    machine = CpuMachine.default(target, threads=2)
    proposed = propose_rfactors(dag, found.state.describe(), range(len(dag.stages)), machine)
    return [rfactor for rfactor, *others in proposed if not others]


def steps_kept(build: Callable[[], hl.Pipeline], target: str) -> set[tuple[int, int]]:
    """Partial results side by side, and steps of each, of what is proposed: two splits, one of what the other left."""
    found = set()
    for rfactor in proposals(build, target):
        match rfactor.splits:
            case [(_, _, inner, points), (old, _, _, steps), *_] if old == inner:
                found.add((points // steps, steps))
    return found


def test_a_processor_tells_how_many_steps_follow_each_other() -> None:
    assert steps_kept(products, BYTE_TARGET) == {(16, 4)}
    assert steps_kept(products, WIDE_TARGET) == {(16, 2)}
    assert steps_kept(products, SOME_TARGET) == {(8, 2)}
    assert steps_kept(partial(products, WORDS, WORDS), BYTE_TARGET) == {(16, 2)}
    assert steps_kept(products, "arm-64-linux") == set()


def test_lanes_divide_the_row() -> None:
    assert steps_kept(partial(products, depth=96), BYTE_TARGET) == {(8, 4)}
    assert steps_kept(partial(products, depth=500), BYTE_TARGET) == set()


def test_nothing_follows_where_a_factor_lies_along_columns() -> None:
    assert steps_kept(partial(products, is_dense=False), BYTE_TARGET) == set()


def partial_results(build: Callable[[], hl.Pipeline], target: str) -> Rfactor:
    """What is proposed for sums of products, side by side."""
    return next(r for r in proposals(build, target) if len(r.splits) == 2 and r.splits[1][0] == r.splits[0][2])


def in_lanes(build: Callable[[], hl.Pipeline], target: str) -> tuple[PipelineDag, Rfactor, _core.States, float]:
    """The loop nest that is found for a pipeline with partial results in lanes, and what its costliest Stage takes."""
    rfactor = partial_results(build, target)
    dag = extract(build(), rfactors=[rfactor])
    space = make_space(dag, target=target)
    found = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start())
    return dag, rfactor, found.state, found.cost_seconds


def schedule_in_lanes(build: Callable[[], hl.Pipeline], target: str) -> Schedule:
    dag, rfactor, state, _ = in_lanes(build, target)
    funcs = describe_funcs(build())
    directives = rewritten_directives(dag, [rfactor], cpu_directives(dag, state.describe()), len(funcs))
    return Schedule(funcs=funcs, directives=directives)


@pytest.mark.parametrize(
    ("target", "instruction"), [(SOME_TARGET, "vpmaddwd"), (WIDE_TARGET, "vpmaddwd"), (BYTE_TARGET, "vpdpbusd")]
)
def test_partial_results_have_lanes_that_an_instruction_adds_up(target: str, instruction: str, tmp_path: Path) -> None:
    schedule = schedule_in_lanes(products, target)
    (made,) = (d.args[0] for d in schedule.directives if d.call is Call.RFACTOR)
    calls = [d for d in schedule.directives if (d.func, d.stage) == (made, 1)]
    assert any(d.call is Call.ATOMIC for d in calls)
    loops = [d.args[0] for d in calls if d.call is Call.VECTORIZE]
    assert [isinstance(loop, RVar) for loop in loops].count(True) == 1
    assert len(loops) == 2
    pipeline = products()
    schedule.apply(pipeline)
    path = tmp_path / "products.s"
    arguments = pipeline.infer_arguments()
    pipeline.compile_to_assembly(str(path), arguments, "products", hl.Target(f"{target}-no_runtime"))
    assert instruction in path.read_text(encoding="utf-8")


def test_lanes_cost_less_than_steps_one_after_the_other() -> None:
    dag = extract(products())
    without = BeamSearch(width=1).search(make_space(dag, target=BYTE_TARGET), _core.CostModel(), Budget.start())
    *_, seconds = in_lanes(products, BYTE_TARGET)
    assert seconds < without.cost_seconds / 2


def test_what_is_there_is_not_copied_into_partial_results_of_one_step() -> None:
    dag = extract(products(), rfactors=[partial_results(products, SOME_TARGET)])
    space, machine = make_space(dag, target=SOME_TARGET), CpuMachine.default(SOME_TARGET, threads=2)
    sums = dag.funcs[func_named(dag, "sums")].origin
    for seed in range(100):
        state = space.rollout(space.root(), [seed])
        for rfactors in propose_rfactors(dag, state.describe(), range(len(dag.stages)), machine):
            assert all(rfactor.splits for rfactor in rfactors if rfactor.func == sums)


@pytest.mark.parametrize("factors", [(BYTES, SIGNED_BYTES), (BYTES, BYTES), (WORDS, SIGNED_BYTES)], ids=str)
@pytest.mark.parametrize("target", [SOME_TARGET, BYTE_TARGET])
def test_sums_in_lanes_are_right(factors: tuple[hl.Type, hl.Type], target: str) -> None:
    build = partial(products, *factors)
    ExactRuns(f"lanes {factors} {target}", build).check(schedule_in_lanes(build, target))


def products_output() -> hl.Pipeline:
    """Sums of products that are the output themselves."""
    one, other = image(DEPTH, ROWS, name="one", pixel=BYTES), image(DEPTH, COLUMNS, name="other", pixel=SIGNED_BYTES)
    k, sums = hl.RDom([(0, DEPTH)], "k"), hl.Func("sums")
    sums[X, Y] = 0
    sums[X, Y] += hl.i32(one[k.x, Y]) * hl.i32(other[k.x, X])
    return finish(sums, sizes=(COLUMNS, ROWS))


def test_what_an_output_is_a_sum_of_is_a_func_of_its_own() -> None:
    dag = extract(products_output())
    space = make_space(dag, target=SOME_TARGET)
    found = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start())
    machine = CpuMachine.default(SOME_TARGET, threads=2)
    proposed = propose_rfactors(dag, found.state.describe(), range(len(dag.stages)), machine)
    both = next(rfactors for rfactors in proposed if len(rfactors) == 2)
    assert [len(rfactor.preserved) for rfactor in both] == [1, 0]
    assert len({(rfactor.func, rfactor.update) for rfactor in both}) == 1
    dag, funcs = extract(products_output(), rfactors=both), describe_funcs(products_output())
    space, runs = make_space(dag, target=SOME_TARGET), ExactRuns("products_output", products_output)
    state = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start()).state
    for leaf in (state, *(space.rollout(space.root(), [seed]) for seed in range(3))):
        directives = rewritten_directives(dag, both, cpu_directives(dag, leaf.describe()), len(funcs))
        schedule = schedule_with(products_output, directives)
        runs.check(Schedule.from_json(schedule.to_json()))
    assert ".rfactor([])" in schedule.to_python()
    assert ".rfactor({})" in schedule.to_cpp()


def short_rows() -> hl.Pipeline:
    """Sums of as many values as a vector has lanes, which lie in rows of another Func, or in an input."""
    source, table = image(48, 32, name="source"), image(16, 48, 32, name="table")
    k, filled, sums, output = hl.RDom([(0, 16)], "k"), hl.Func("filled"), hl.Func("sums"), hl.Func("output")
    filled[C, X, Y] = source[X, Y] * C
    sums[X, Y] = 0
    sums[X, Y] += filled[k.x, X, Y]
    sums[X, Y] = hl.max(sums[X, Y], table[k.x, X, Y])
    output[X, Y] = sums[X, Y] // 2
    return finish(output, sizes=(48, 32))


@pytest.mark.parametrize(("build", "is_in_two_steps"), [(short_rows, False), (products, True)])
@pytest.mark.parametrize("seeds", [range(600), pytest.param(range(600, 6000), marks=EXHAUSTIVE)], ids=str)
def test_random_loop_nests_with_steps_in_lanes_are_right(
    build: Callable[[], hl.Pipeline], is_in_two_steps: bool, seeds: range
) -> None:
    rfactors = [partial_results(build, SOME_TARGET)] if is_in_two_steps else []
    dag, funcs = extract(build(), rfactors=rfactors), describe_funcs(build())
    space, runs = make_space(dag, target=SOME_TARGET), ExactRuns(build.__name__, build)
    gate, tried = make_gate(build, SOME_TARGET), 0
    for seed in seeds:
        state = space.rollout(space.root(), [seed])
        directives = rewritten_directives(dag, rfactors, cpu_directives(dag, state.describe()), len(funcs))
        schedule = schedule_with(build, directives)
        if any(d.call is Call.ATOMIC for d in directives) and not gate.refusal(schedule):
            runs.check(schedule)
            tried += 1
        if tried == len(seeds) // 100:
            return
    assert tried


def differences() -> hl.Pipeline:
    """Sums of absolute differences of bytes, of which eight that follow each other make one; the rest is to be kept."""
    one, other = (image(8 * 48, 32, name=name, pixel=BYTES) for name in ("one", "other"))
    r, apart, sums, output = hl.RDom([(0, 8)], "r"), hl.Func("apart"), hl.Func("sums"), hl.Func("output")
    apart[X, Y] = hl.i32(hl.absd(one[X, Y], other[X, Y]))
    sums[X, Y] = X
    sums[X, Y] += apart[8 * X + r.x, Y]
    output[X, Y] = sums[X, Y] // 2
    return finish(output, sizes=(48, 32))


def test_what_is_inlined_is_no_value_that_is_there() -> None:
    dag, funcs = extract(differences()), describe_funcs(differences())
    space, runs, tried = make_space(dag, target=SOME_TARGET), ExactRuns("differences", differences), 0
    sums = dag.funcs[func_named(dag, "sums")].stages[1]
    for seed in range(1500):
        schedules = space.rollout(space.root(), [seed]).describe()
        nest = schedules[func_named(dag, "sums")].stages
        is_inlined = schedules[func_named(dag, "apart")].placement == _core.Placement.INLINE
        if is_inlined and len(nest) > 1 and nest[1].levels[-1][0] == 8:
            *_, loops = _core.cpu_loop_plans(dag, schedules)
            assert loops[sums] == -1
            tried += 1
            if tried <= 2:
                runs.check(Schedule(funcs=funcs, directives=cpu_directives(dag, schedules)))
    assert tried > 2


def test_a_single_sum_of_products_is_right() -> None:
    def build() -> hl.Pipeline:
        one, other = image(1024, name="one", pixel=BYTES), image(1024, name="other", pixel=SIGNED_BYTES)
        k, total = hl.RDom([(0, 1024)], "k"), hl.Func("total")
        total[()] = 0
        total[()] += hl.i32(one[k.x]) * hl.i32(other[k.x])
        return finish(total, sizes=())

    dag = extract(build())
    space, machine = make_space(dag, target=SOME_TARGET), CpuMachine.default(SOME_TARGET, threads=2)
    found = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start())
    proposed = propose_rfactors(dag, found.state.describe(), range(len(dag.stages)), machine)
    both = next(rfactors for rfactors in proposed if len(rfactors) == 2)
    dag, funcs = extract(build(), rfactors=both), describe_funcs(build())
    space = make_space(dag, target=SOME_TARGET)
    state = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start()).state
    directives = rewritten_directives(dag, both, cpu_directives(dag, state.describe()), len(funcs))
    ExactRuns("no_dimension", build).check(Schedule(funcs=funcs, directives=directives))


def covariances() -> hl.Pipeline:
    """Sums of products of what another Func makes, of which a beam of one state comes to none that pays."""
    features, samples = 32, 65536
    data = image(features, samples, name="data", pixel=BYTES)
    centred, sums, output = hl.Func("centred"), hl.Func("sums"), hl.Func("output")
    n = hl.RDom([(0, samples)], "n")
    centred[X, Y] = hl.i16(data[X, Y]) - hl.i16(100)
    sums[X, Y] = 0
    sums[X, Y] += hl.i32(centred[X, n.x]) * hl.i32(centred[Y, n.x])
    output[X, Y] = hl.f32(sums[X, Y]) * hl.f32(1 / samples)
    return finish(output, sizes=(features, features))


@pytest.mark.parametrize(("build", "target"), [(products, BYTE_TARGET), (covariances, SOME_TARGET)])
def test_a_search_finds_them(build: Callable[[], hl.Pipeline], target: str) -> None:
    options = metol.SearchOptions(budget_seconds=60, weights="analytical")
    schedule = metol.autoschedule(build(), machine=some_machine(target=target), target=target, options=options).schedule
    assert any(d.call is Call.ATOMIC for d in schedule.directives)
