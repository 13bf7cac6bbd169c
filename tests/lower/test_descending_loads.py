"""Masked vectors whose lanes go down in memory: Halide 21 stops where one begins at a constant place."""

from collections.abc import Iterator
from itertools import islice

import halide as hl
import pytest
from small_pipelines import (
    BARE_TARGET,
    ExactRuns,
    X,
    Y,
    blur,
    cpu_space,
    finish,
    func_named,
    image,
    schedule_of,
    schedule_with,
    some_machine,
)

from metol import _core
from metol.candidates import searched_candidates
from metol.lower import NO_PROMISES, Call, LoweringOptions, Schedule, cpu_directives, safe_directives
from metol.lower.lanes import descends
from metol.pipeline import LoweredPipeline, PipelineDag, extract
from metol.search import Form, SearchResult

LANES = 16
VECTOR_BYTES = 32
TAPS = 21
SEEDS = range(120)
CAREFUL = LoweringOptions(masks_descending_loads=False)


def flipped_taps() -> hl.Pipeline:
    """Sums with weights that are turned round once."""
    taps, scales = image(TAPS, name="taps"), image(TAPS, name="scales")
    source = image(64, 32, name="source")
    squares, flipped, output = hl.Func("squares"), hl.Func("flipped"), hl.Func("output")
    squares[X] = taps[X] * taps[X]
    flipped[X] = squares[TAPS - 1 - X] + scales[X]
    k = hl.RDom([(0, TAPS)], "k")
    output[X, Y] = hl.sum(hl.i32(source[X, Y]) * flipped[k], name="summed")
    return finish(output)


@pytest.mark.parametrize(
    ("step", "tail", "is_compiled"),
    [
        (-1, hl.TailStrategy.GuardWithIf, False),
        (-1, hl.TailStrategy.PredicateLoads, False),
        (-1, hl.TailStrategy.RoundUp, True),
        (-1, hl.TailStrategy.ShiftInwards, True),
        (-2, hl.TailStrategy.GuardWithIf, True),
        (1, hl.TailStrategy.GuardWithIf, True),
    ],
)
def test_what_halide_lowers_and_does_not_compile_is_known(step: int, tail: hl.TailStrategy, is_compiled: bool) -> None:
    extent = 3 * LANES + 5
    source, stored, output = image(200, name="source"), hl.Func("stored"), hl.Func("output")
    stored[X] = source[X] + 1
    output[X] = stored[(extent - 1) * max(-step, 0) + step * X] * 2
    output.bound(X, 0, extent)
    stored.compute_root()
    output.vectorize(X, LANES, tail)
    pipeline = hl.Pipeline(output)
    unfit = LoweredPipeline(pipeline, BARE_TARGET, has_partitions=True).unfit_load()
    assert unfit.split("$")[0] == ("" if is_compiled else "stored")
    try:
        pipeline.compile_to_object("/dev/null", pipeline.infer_arguments(), "flipped", hl.Target(BARE_TARGET))
    except hl.HalideError:
        assert not is_compiled
    else:
        assert is_compiled


def unfit_load(schedule: Schedule) -> str:
    """What the gate finds in the code of a schedule."""
    pipeline = flipped_taps()
    schedule.apply(pipeline)
    return LoweredPipeline(pipeline, BARE_TARGET, has_partitions=True).unfit_load()


def leaves_of(space: _core.Space) -> Iterator[_core.States]:
    return (space.rollout(space.root(), [seed]) for seed in SEEDS)


def refused_leaves(dag: PipelineDag, space: _core.Space) -> Iterator[_core.States]:
    """Loop nests of which Halide would make no code."""
    return (leaf for leaf in leaves_of(space) if unfit_load(schedule_of(flipped_taps, dag, leaf)))


def test_loop_nests_are_lowered_without_such_masks_where_that_is_asked_for() -> None:
    dag, space = cpu_space(flipped_taps)
    runs = ExactRuns("flipped_taps", flipped_taps)
    flipped = func_named(dag, "flipped")
    leaves = list(islice(refused_leaves(dag, space), 2))
    assert len(leaves) == 2
    for leaf in leaves:
        directives = cpu_directives(dag, leaf.describe(), CAREFUL)
        assert not any(one.call is Call.VECTORIZE and one.func == flipped for one in directives)
        runs.check(schedule_with(flipped_taps, directives))


def test_such_a_loop_nest_is_asked_about_again_without_the_masks() -> None:
    dag, space = cpu_space(flipped_taps)
    (leaf,) = islice(refused_leaves(dag, space), 1)
    fine = next(leaf for leaf in leaves_of(space) if not unfit_load(schedule_of(flipped_taps, dag, leaf)))
    form = Form(dag, space)
    found = SearchResult(leaf, 1.0, 2, True, (fine,))
    model = _core.CostModel()
    told = list(islice(searched_candidates(form, form, found, some_machine(), NO_PROMISES, model), 3))
    assert [one.origin for one in told] == ["search", "search", "alternative"]
    unfit = [unfit_load(schedule_with(flipped_taps, one.directives())) for one in told]
    assert [bool(name) for name in unfit] == [True, False, False]


def test_only_such_loops_change() -> None:
    dag, space = cpu_space(blur)
    for seed in range(20):
        nest = space.rollout(space.root(), [seed]).describe()
        assert cpu_directives(dag, nest, CAREFUL) == cpu_directives(dag, nest)


def test_the_safe_schedule_masks_no_such_lanes() -> None:
    pipeline = flipped_taps()
    directives = safe_directives(extract(pipeline), VECTOR_BYTES)
    vectors = {pipeline.get_func(one.func).name().split("$")[0] for one in directives if one.call is Call.VECTORIZE}
    assert vectors == {"squares", "summed", "output"}
    ExactRuns("flipped_taps", flipped_taps).check(schedule_with(flipped_taps, directives))


@pytest.mark.parametrize(("turns", "expected"), [(0, False), (1, True), (2, False), (3, True)])
def test_what_is_turned_round_twice_goes_up(turns: int, expected: bool) -> None:
    source, stored, output = image(TAPS, name="source"), hl.Func("stored"), hl.Func("output")
    stored[X] = source[X] + 1
    turned = stored
    for number in range(turns):
        before, turned = turned, hl.Func(f"turned_{number}")
        turned[X] = before[TAPS - 1 - X]
    output[X] = turned[X]
    output.set_estimate(X, 0, TAPS)
    dag = extract(hl.Pipeline(output))
    inlined = {func_named(dag, f"turned_{number}") for number in range(turns)}
    (stage,) = dag.funcs[func_named(dag, "output")].stages
    assert descends(dag, dag.stages[stage], 0, inlined, lambda func: dag.funcs[func].dense_dim) == expected
