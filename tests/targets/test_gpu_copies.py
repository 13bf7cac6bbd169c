"""Copies in shared memory and registers: what they cost, worked out by hand; which are offered; that results stay."""

from collections.abc import Callable

import halide as hl
import pytest
from slow_cases import half_of, marks_of
from small_pipelines import (
    EMULATED_TARGET,
    PIPELINES,
    ExactRuns,
    X,
    Y,
    finish,
    image,
    make_gpu_space,
    schedule_with,
)

import metol
from metol import _core
from metol.lower import Call, Schedule, describe_funcs, gpu_directives, rewritten_directives
from metol.options import SearchOptions
from metol.pipeline import PipelineDag, Staging, extract
from metol.targets.gpu import propose_stagings

AT, INNER, PARALLEL = 3, 4, 5  # DecisionKind
BLOCKS, THREADS = 0, 1  # levels
WIDTH, HEIGHT, TERMS, CHUNK = 64, 24, 32, 8


def product() -> hl.Pipeline:
    a, b = image(TERMS, HEIGHT, name="a"), image(WIDTH, TERMS, name="b")
    k = hl.RDom([(0, TERMS)], "k")
    output = hl.Func("output")
    output[X, Y] = 0
    output[X, Y] += a[k.x, Y] * b[X, k.x]
    return finish(output, sizes=(WIDTH, HEIGHT))


def reads(dag: PipelineDag) -> list[Staging]:
    """All reads of one Func by another that can be staged."""
    pairs = {(edge.producer, stage.func) for stage in dag.stages for edge in stage.edges}
    return [
        Staging(producer, consumer)
        for producer, consumer in sorted(pairs)
        if producer < dag.real_func_count and not dag.funcs[producer].is_output
    ]


def staged(build: Callable[[], hl.Pipeline], count: int = 2) -> tuple[PipelineDag, _core.Space, list[Staging]]:
    stagings = reads(extract(build()))[:count]
    dag = extract(build(), stagings=stagings)
    return dag, make_gpu_space(dag), stagings


def copies(dag: PipelineDag, state: _core.States) -> dict[str, _core.FuncSchedule]:
    """The copies that are there, by name."""
    return {
        dag.funcs[one.func].name: one
        for one in state.describe()
        if dag.funcs[one.func].is_wrapper and one.placement != _core.Placement.INLINE
    }


def leaves_with_copies(dag: PipelineDag, space: _core.Space, count: int = 400) -> list[_core.States]:
    leaves = space.rollout(space.root(), range(count))
    return [leaf for leaf in map(leaves.take, ([i] for i in range(count))) if copies(dag, leaf)]


def lowered(
    build: Callable[[], hl.Pipeline], dag: PipelineDag, state: _core.States, stagings: list[Staging]
) -> Schedule:
    given = len(describe_funcs(build()))
    directives = gpu_directives(dag, state.describe())
    return schedule_with(build, rewritten_directives(dag, (), directives, given, stagings))


def in_chunks() -> tuple[PipelineDag, _core.Space, _core.States]:
    """Blocks of 32 x 4 threads; each copies 8 x 4 values of `a` four times, by as many threads."""
    dag, space, _ = staged(product, count=1)
    update = next(number for number, stage in enumerate(dag.stages) if stage.index == 1)
    loops = [loop.is_reduction for loop in dag.stages[update].loops]
    assert loops == [True, False, False]
    wanted = {(INNER, update): (1, 1, 1), (PARALLEL, update): (1, 32, 4)}
    state = space.root()
    for func, stage in zip(space.decision_funcs, space.decision_stages, strict=True):
        children, _ = space.expand(state)
        made = [space.path(children.take([i]))[-1] for i in range(len(children))]
        chosen = 0
        for i, decision in enumerate(made):
            kind, trips = decision[0], decision[10:13]
            is_along_x = kind != INNER or (decision[6] == 1 and not decision[8])  # and not atomic
            if is_along_x and trips == wanted.get((kind, stage)):
                chosen = i
            if dag.funcs[func].is_wrapper and kind == AT and decision[4] == 1 and trips == (CHUNK, 1, 1):
                chosen = i
            if dag.funcs[func].is_wrapper and kind == INNER and decision[6] == 0 and trips[:2] == (1, 1):
                chosen = i
        state = children.take([chosen])
    return dag, space, state


def test_a_copy_is_loaded_once_a_chunk_and_read_from_shared_memory() -> None:
    dag, space, state = in_chunks()
    names = list(space.feature_table())
    rows = {
        (dag.funcs[stage.func].is_wrapper, stage.index): dict(zip(names, map(float, row), strict=True))
        for stage, row in zip(dag.stages, space.featurize(state)[0], strict=True)
    }
    chunks, warps = TERMS // CHUNK, 4
    blocks = WIDTH // 32 * HEIGHT // 4
    copy, sums = rows[True, 0], rows[False, 1]
    # Eight lanes of each warp load one sector of a row, and store it in one turn of the banks.
    assert copy["num_blocks"] == blocks
    assert copy["num_threads_per_block"] == CHUNK * 4
    assert copy["num_global_mem_loads_per_block"] == chunks * warps
    assert copy["num_shared_mem_stores_per_block"] == chunks * warps
    assert copy["bytes_read_by_blocks"] == blocks * TERMS * 4 * 4
    # Before the first warp reads a chunk, and before the next chunk is stored.
    assert copy["barriers"] == 2 * chunks * blocks
    # One value for all lanes of a warp; `b` and the sums are still in global memory, four sectors a warp.
    assert sums["num_shared_mem_loads_per_block"] == TERMS * warps
    assert sums["num_global_mem_loads_per_block"] == TERMS * warps * 4 + chunks * warps * 4
    assert sums["num_global_mem_stores_per_block"] == chunks * warps * 4
    assert sums["shared_bytes"] == copy["shared_bytes"] == CHUNK * 4 * 4
    assert sums["lanes_issued"] == WIDTH * HEIGHT * TERMS
    assert sums["num_blocks"] == blocks


def test_chunks_are_loops_around_the_threads() -> None:
    dag, _, state = in_chunks()
    output = next(one for one in state.describe() if dag.funcs[one.func].is_output)
    assert [level[0] for level in output.stages[1].levels] == [TERMS // CHUNK, 1, CHUNK]
    stagings = reads(extract(product()))[:1]
    source = lowered(product, dag, state, stagings).to_python()
    assert "split(k_x, k_x_u1_chunk, k_x_u1_rest, 8" in source
    assert "k_x_u1_chunk)\n" in source.split(".compute_at(")[1]
    assert "a_im.in_(output)" in source
    assert ".in(" in lowered(product, dag, state, stagings).to_cpp()


def test_what_no_two_threads_share_is_not_copied() -> None:
    def pointwise() -> hl.Pipeline:
        source, output = image(WIDTH, HEIGHT), hl.Func("output")
        output[X, Y] = source[X, Y] * 2
        return finish(output, sizes=(WIDTH, HEIGHT))

    dag, space, _ = staged(pointwise)
    assert leaves_with_copies(dag, space, 50) == []
    assert space.pruned_counts()["nothing_shared"] > 0
    plain = make_gpu_space(extract(pointwise()))
    leaf = plain.rollout(plain.root(), [0])
    assert propose_stagings(extract(pointwise()), leaf.describe(), [0]) == ()


def test_what_threads_share_is_proposed() -> None:
    dag = extract(product())
    space = make_gpu_space(dag)
    leaf = space.rollout(space.root(), [0])
    names = [dag.funcs[one.func].name for one in propose_stagings(dag, leaf.describe(), [1, 0])]
    assert [name.split("$")[0] for name in names] == ["a_im", "b_im"]


def test_whole_reductions_do_not_fit_where_chunks_do() -> None:
    def deep() -> hl.Pipeline:
        a, b = image(4096, 64, name="a"), image(64, 4096, name="b")
        k = hl.RDom([(0, 4096)], "k")
        output = hl.Func("output")
        output[X, Y] = 0
        output[X, Y] += a[k.x, Y] * b[X, k.x]
        return finish(output, sizes=(64, 64))

    dag, space, _ = staged(deep)
    update = next(number for number, stage in enumerate(dag.stages) if stage.index == 1)
    column = list(space.feature_table()).index("shared_bytes")
    chunks = set()
    for leaf in leaves_with_copies(dag, space, 400):
        nest = next(one for one in leaf.describe() if one.func == dag.stages[update].func).stages[1]
        chunks.add(nest.levels[BLOCKS][0])
        assert space.featurize(leaf)[0, update, column] <= 48 << 10
    assert max(chunks) == 4096 // 8
    assert space.pruned_counts()["too_much_shared_memory"] > 0


def test_copies_are_never_kernels_of_their_own() -> None:
    dag, space, _ = staged(product)
    for leaf in leaves_with_copies(dag, space, 60)[:8]:
        for position in range(space.decision_count):
            near = space.neighbours(leaf, position)
            for i in range(len(near)):
                placements = {one.placement for one in copies(dag, near.take([i])).values()}
                assert placements <= {_core.Placement.AT}


@pytest.mark.parametrize("is_parameter", [True, False])
def test_what_a_parameter_moves_apart_is_not_in_blocks(is_parameter: bool) -> None:
    """f(x) - f(x + p): how much a block needs of f is known to nobody but the caller."""

    def build() -> hl.Pipeline:
        distance = hl.Param(hl.Int(32), "distance", 3)
        distance.set_estimate(3)
        source, once, output = image(80, 24), hl.Func("once"), hl.Func("output")
        once[X, Y] = source[X, Y] * source[X, Y + 1] % 7
        output[X, Y] = once[X + (distance if is_parameter else 3), Y] - once[X, Y]
        return finish(output, sizes=(40, 20))

    space = make_gpu_space(extract(build()))
    leaves = space.rollout(space.root(), range(100))
    described = [one for i in range(100) for one in leaves.take([i]).describe()]
    levels = {one.compute.level for one in described if one.placement == _core.Placement.AT}
    assert (BLOCKS in levels) == (not is_parameter)


def rows_of_two_matrices() -> hl.Pipeline:
    """A times the transpose of B, which no Func keeps in registers: along x or along y one is read across its rows."""
    a, b = (image(1024, 1024, name=name, pixel=hl.Float(32)) for name in "ab")
    k = hl.RDom([(0, 1024)], "k")
    output = hl.Func("output")
    output[X, Y] = hl.f32(0)
    output[X, Y] += a[k.x, Y] * b[k.x, X]
    return finish(output, sizes=(1024, 1024))


def test_autoschedule_shares_what_is_read_across_rows() -> None:
    times = {}
    for staging in (True, False):
        options = SearchOptions(strategy="greedy", staging=staging, budget_seconds=None)
        result = metol.autoschedule(rows_of_two_matrices(), target="cuda", gpu="a100", options=options)
        assert result.origin == "search"
        assert any(directive.call is Call.IN for directive in result.schedule.directives) == staging
        times[staging] = result.predicted_seconds
    assert times[True] < times[False]


@pytest.mark.slow
@pytest.mark.usefixtures("ptxas")
def test_kernels_with_copies_assemble_and_spill_nothing() -> None:
    options = SearchOptions(strategy="greedy", budget_seconds=None)
    result = metol.autoschedule(rows_of_two_matrices(), target="cuda", gpu="a100", options=options, verify="kernels")
    assert all(report.is_launchable for report in result.kernels)
    assert any(report.kernel.shared_bytes for report in result.kernels)
    assert all(report.kernel.spill_store_bytes == 0 for report in result.kernels)


def test_grouping_makes_no_copies() -> None:
    options = SearchOptions(strategy="grouping", budget_seconds=None)
    result = metol.autoschedule(rows_of_two_matrices(), target="cuda", gpu="a100", options=options)
    assert not any(directive.call is Call.IN for directive in result.schedule.directives)


COPYING = ("matmul", "convolution", "chain", "tuples", "transpose", "channels", "boundary", "where")


@pytest.mark.usefixtures("emulated_gpu")
@pytest.mark.parametrize(
    ("name", "count"),
    [("matmul_output", 1)] + [pytest.param(name, 2, marks=marks_of(name, half_of(COPYING, ()))) for name in COPYING],
)
def test_copies_keep_the_result_under_random_loop_nests(name: str, count: int) -> None:
    build = PIPELINES[name]
    dag, space, stagings = staged(build)
    found = leaves_with_copies(dag, space, 200)[:count]
    assert found
    runs = ExactRuns(name, target=EMULATED_TARGET)
    for state in found:
        runs.check(Schedule.from_json(lowered(build, dag, state, stagings).to_json()))
