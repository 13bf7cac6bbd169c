"""Whole reductions on GPUs: which are proposed for two steps or three, and that no result changes by it."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import halide as hl
import pytest
from slow_cases import half_of, slow_but
from small_pipelines import EMULATED_TARGET, X, Y, finish, gpu_space, histogram, image, make_gpu_space, matmul
from whole_reductions import HEIGHT, REDUCTIONS, WIDTH, place_of_largest

import metol
from metol import _core
from metol.lower import Call, Schedule, describe_funcs, gpu_directives, rewritten_directives
from metol.options import SearchOptions
from metol.pipeline import PipelineDag, Rfactor, extract
from metol.search import BeamSearch, Budget
from metol.targets.gpu import GpuMachine, propose_rfactors
from metol.targets.rfactor_plan import RfactorPlan

QUICK = SearchOptions(strategy="greedy")
A100 = GpuMachine.preset("a100", threads=2)
Build = Callable[[], hl.Pipeline]


def proposals(build: Build, machine: GpuMachine = A100) -> tuple[tuple[Rfactor, ...], ...]:
    dag, space = gpu_space(build)
    return propose_in(dag, space.rollout(space.root(), [0]).describe(), machine)


def propose_in(
    dag: PipelineDag, nest: Sequence[_core.FuncSchedule], machine: GpuMachine = A100
) -> tuple[tuple[Rfactor, ...], ...]:
    return propose_rfactors(dag, nest, range(len(dag.stages)), machine)


def values_of(dag: PipelineDag, func: int) -> int:
    return prod(interval.extent for interval in dag.funcs[func].root_region)


def partial_results(build: Build, rfactors: tuple[Rfactor, ...]) -> list[int]:
    """Values of each Func that is made, in the order in which they are."""
    given = len(extract(build()).funcs)
    dag = extract(build(), rfactors=list(rfactors))
    made = {dag.funcs[func].origin: values_of(dag, func) for func in range(len(dag.funcs))}
    return [made[given + step] for step in range(len(rfactors))]


def count_of(schedule: Schedule, call: Call) -> int:
    return sum(directive.call is call for directive in schedule.directives)


def scheduled(name: str, strategy: str = "greedy", **options: bool) -> Schedule:
    terms = SearchOptions(strategy=strategy, **options)
    return metol.autoschedule(REDUCTIONS[name].build(), target="host-opencl", machine=A100, options=terms).schedule


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_whole_reduction_is_proposed(name: str) -> None:
    assert proposals(REDUCTIONS[name].build)


@pytest.mark.parametrize("name", ["sum", "bins", "sums_of_rows"])
def test_partial_results_are_fewer_than_what_they_are_of(name: str) -> None:
    for rfactors in proposals(REDUCTIONS[name].build):
        counts = partial_results(REDUCTIONS[name].build, rfactors)
        assert counts[0] <= WIDTH * HEIGHT // 4
        assert counts == sorted(counts, reverse=True)


def test_some_fill_the_device() -> None:
    # Of 2^22 points, so that each of 108 x 16 x 32 threads has many.
    def build() -> hl.Pipeline:
        source, whole = image(1 << 22), hl.Func("whole")
        r = hl.RDom([(0, source.width())], "r")
        whole[()] = 0
        whole[()] += source[r.x]
        return finish(whole, sizes=())

    threads = int(A100.multiprocessors * A100.warps_to_hide_latency * A100.warp_threads)
    counts = {partial_results(build, rfactors)[0] for rfactors in proposals(build)}
    assert threads in counts
    assert max(counts) < 2 * threads


def test_there_are_as_many_partial_results_at_any_size() -> None:
    build = REDUCTIONS["sum"].build
    whole = next(rfactors for rfactors in proposals(build) if len(rfactors[0].splits) == 2)
    dag = extract(build(), {"source": [(0, 4 * WIDTH), (0, 3 * HEIGHT)]}, rfactors=list(whole))
    made = max(range(len(dag.funcs)), key=lambda func: dag.funcs[func].origin)
    assert values_of(dag, made) == partial_results(build, whole)[0]


def test_a_third_step_is_for_what_one_thread_would_merge() -> None:
    steps = {name: {len(each) for each in proposals(REDUCTIONS[name].build)} for name in ("sum", "place_of_largest")}
    assert steps == {"sum": {1}, "place_of_largest": {1, 2}}


def test_inside_what_reads_it_an_update_is_proposed_as_at_root() -> None:
    dag, space = gpu_space(REDUCTIONS["means_of_rows"].build)
    (sums,) = (number for number, func in enumerate(dag.funcs) if func.name.startswith("sums"))
    apart = _core.SpaceOptions()
    apart.allow_compute_at = False
    nests = [
        BeamSearch(width=1).search(each, _core.CostModel(), Budget.start()).state.describe()
        for each in (space, space.restrict(apart))
    ]
    assert [nest[sums].placement for nest in nests] == [_core.Placement.AT, _core.Placement.ROOT]
    inside, at_root = (
        [partial_results(REDUCTIONS["means_of_rows"].build, rfactors) for rfactors in propose_in(dag, nest)]
        for nest in nests
    )
    assert inside
    assert inside == at_root


def large_product() -> hl.Pipeline:
    """A matrix product with points for all threads."""
    side = 512
    a, b, k = image(side, side, name="a"), image(side, side, name="b"), hl.RDom([(0, side)], "k")
    product = hl.Func("product")
    product[X, Y] = 0
    product[X, Y] += a[k.x, Y] * b[X, k.x]
    return finish(product, sizes=(side, side))


def decay() -> hl.Pipeline:
    """A reduction whose order matters."""
    source, mixed = image(WIDTH, HEIGHT), hl.Func("mixed")
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    mixed[()] = 0
    mixed[()] = mixed[()] // 2 + source[r.x, r.y]
    return finish(mixed, sizes=())


@pytest.mark.parametrize("build", [large_product, decay, matmul], ids=["filled", "ordered", "short"])
def test_what_gains_nothing_or_may_not_be_is_not_proposed(build: Build) -> None:
    assert proposals(build) == ()


def inlined_rank() -> hl.Pipeline:
    """An extremum of what a Func computes that may be inlined."""
    source, rank, best = image(WIDTH, HEIGHT), hl.Func("rank"), hl.Func("best")
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    rank[X, Y] = source[X, Y] + 3
    value = rank[r.x, r.y]
    best[()] = (hl.i32(0), hl.i32(0))
    best[()] = (hl.max(best[()][0], value), hl.select(value < best[()][0], best[()][1], r.x))
    return finish(best, sizes=())


def read_extremum() -> hl.Pipeline:
    source, best = image(WIDTH, HEIGHT), hl.Func("best")
    r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
    value = source[r.x, r.y]
    best[()] = (hl.i32(0), hl.i32(0))
    best[()] = (hl.max(best[()][0], value), hl.select(value < best[()][0], best[()][1], r.x))
    return finish(best, sizes=())


@pytest.mark.parametrize(
    ("build", "is_offered"),
    [
        (partial(place_of_largest, hl.Int(32)), False),
        (inlined_rank, False),
        (partial(place_of_largest, hl.UInt(32)), True),
        (partial(place_of_largest, hl.Float(32)), True),
        (read_extremum, True),
    ],
    ids=["computed", "inlined", "unsigned", "float", "read"],
)
def test_what_halide_compares_wrongly_with_an_identity_is_not_proposed(build: Build, is_offered: bool) -> None:
    assert bool(proposals(build)) == is_offered


def test_what_stays_on_the_host_is_not_proposed() -> None:
    def bits() -> hl.Pipeline:
        source, whole = image(WIDTH, HEIGHT, pixel=hl.UInt(32)), hl.Func("whole")
        r = hl.RDom([(0, WIDTH), (0, HEIGHT)], "r")
        whole[()] = hl.u32(0)
        whole[()] += hl.count_leading_zeros(source[r.x, r.y])
        return finish(whole, sizes=())

    assert proposals(bits)
    assert proposals(bits, A100.for_opencl()) == ()


def test_no_name_is_given_twice_however_often_an_update_is_factored() -> None:
    plan = RfactorPlan(0, 0, ["r$x", "r$y"])
    seen = {"r$x", "r$y"}
    for _ in range(4):
        plan.keep(0)
        plan.keep_inner(1, 8)
        made = {name for split in plan.rfactor.splits for name in split[1:3]}
        assert not made & seen
        seen |= made
        plan = plan.merge()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gain"),
    [
        ("sum", 1.0),
        ("place_of_largest", 2.0),
        ("sums_of_rows", 2.0),
        ("means_of_rows", 2.0),
        ("bins_of_16_bits", 2.0),
    ],
)
def test_a_search_takes_two_steps_where_they_gain(name: str, gain: float) -> None:
    with_steps, without = (
        metol.autoschedule(
            REDUCTIONS[name].build(),
            target="host-cuda",
            machine=A100,
            options=SearchOptions(strategy="greedy", rfactor=rfactor),
        )
        for rfactor in (True, False)
    )
    assert count_of(with_steps.schedule, Call.RFACTOR) >= 1
    assert count_of(without.schedule, Call.RFACTOR) == 0
    assert with_steps.predicted_seconds < without.predicted_seconds / gain


def test_words_of_a_histogram_are_rather_updated_atomically() -> None:
    schedule = scheduled("bins")
    assert (count_of(schedule, Call.RFACTOR), count_of(schedule, Call.ATOMIC)) == (0, 1)


def test_grouping_makes_kernels_of_both_steps() -> None:
    schedule = scheduled("sums_of_rows", "grouping")
    assert count_of(schedule, Call.RFACTOR) >= 1
    assert count_of(schedule, Call.GPU_SINGLE_THREAD) == 0


QUICK_NAMES = ("sum_where", "place_of_largest", "bins_of_16_bits", "means_of_rows")


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("name", slow_but(QUICK_NAMES, REDUCTIONS, further=half_of(REDUCTIONS, QUICK_NAMES)))
def test_schedules_keep_the_result_at_any_size(name: str) -> None:
    REDUCTIONS[name].check(scheduled(name), "host-opencl")


@pytest.mark.usefixtures("emulated_gpu")
@pytest.mark.parametrize(
    "name", slow_but(["product"], ["product", "sum_where", "place_of_largest", "bins"], further=["place_of_largest"])
)
def test_proposals_keep_the_result_under_random_loop_nests(name: str) -> None:
    build = REDUCTIONS[name].build
    for seed, rfactors in enumerate(proposals(build)):
        dag = extract(build(), rfactors=list(rfactors))
        space = make_gpu_space(dag)
        nest = space.rollout(space.root(), [seed]).describe()
        funcs = describe_funcs(build())
        directives = rewritten_directives(dag, rfactors, gpu_directives(dag, nest), len(funcs))
        REDUCTIONS[name].check(Schedule(funcs=funcs, directives=directives), EMULATED_TARGET)


def test_what_is_found_has_kernels_for_cuda() -> None:
    result = metol.autoschedule(REDUCTIONS["place_of_largest"].build(), target="cuda", gpu="a100", options=QUICK)
    kernels = count_of(result.schedule, Call.GPU_BLOCKS) + count_of(result.schedule, Call.GPU_SINGLE_THREAD)
    assert kernels >= 4
    assert result.fallbacks == ()


def test_a_histogram_that_is_scanned_has_a_schedule() -> None:
    assert metol.autoschedule(histogram(), target="cuda", gpu="a100", options=QUICK).fallbacks == ()
