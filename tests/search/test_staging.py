"""Copies of what is read: which are offered, that an inlined one is not there, and that no result changes."""

from collections.abc import Callable
from dataclasses import replace

import halide as hl
import numpy as np
import pytest
from slow_cases import slow_but
from small_pipelines import (
    PIPELINES,
    SOME_TARGET,
    WIDE_TARGET,
    ExactRuns,
    X,
    Y,
    image,
    make_space,
    schedule_with,
    some_machine,
)

import metol
from metol import _core
from metol.errors import ExtractionError
from metol.lower import Call, Schedule, cpu_directives, describe_funcs, rewritten_directives
from metol.measure import schedule_at_root
from metol.pipeline import PipelineDag, Rfactor, Staging, extract
from metol.search import BeamSearch, Budget, Form, SearchResult
from metol.search.staging import search_copies
from metol.targets.cpu import CpuMachine, propose_stagings

MACHINE = CpuMachine.default(threads=2)
NEAR_CACHE_TARGET = f"{WIDE_TARGET}-avx512_cannonlake-avx512_zen4-avx512_zen5"
QUICK = metol.SearchOptions(strategy="greedy", budget_seconds=None)


def product(width: int, depth: int, height: int) -> hl.Pipeline:
    """A times the transpose of B: along a vector of the output, B is read across its rows."""
    a, b = image(depth, height, name="a"), image(depth, width, name="b")
    k = hl.RDom([(0, depth)], "k")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X, Y] = 0
    sums[X, Y] += a[k.x, Y] * b[k.x, X]
    output[X, Y] = sums[X, Y]
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def large() -> hl.Pipeline:
    return product(256, 256, 256)


def triangle(end: hl.Expr) -> hl.Pipeline:
    """A product of which a condition leaves terms out."""
    a, b = image(256, 256, name="a"), image(256, 256, name="b")
    k = hl.RDom([(0, 256)], "k")
    k.where(k.x <= end)
    sums = hl.Func("sums")
    sums[X, Y] = 0
    sums[X, Y] += a[k.x, Y] * b[X, k.x]
    sums.set_estimates([(0, 256), (0, 256)])
    return hl.Pipeline(sums)


def pointwise() -> hl.Pipeline:
    source, output = image(1024, 1024), hl.Func("output")
    output[X, Y] = source[X, Y] + source[X, Y + 1]
    output.set_estimates([(0, 1024), (0, 1023)])
    return hl.Pipeline(output)


def turned() -> hl.Pipeline:
    source, output = image(1024, 1024), hl.Func("output")
    output[X, Y] = source[Y, X] * 2
    output.set_estimates([(0, 1024), (0, 1024)])
    return hl.Pipeline(output)


def search(build: Callable[[], hl.Pipeline], options: _core.SpaceOptions | None = None) -> tuple[Form, SearchResult]:
    dag = extract(build())
    space = make_space(dag, options=options)
    found = BeamSearch(width=1).search(space, _core.CostModel(), Budget.start())
    return Form(dag, space), found


def proposals(build: Callable[[], hl.Pipeline]) -> list[tuple[str, str]]:
    form, found = search(build)
    dag = form.dag
    names = {func.origin: func.name.split("$")[0] for func in dag.funcs}
    offered = propose_stagings(dag, found.state.describe(), range(len(dag.stages)), MACHINE)
    return [(names[staging.func], names[staging.consumer]) for staging in offered]


def test_nothing_is_copied_of_which_scalars_skip_what_a_condition_leaves_out() -> None:
    assert proposals(lambda: triangle(hl.min(X, Y))) == []
    assert ("b_im", "sums") in proposals(lambda: triangle(Y))


def test_what_is_read_again_and_again_is_offered() -> None:
    assert proposals(large) == [("a_im", "sums"), ("b_im", "sums")]


def test_what_is_read_across_its_rows_is_offered() -> None:
    assert proposals(turned) == [("source_im", "output")]


def taps() -> hl.Pipeline:
    source, weights, sums, k = image(260, 256), image(5, name="weights"), hl.Func("sums"), hl.RDom([(0, 5)], "k")
    sums[X, Y] = 0
    sums[X, Y] += source[X + k.x, Y] * weights[k.x]
    sums.set_estimates([(0, 256), (0, 256)])
    return hl.Pipeline(sums)


def test_streams_and_small_inputs_are_not_offered() -> None:
    assert proposals(pointwise) == []
    assert ("weights_im", "sums") not in proposals(taps)


def test_small_inputs_are_offered_where_lanes_could_read_across_their_rows() -> None:
    assert proposals(lambda: product(40, 24, 24)) == [("a_im", "sums"), ("b_im", "sums")]


def transposed_convolution() -> hl.Pipeline:
    """Weights that are best read with the output's channels innermost, which takes lanes along these, and a copy."""
    source, weights = image(34, 34, 16, name="source"), image(4, 4, 16, 16, name="weights")
    c, r = hl.Var("c"), hl.RDom([(0, 2), (0, 2), (0, 16)], "r")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X, Y, c] = 0
    weight = weights[(X + 1) % 2 + 2 * r.x, (Y + 1) % 2 + 2 * r.y, r.z, c]
    sums[X, Y, c] += source[(X + 1) // 2 - r.x + 1, (Y + 1) // 2 - r.y + 1, r.z] * weight
    output[X, Y, c] = hl.max(sums[X, Y, c], 0)
    output.set_estimates([(0, 64), (0, 64), (0, 16)])
    return hl.Pipeline(output)


@pytest.mark.slow
@pytest.mark.parametrize("target", [SOME_TARGET, WIDE_TARGET, NEAR_CACHE_TARGET])
def test_copies_are_tried_together_with_other_lanes_of_what_reads_them(target: str) -> None:
    is_wide = target != SOME_TARGET  # more than all machines have that run tests
    result = metol.autoschedule(
        transposed_convolution(),
        machine=some_machine(target=target),
        target=target if is_wide else None,
        verify=not is_wide,
    )
    assert result.is_compared or is_wide
    copied = {d.func for d in result.schedule.directives if d.call is Call.IN}
    assert "weights_im" in {result.schedule.funcs[func].name for func in copied}


def test_inlined_copies_cost_nothing_and_a_good_one_is_found() -> None:
    form, found = search(large)
    stagings = propose_stagings(form.dag, found.state.describe(), range(len(form.dag.stages)), MACHINE)
    staged = extract(large(), stagings=stagings)
    space = make_space(staged)
    best = search_copies(form, found, Form(staged, space), _core.CostModel(), Budget.start())
    assert best.cost_seconds < 0.9 * found.cost_seconds
    # Where the copies turn out to be of no use, what was found without them is among the alternatives.
    costs = [float(space.cost(state, _core.CostModel())[0]) for state in best.alternatives]
    assert costs[-1] == pytest.approx(found.cost_seconds, rel=1e-6)
    wrappers = [number for number, func in enumerate(staged.funcs) if func.is_wrapper]
    placements = [schedule.placement for schedule in best.alternatives[-1].describe() if schedule.func in wrappers]
    assert placements == [_core.Placement.INLINE] * 2


def two_products() -> hl.Pipeline:
    """Two sums over the same matrix: at root they may share loops, and with a copy of it their Funcs may, too."""
    a, b = image(256, 256, name="a"), image(256, 256, name="b")
    k = hl.RDom([(0, 256)], "k")
    first, second = hl.Func("first"), hl.Func("second")
    for func, scale in ((first, 1), (second, 3)):
        func[X, Y] = 0
        func[X, Y] += a[k.x, Y] * b[k.x, X] * scale
        func.set_estimates([(0, 256), (0, 256)])
    return hl.Pipeline([first, second])


def test_shared_loops_are_kept_where_copies_come_in() -> None:
    options = _core.SpaceOptions()
    options.allow_fuse = True
    form, _ = search(two_products, options)
    model = _core.CostModel()
    # A loop nest in which the loops are shared, cheap or not.
    leaves = form.space.rollout(form.space.root(), range(400))
    shared = [
        leaf
        for leaf in map(leaves.take, ([i] for i in range(400)))
        if any(nest.leader >= 0 for schedule in leaf.describe() for nest in schedule.stages)
    ]
    assert shared
    (a_im, b_im) = (func.origin for func in form.dag.funcs if func.is_input)
    consumers = [form.dag.funcs[output].origin for output in form.dag.outputs]
    stagings = [Staging(a_im, consumers[0]), Staging(b_im, consumers[1])]
    staged = extract(two_products(), stagings=stagings)
    other = Form(staged, make_space(staged, options=options))
    seconds = float(form.space.cost(shared[0], model)[0])
    best = search_copies(form, SearchResult(shared[0], seconds, 0, True), other, model, Budget.start())
    before = sorted(nest.leader >= 0 for schedule in shared[0].describe() for nest in schedule.stages)
    after = sorted(nest.leader >= 0 for schedule in best.alternatives[-1].describe() for nest in schedule.stages)
    assert sum(before) == sum(after) > 0


def reads(dag: PipelineDag) -> list[Staging]:
    """All reads of one Func by another that can be staged."""
    pairs = {(edge.producer, stage.func) for stage in dag.stages for edge in stage.edges}
    return [
        Staging(producer, consumer)
        for producer, consumer in sorted(pairs)
        if producer < dag.real_func_count and not dag.funcs[producer].is_output
    ]


def schedule_of(
    build: Callable[[], hl.Pipeline], stagings: list[Staging], seed: int, rfactors: tuple[Rfactor, ...] = ()
) -> Schedule:
    dag = extract(build(), rfactors=rfactors, stagings=stagings)
    space = make_space(dag)
    state = space.rollout(space.root(), [seed])
    given = len(describe_funcs(build()))
    directives = cpu_directives(dag, state.describe())
    return schedule_with(build, rewritten_directives(dag, rfactors, directives, given, stagings))


@pytest.mark.parametrize(
    "name",
    slow_but(
        (),
        ["blur", "matmul", "convolution", "histogram", "boundary", "transpose", "tuple_output", "two_outputs"],
        further=["blur", "convolution", "two_outputs"],
    ),
)
def test_copies_keep_the_result_under_random_loop_nests(name: str) -> None:
    build = PIPELINES[name]
    runs = ExactRuns(name)
    stagings = reads(extract(build()))
    for copied in (stagings[:1], stagings[-2:]):
        schedules = (schedule_of(build, copied, seed) for seed in range(20))
        staged = (schedule for schedule in schedules if any(d.call is Call.IN for d in schedule.directives))
        runs.check(Schedule.from_json(next(staged).to_json()))


def test_what_rfactor_makes_can_read_a_copy() -> None:
    def total() -> hl.Pipeline:
        source, r = image(64, 24), hl.RDom([(0, 64), (0, 24)], "r")
        whole, output = hl.Func("whole"), hl.Func("output")
        whole[()] = 0
        whole[()] += source[r.x, r.y]
        output[X, Y] = whole[()] + X
        output.set_estimates([(0, 40), (0, 24)])
        return hl.Pipeline(output)

    dag = extract(total())
    whole = next(func for func in dag.funcs if func.name.startswith("whole"))
    loop = dag.stages[whole.stages[1]].loops[1].name
    rfactors = (Rfactor(whole.origin, 0, [], [(loop, "row")]),)
    staged = [Staging(0, len(dag.funcs))]  # for the Func that rfactor makes
    schedules = [schedule_of(total, staged, seed, rfactors) for seed in range(3)]
    assert any(directive.call is Call.IN for schedule in schedules for directive in schedule.directives)
    runs = ExactRuns("blur", total)
    for schedule in schedules:
        runs.check(schedule)


@pytest.mark.parametrize("staging", [Staging(0, 1), Staging(3, 2), Staging(-1, 2), Staging(0, 9), Staging(2, 2)])
def test_what_is_not_read_cannot_be_copied(staging: Staging) -> None:
    with pytest.raises(ExtractionError, match="nothing to copy"):
        extract(large(), stagings=[staging])


def run(pipeline: hl.Pipeline) -> np.ndarray:
    call = pipeline.compile_to_callable(pipeline.infer_arguments(), hl.get_host_target())
    ramp = np.arange(256 * 256, dtype=np.int32).reshape(256, 256) % 97
    output = np.zeros((256, 256), np.int32)
    call(hl.Buffer(ramp), hl.Buffer(ramp[::-1].copy()), hl.Buffer(output))
    return output


def test_autoschedule_stages_a_transposed_factor_and_does_it_again() -> None:
    reference = large()
    schedule_at_root(reference)
    expected = run(reference)
    pipeline = large()
    for _ in range(2):
        result = metol.autoschedule(pipeline, machine=MACHINE, options=QUICK)
        assert (result.origin, result.fallbacks) == ("search", ())
        assert [directive.args for directive in result.schedule.directives if directive.call is Call.IN]
        np.testing.assert_array_equal(run(pipeline), expected)
    # A schedule without copies takes them off again.
    result = metol.autoschedule(pipeline, machine=MACHINE, options=replace(QUICK, staging=False))
    assert not any(directive.call is Call.IN for directive in result.schedule.directives)
    np.testing.assert_array_equal(run(pipeline), expected)


def test_staged_schedules_are_written_as_source() -> None:
    result = metol.autoschedule(large(), machine=MACHINE, options=QUICK)
    assert "b_im.in_(sums)" in result.to_python()
    assert "b_im.in(sums)" in result.to_cpp()
