"""Schedules that must not be returned, and the reasons that are given."""

import dataclasses
from collections.abc import Callable

import halide as hl
import pytest
from gpu_by_hand import Build, computed_a_block, in_shared_memory, tiled
from small_pipelines import (
    HEIGHT,
    PIPELINES,
    WIDTH,
    C,
    X,
    Y,
    boundary,
    chain,
    finish,
    image,
    make_gate,
    schedule_with,
    sizes_of,
)

from metol.lower import (
    Call,
    Directive,
    RVar,
    Schedule,
    Site,
    Tail,
    Var,
    describe_funcs,
    root_directives,
    safe_directives,
)
from metol.measure import BlockLimits
from metol.measure.gate import BufferSizes, probed_sizes
from metol.pipeline import extract


def schedule(build: Callable[[], hl.Pipeline], *directives: Directive) -> Schedule:
    """Everything at root, and then some."""
    pipeline = build()
    at_root = {d.func: d for d in root_directives(extract(pipeline))}
    calls = [d for func, root in at_root.items() for d in (root, *(d for d in directives if d.func == func))]
    return Schedule(describe_funcs(pipeline), tuple(calls))


def split(func: int, tail: Tail, factor: int = 16, stage: int = 0) -> Directive:
    return Directive(func, stage, Call.SPLIT, (Var("x"), Var("xo"), Var("xi"), factor, tail))


def refusal(build: Callable[[], hl.Pipeline], *directives: Directive) -> str:
    return make_gate(build).refusal(schedule(build, *directives))


@pytest.mark.parametrize("name", list(PIPELINES))
def test_everything_at_root_is_accepted(name: str) -> None:
    assert refusal(PIPELINES[name]) == ""


@pytest.mark.parametrize("name", list(PIPELINES))
def test_safe_schedule_is_accepted(name: str) -> None:
    pipeline = PIPELINES[name]()
    directives = safe_directives(extract(pipeline), 32)
    assert make_gate(PIPELINES[name]).refusal(Schedule(describe_funcs(pipeline), directives)) == ""


def three_planes() -> hl.Pipeline:
    """A fourth plane, which no image has, is made by a `select`."""
    source, bounded, weighted, output = image(WIDTH, 3), hl.Func("bounded"), hl.Func("weighted"), hl.Func("output")
    bounded[X, C] = source[hl.clamp(X, 0, WIDTH - 1), C]
    weighted[X, C] = hl.select(C < 3, bounded[X - 1, C] + bounded[X + 1, C], 2)
    output[X, C] = weighted[X, C] // weighted[X, 3]
    return finish(output, sizes=(WIDTH, 3))


def test_plane_that_inlining_alone_asks_for_is_refused_and_the_safe_schedule_asks_for_none() -> None:
    pipeline = three_planes()
    dag = extract(pipeline)
    at_root = root_directives(dag)
    funcs = describe_funcs(pipeline)
    (bounded,) = (func.index for func in funcs if func.name == "bounded")
    inlined = Schedule(funcs, tuple(d for d in at_root if d.func != bounded))
    assert "0 to 3 in dimension 1 of `source`, where the algorithm needs 0 to 2" in make_gate(three_planes).refusal(
        inlined
    )
    assert make_gate(three_planes).refusal(Schedule(funcs, safe_directives(dag, 32))) == ""


@pytest.mark.parametrize("tail", [Tail.GUARD_WITH_IF, Tail.PREDICATE])
def test_guarded_output_is_accepted(tail: Tail) -> None:
    assert refusal(chain, split(len(describe_funcs(chain())) - 1, tail)) == ""


@pytest.mark.parametrize("tail", [Tail.SHIFT_INWARDS, Tail.ROUND_UP])
def test_output_that_needs_a_whole_vector_is_refused(tail: Tail) -> None:
    reason = refusal(chain, split(len(describe_funcs(chain())) - 1, tail))
    size, needed = ("40x24", "0 to 39") if tail is Tail.ROUND_UP else ("1x1", "0 to 0")
    assert f"for an output of {size} it needs" in reason
    assert f"of `step_2`, where the algorithm needs {needed}" in reason


def test_second_output_and_values_of_a_tuple_are_looked_at() -> None:
    second = next(func.index for func in describe_funcs(PIPELINES["two_outputs"]()) if func.output == 1)
    assert "`second`" in refusal(PIPELINES["two_outputs"], split(second, Tail.ROUND_UP))
    (only,) = (func.index for func in describe_funcs(PIPELINES["tuple_output"]()) if func.output == 0)
    assert "`output.0`" in refusal(PIPELINES["tuple_output"], split(only, Tail.ROUND_UP))


def reads_directly() -> hl.Pipeline:
    source, double, output = image(WIDTH, HEIGHT), hl.Func("double"), hl.Func("output")
    double[X, Y] = source[X, Y] * 2
    output[X, Y] = double[X, Y] + 1
    return finish(output)


def test_reading_an_input_beyond_what_is_needed_is_refused() -> None:
    assert "of `source`, where the algorithm needs" in refusal(reads_directly, split(1, Tail.ROUND_UP))
    assert refusal(reads_directly, split(1, Tail.PREDICATE_LOADS)) == ""


def test_rounding_up_behind_a_boundary_condition_is_accepted() -> None:
    edges = next(func.index for func in describe_funcs(boundary()) if func.name == "edges")
    assert refusal(boundary, split(edges, Tail.ROUND_UP)) == ""


def test_what_halide_refuses_at_the_call_is_told() -> None:
    build = PIPELINES["matmul"]
    product = next(func.index for func in describe_funcs(build()) if func.name == "product")
    assert "Halide refused directive" in refusal(build, split(product, Tail.SHIFT_INWARDS, stage=1))


def test_what_halide_refuses_when_lowering_is_told() -> None:
    assert "constant extent" in refusal(reads_directly, Directive(1, 0, Call.UNROLL, (Var("x"),)))


def test_judging_one_schedule_leaves_no_trace_in_the_next() -> None:
    gate = make_gate(reads_directly)
    refused, accepted = schedule(reads_directly, split(1, Tail.ROUND_UP)), schedule(reads_directly)
    assert [bool(gate.refusal(s)) for s in (refused, accepted, refused)] == [True, False, True]


def test_probes_lie_around_the_factors_of_each_dimension() -> None:
    tile = Directive(2, 0, Call.SPLIT, (Var("y"), Var("yo"), Var("yi"), 6, Tail.GUARD_WITH_IF))
    again = Directive(2, 0, Call.SPLIT, (Var("xi"), Var("xm"), Var("xv"), 4, Tail.GUARD_WITH_IF))
    found = schedule(reads_directly, split(2, Tail.GUARD_WITH_IF), again, tile)
    probes = [[extent for _, extent in probe[0]] for probe in probed_sizes(found, sizes_of(reads_directly))]
    assert probes == [[WIDTH, HEIGHT], [1, 1], [3, 5], [5, 7], [15, 5], [17, 7], [17, 5], [3, 7]]


def two_deep() -> hl.Pipeline:
    source, inner, middle, output = image(WIDTH, HEIGHT), hl.Func("inner"), hl.Func("middle"), hl.Func("output")
    inner[X, Y] = source[X, Y] * 2
    middle[X, Y] = inner[X, Y] + 1
    output[X, Y] = middle[X, Y] // 3
    return finish(output)


def test_outputs_that_are_long_and_low_are_probed() -> None:
    """Of these and no others Halide takes the guarded version, and of tasks that are one loop forgets the end."""
    inner, middle, output = (
        next(f.index for f in describe_funcs(two_deep()) if f.name == name) for name in ("inner", "middle", "output")
    )

    def tiles(tail: Tail, branch: tuple[int, ...]) -> list[Directive]:
        calls = [
            (Call.SPLIT, (Var("x"), Var("xo"), Var("xi"), 16, tail)),
            (Call.SPLIT, (Var("y"), Var("yo"), Var("yi"), 8, tail)),
            (Call.FUSE, (Var("xo"), Var("yo"), Var("tasks"))),
            (Call.REORDER, (Var("xi"), Var("yi"), Var("tasks"))),
        ]
        return [Directive(output, 0, call, args, branch) for call, args in calls]

    pipeline = two_deep()
    directives = (
        Directive(inner, 0, Call.COMPUTE_AT, (Site(middle, 0, Var("y")),)),
        Directive(middle, 0, Call.COMPUTE_AT, (Site(output, 0, Var("tasks")),)),
        Directive(output, 0, Call.COMPUTE_ROOT),
        Directive(output, 0, Call.SPECIALIZE, (0, 16, 1, 8)),
        *tiles(Tail.SHIFT_INWARDS, (0,)),
        *tiles(Tail.GUARD_WITH_IF, ()),
    )
    told = make_gate(two_deep).refusal(Schedule(describe_funcs(pipeline), directives))
    assert (
        "for an output of 17x7 it needs 0 to 32 in dimension 0 of `source`, where the algorithm needs 0 to 16" in told
    )


def ends_by_point() -> hl.Pipeline:
    """Sums down to the diagonal of an input."""
    source, summed, output = image(WIDTH, 8), hl.Func("summed"), hl.Func("output")
    k = hl.RDom([(0, 8)], "k")
    k.where(k.x <= X)
    summed[X] = 0
    summed[X] += source[X, k.x]
    output[X] = summed[X] + 1
    return finish(output, sizes=(WIDTH,))


def test_whole_blocks_of_a_reduction_that_ends_by_the_point_are_refused() -> None:
    (rvar,) = describe_funcs(ends_by_point())[1].rvars[0]
    blocks = Directive(1, 1, Call.SPLIT, (RVar(rvar), RVar("ko"), RVar("ki"), 4, Tail.GUARD_WITH_IF))
    found = schedule(ends_by_point, blocks)
    probes = [[extent for _, extent in probe[0]] for probe in probed_sizes(found, sizes_of(ends_by_point))]
    assert probes == [[WIDTH], [1], [5]]
    assert "0 to 7 in dimension 1 of `source`, where the algorithm needs 0 to 4" in refusal(ends_by_point, blocks)


def test_sizes_survive_json() -> None:
    sizes = dataclasses.replace(sizes_of(boundary), scalars={"radius": 2.5})
    assert BufferSizes.from_json(sizes.to_json()) == sizes


def test_no_size_beyond_the_estimated_one_is_probed() -> None:
    wide = Directive(2, 0, Call.SPLIT, (Var("y"), Var("yo"), Var("yi"), 10 * HEIGHT, Tail.GUARD_WITH_IF))
    probes = probed_sizes(schedule(reads_directly, wide), sizes_of(reads_directly))
    assert all(extent <= HEIGHT for probe in probes for _, extent in probe[0][1:])


def three_channels() -> hl.Pipeline:
    """The output has always three channels, which the code may rely on."""
    source, output, channel = image(WIDTH, HEIGHT), hl.Func("output"), hl.Var("channel")
    output[X, Y, channel] = source[X, Y] * (channel + 1)
    output.output_buffer().dim(2).set_bounds(0, 3)
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return hl.Pipeline(output)


def test_outputs_are_probed_at_sizes_that_their_constraints_allow() -> None:
    assert refusal(three_channels) == ""
    channel = Directive(1, 0, Call.UNROLL, (Var("channel"),))
    assert refusal(three_channels, channel) == ""
    assert "of `output`" in refusal(three_channels, split(1, Tail.ROUND_UP))


def read_by_its_size() -> hl.Pipeline:
    """A reduction over all of an input but its first row, whatever the size of the output."""
    source, output = image(WIDTH, HEIGHT), hl.Func("output")
    r = hl.RDom([(0, source.width()), (0, source.height())], "r")
    r.where(r.x < r.y)
    output[X] = 0
    output[X] += source[r.x, r.y]
    output.set_estimate(X, 0, 20)
    return hl.Pipeline(output)


def test_input_read_by_its_own_size_has_its_estimated_one() -> None:
    assert refusal(read_by_its_size, split(1, Tail.GUARD_WITH_IF)) == ""
    inner = Directive(1, 1, Call.SPLIT, (RVar("r$y"), RVar("ro"), RVar("ri"), 8, Tail.GUARD_WITH_IF))
    assert refusal(read_by_its_size, inner) == ""


def test_schedule_for_one_size_is_probed_there_alone() -> None:
    fixed = tuple(Directive(2, 0, Call.SET_BOUNDS, (d, 0, extent)) for d, extent in enumerate((WIDTH, HEIGHT)))
    found = schedule(reads_directly, *fixed)
    assert found.has_fixed_sizes
    assert len(probed_sizes(found, sizes_of(reads_directly))) == 1
    assert make_gate(reads_directly).refusal(found) == ""


def promised() -> hl.Pipeline:
    """Reads further than it says: for bounds, but not in the code, an index is clamped."""
    source, output = image(WIDTH, HEIGHT), hl.Func("output")
    output[X, Y] = source[hl.unsafe_promise_clamped(X + 5, 0, WIDTH - 1), Y]
    return finish(output)


def test_access_beyond_what_the_bounds_query_tells_is_seen() -> None:
    places = (WIDTH - 5) * HEIGHT
    assert f"its code touches element {places + 4} of `source`, which has {places}" in refusal(promised)
    assert refusal(reads_directly) == ""


USUAL_BLOCK = BlockLimits(threads=1024, shared_bytes=48 << 10)


def gpu_refusal(build: Build, directives: list[Directive], target: str, limits: BlockLimits | None) -> str:
    return make_gate(build, target, limits).refusal(schedule_with(build, tuple(directives)))


@pytest.mark.parametrize("target", ["host-cuda", "host-opencl"])
@pytest.mark.parametrize(("height", "problem"), [(16, ""), (17, "a block has 1088 threads, and may have 1024")])
def test_block_of_too_many_threads_is_refused(target: str, height: int, problem: str) -> None:
    last = len(describe_funcs(chain())) - 1
    reason = gpu_refusal(chain, tiled(last, 64, height), target, USUAL_BLOCK)
    assert reason == (problem and f"of the kernel of `step_2`, {problem}")
    assert gpu_refusal(chain, tiled(last, 64, height), target, None) == ""


@pytest.mark.parametrize("target", ["host-cuda", "host-opencl"])
def test_block_of_too_much_shared_memory_is_refused(target: str) -> None:
    build = in_shared_memory(400)
    needed, many = 52224, 1 << 20
    calls = computed_a_block(build)
    assert gpu_refusal(build, calls, target, BlockLimits(many, needed)) == ""
    reason = gpu_refusal(build, calls, target, BlockLimits(many, needed - 1))
    assert reason == f"of the kernel of `output`, a block has {needed} B of shared memory, and may have {needed - 1}"


def test_threads_along_a_whole_dimension_are_counted_at_the_estimated_size() -> None:
    last = len(describe_funcs(chain())) - 1
    exceeded = BlockLimits(threads=WIDTH * 8 - 1, shared_bytes=48 << 10)
    assert f"a block has {WIDTH * 8} threads" in gpu_refusal(chain, tiled(last, "x", 8), "host-opencl", exceeded)


def test_update_is_named() -> None:
    def build() -> hl.Pipeline:
        output = hl.Func("output")
        output[X, Y] = X
        output[X, Y] += Y
        return finish(output)

    calls = [*tiled(0, 32, 8), *tiled(0, 64, 32, stage=1)]
    at_root = Directive(0, 0, Call.COMPUTE_ROOT)
    assert gpu_refusal(build, [at_root, *calls], "host-opencl", USUAL_BLOCK).startswith(
        "of the kernel of `output`, update 0, a block has 2048 threads"
    )


def beside_each_other(*, is_clamped: bool) -> hl.Pipeline:
    """Two points beside each other of an image, where it may end earlier or not."""
    source, output = hl.ImageParam(hl.UInt(8), 2, "source"), hl.Func("output")
    source.set_estimates([(0, 101), (0, 50)])
    values = hl.BoundaryConditions.repeat_edge(source) if is_clamped else source
    output[X, Y] = values[X, Y] + values[X + 1, Y]
    return finish(output, sizes=(100, 50))


def test_an_input_of_which_outputs_of_the_estimated_size_need_more_is_told() -> None:
    gate = make_gate(lambda: beside_each_other(is_clamped=False))
    for enough in (((0, 101), (0, 50)), ((-3, 200), (-1, 51))):
        assert gate.shortage({"source": enough}, {}) == ""
    for short, told in (
        (((0, 100), (0, 50)), "from 0 to 99 in dimension 0, and outputs of the estimated size 100x50 need 0 to 100"),
        (((0, 101), (1, 50)), "from 1 to 50 in dimension 1, and outputs of the estimated size 100x50 need 0 to 49"),
    ):
        assert gate.shortage({"source": short}, {}) == f"Input `source` goes {told}"
    assert make_gate(lambda: beside_each_other(is_clamped=True)).shortage({"source": ((0, 7), (0, 1))}, {}) == ""
    assert gate.shortage({}, {}) == ""
