"""Features of small pipelines on a GPU of 68 multiprocessors, worked out by hand; and what the space offers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import halide as hl
import pytest
from small_pipelines import (
    PIPELINES,
    X,
    Y,
    blur,
    convolution,
    finish,
    gpu_space,
    histogram,
    image,
    make_gpu_space,
    matmul,
)

from metol import _core
from metol.lower import Call, gpu_directives
from metol.pipeline import PipelineDag, extract
from metol.targets.gpu import GpuMachine, gpu_parameters

AT, INNER, PARALLEL = 3, 4, 5  # DecisionKind
BLOCKS, THREADS = 0, 1  # levels


def grown(
    build: Callable[[], hl.Pipeline],
    block: tuple[int, int],
    *,
    thread_loop: int = 0,
    points: tuple[int, int] = (1, 1),
    places: Mapping[str, int] = MappingProxyType({}),
) -> tuple[PipelineDag, _core.Space, _core.States]:
    """Everything at root but for `places`, Funcs and the level of the output that they are computed in.

    At root all blocks have one shape along the two innermost pure loops, and the threads of the output so many points.
    """
    dag = extract(build())
    space = make_gpu_space(dag, allow_inline=False)
    state = space.root()

    def is_chosen(decision: tuple[int, ...]) -> bool:
        kind, func, stage, level, loop, trips = (*decision[:4], decision[6], decision[-12:])
        name = dag.funcs[func].name.split("$")[0]
        if stage < 0 or kind == AT:
            return (level if kind == AT else None) == places.get(name)
        pure = [i for i, dim in enumerate(dag.stages[stage].loops) if not dim.is_reduction]
        sizes = block if kind == PARALLEL else points if dag.funcs[func].is_output else (1, 1)
        wanted = dict(zip(pure, sizes, strict=False))
        is_along = kind == PARALLEL or loop == pure[thread_loop]
        return is_along and all(trips[i] == wanted.get(i, 1) for i in range(len(dag.stages[stage].loops)))

    for _ in range(space.decision_count):
        children, _ = space.expand(state)
        made = [space.path(children.take([i]))[-1] for i in range(len(children))]
        chosen = [i for i, one in enumerate(made) if one[0] not in (AT, INNER, PARALLEL) or is_chosen(one)]
        chosen = [i for i in chosen if made[i][0] == AT] or chosen
        state = children.take(chosen)
        assert len(state) == 1
    return dag, space, state


def features(dag: PipelineDag, space: _core.Space, state: _core.States) -> dict[tuple[str, int], dict[str, float]]:
    (rows,) = space.featurize(state)
    names = list(space.feature_table())
    return {
        (dag.funcs[stage.func].name.split("$")[0], stage.index): dict(zip(names, map(float, row), strict=True))
        for stage, row in zip(dag.stages, rows, strict=True)
    }


BLUR_Y = {  # 40 x 24 of 16 bits in 2 x 3 blocks of 32 x 8 threads; each reads 3 rows of blur_x
    "num_realizations": 1,
    "num_productions": 1,
    "points_computed_total": 40 * 24,
    "points_computed_per_production": 40 * 24,
    "points_computed_per_thread": 1,
    "inner_parallelism": 6,
    "outer_parallelism": 1,
    "num_blocks": 6,
    "threads_per_block": 256,
    "num_threads_per_block": 256,
    "num_warps_per_block": 8,
    "num_active_warps_per_block": 8,
    "block_occupancy": 0.25,
    "warp_lane_utilization": 1,
    "idle_lane_wastage": 0,
    "lanes_issued": 6 * 256,
    "resident_warps": 8,
    "exposed_latency": 2,
    "num_global_mem_loads_per_block": 8 * 3 * 2,  # 8 warps, 3 loads, 64 bytes
    "num_global_mem_stores_per_block": 8 * 2,
    "num_shared_mem_loads_per_block": 0,
    "global_mem_load_efficiency": 1,
    "shared_mem_load_efficiency": 1,
    "unique_global_bytes_read_per_realization": 40 * 26 * 2,
    "unique_global_lines_read_per_realization": 26,
    "unique_global_bytes_read_per_thread": 3 * 2,
    "unique_global_lines_read_per_thread": 3,
    "unique_shared_bytes_read_per_thread": 0,
    "unique_bytes_read_per_point": 3 * 2,
    "unique_bytes_read_per_task": 32 * 10 * 2,
    "unique_lines_read_per_task": 10,
    "global_allocation_bytes_read_per_realization": 40 * 26 * 2,
    "global_bytes_at_task": 256 * 2,
    "global_innermost_bytes_at_task": 32 * 2,
    "bytes_at_root": 40 * 24 * 2,
    "innermost_bytes_at_root": 40 * 2,
    "working_set": 0,
    "expr_branching": 2,
    "shared_mem_occupancy": 0,
    "max_block_occupancy": 4 / 16,  # of 1024 threads on a multiprocessor, that holds 16 blocks of few
    "max_warp_occupancy": 1,
    "bytes_read_by_blocks": 6 * 10 * 64,
    "bytes_read": 26 * 96,  # 80 bytes a row are 3 sectors
    "bytes_written": 40 * 24 * 2,
    "shared_bytes": 0,
    "barriers": 0,
    "launches": 1,
    "inlined_lanes": 0,
}
PRODUCT = {  # the same grid of 32-bit sums over k: a(k, y) is one place a warp, b(x, k) a row of it
    "points_computed_total": 40 * 24 * 24,
    "num_blocks": 6,
    "points_computed_per_thread": 24,
    "innermost_loop_extent": 24,
    "innermost_pure_loop_extent": 1,
    "lanes_issued": 6 * 256 * 24,
    "num_global_mem_loads_per_block": 8 * (24 * (1 + 4) + 4),  # a and b each time, the sum itself once
    "num_global_mem_stores_per_block": 8 * 4,
    "global_mem_load_efficiency": (24 * (4 + 128) + 128) / (32 * (24 * (1 + 4) + 4)),
    "unique_global_bytes_read_per_thread": 24 * 4 * 2,
    "unique_global_lines_read_per_thread": 1 + 24,
    "unique_bytes_read_per_point": 8,
    "bytes_read": 24 * 96 + 24 * 160,
    "bytes_written": 40 * 24 * 4,
}
IN_BLOCKS = {  # 32 x 10 points of blur_x for each block of 32 x 8 of blur_y
    "num_realizations": 6,
    "points_computed_total": 6 * 320,
    "points_computed_per_realization": 320,
    "inner_parallelism": 1,
    "outer_parallelism": 6,
    "num_blocks": 6,
    "threads_per_block": 320,
    "num_threads_per_block": 320,
    "lanes_issued": 6 * 320,
    "num_global_mem_stores_per_block": 0,
    "num_shared_mem_stores_per_block": 10 * 1,  # 64 bytes a warp: 16 banks, one turn
    "shared_mem_store_efficiency": 0.5,
    "shared_bytes_at_task": 320 * 2,
    "shared_innermost_bytes_at_task": 32 * 2,
    "global_bytes_at_task": 0,
    "bytes_at_realization": 320 * 2,
    "bytes_at_root": 40 * 26 * 2,
    "working_set_at_production": 320 * 2,
    "working_set_at_task": 320 * 2,
    "bytes_written": 0,
    "shared_bytes": 32 * 10 * 2,
    "barriers": 6,
    "launches": 0,
}
READS_BLOCKS = {  # blur_y of the same kernel: two of its ten warps have nothing to do
    "threads_per_block": 320,
    "num_threads_per_block": 256,
    "num_warps_per_block": 10,
    "num_active_warps_per_block": 8,
    "lanes_issued": 6 * 256,
    "resident_warps": 8,
    "num_global_mem_loads_per_block": 0,
    "num_shared_mem_loads_per_block": 8 * 3,
    "shared_mem_load_efficiency": 0.5,
    "unique_shared_bytes_read_per_thread": 6,
    "unique_shared_bytes_read_per_realization": 40 * 26 * 2,
    "shared_allocation_bytes_read_per_realization": 320 * 2,
    "working_set": 320 * 2,
    "shared_mem_occupancy": 640 / 49152,
    "bytes_read": 0,
    "launches": 1,
}
IN_THREADS = {  # three points of blur_x for each thread
    "num_realizations": 6 * 256,
    "points_computed_per_production": 3,
    "num_blocks": 6,
    "threads_per_block": 256,
    "points_computed_per_thread": 3,
    "lanes_issued": 6 * 256 * 3,
    "num_global_mem_loads_per_block": 8 * 3 * 3 * 2,  # 3 loads along x for each of 3 points along y; 64 bytes a warp
    "num_global_mem_stores_per_block": 0,
    "num_shared_mem_loads_per_block": 0,
    "unique_global_bytes_read_per_thread": 9 * 2,
    "unique_global_lines_read_per_thread": 3,
    "register_bytes_at_task": 256 * 3 * 2,
    "register_innermost_bytes_at_task": 2,
    "working_set_at_thread": 3 * 2,
    "shared_bytes": 0,
    "barriers": 0,
    "launches": 0,
}
READS_THREADS = {  # blur_y of that kernel
    "unique_register_bytes_read_per_thread": 6,
    "unique_register_lines_read_per_thread": 3,
    "register_allocation_bytes_read_per_realization": 6,
    "num_global_mem_loads_per_block": 0,
    "working_set": 256 * 6,
    "working_set_at_task": 256 * 6,
}


@pytest.mark.parametrize(
    ("build", "places", "stage", "expected"),
    [
        (blur, {}, ("blur_y", 0), BLUR_Y),
        (matmul, {}, ("product", 1), PRODUCT),
        (blur, {"blur_x": BLOCKS}, ("blur_x", 0), IN_BLOCKS),
        (blur, {"blur_x": BLOCKS}, ("blur_y", 0), READS_BLOCKS),
        (blur, {"blur_x": THREADS}, ("blur_x", 0), IN_THREADS),
        (blur, {"blur_x": THREADS}, ("blur_y", 0), READS_THREADS),
    ],
)
def test_features(
    build: Callable[[], hl.Pipeline], places: dict[str, int], stage: tuple[str, int], expected: dict[str, float]
) -> None:
    row = features(*grown(build, (32, 8), places=places))[stage]
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_lanes_across_the_storage_load_a_sector_each() -> None:
    row = features(*grown(blur, (16, 16), thread_loop=1))["blur_y", 0]
    # The output is stored along x: 16 rows of 2 columns a warp; blur_x lies as its own threads do, along y,
    # in columns of 26 points: of the second of two, 52 bytes on, 16 points lie in two sectors.
    assert row["num_global_mem_stores_per_block"] == 8 * 16
    assert row["num_global_mem_loads_per_block"] == 8 * 3 * (1 + 2)


def strided() -> hl.Pipeline:
    """Sums of every 1024th point, by neighbouring threads of neighbouring points."""
    source, sums = image(64 * 1024), hl.Func("sums")
    r = hl.RDom([(0, 64)], "r")
    sums[X] = 0
    sums[X] += source[X + 1024 * r.x]
    return finish(sums, sizes=(1024,))


@pytest.mark.parametrize("threads", [32, 128])
def test_blocks_that_step_through_memory_leave_out_what_is_between(threads: int) -> None:
    row = features(*grown(strided, (threads, 1)))["sums", 1]
    assert row["bytes_read_by_blocks"] == row["bytes_read"] == 64 * 1024 * 4


def test_a_func_inlined_is_charged_to_its_own_row() -> None:
    dag, space = gpu_space(blur)
    inlined = space.rollout(space.root(), range(40))
    rows = [features(dag, space, inlined.take([i])) for i in range(40)]
    charged = [row["blur_x", 0] for row in rows if row["blur_x", 0]["inlined_lanes"] > 0]
    assert charged
    assert all(row["launches"] == 0 for row in charged)


def test_blocks_have_1024_threads_at_most() -> None:
    dag, space = gpu_space(convolution)
    leaves = space.rollout(space.root(), range(100))
    sizes = {row["threads_per_block"] for i in range(100) for row in features(dag, space, leaves.take([i])).values()}
    assert max(sizes) == 1024
    assert space.pruned_counts()["too_many_threads"] > 0


def scatter(*, bins: hl.Type | None = None, columns: int = 40, rows: int = 24) -> hl.Pipeline:
    """A histogram of some columns and rows."""
    bins = bins or hl.Int(32)
    source, counts, output = image(40, 24, pixel=hl.UInt(8)), hl.Func("counts"), hl.Func("output")
    r = hl.RDom([(0, columns), (0, rows)], "r")
    counts[X] = hl.cast(bins, 0)
    counts[hl.i32(source[r.x, r.y])] += hl.cast(bins, 1)
    output[X] = counts[X] * 2
    return finish(output, sizes=(256,))


def test_an_update_without_pure_loops_is_spread_over_threads_and_atomic() -> None:
    dag, space = gpu_space(scatter)
    leaves = space.rollout(space.root(), range(40))
    names = list(space.feature_table())
    number = next(i for i, stage in enumerate(dag.stages) if stage.index == 1)
    for state in (leaves.take([i]) for i in range(40)):
        (nest,) = (one.stages[1] for one in state.describe() if len(one.stages) == 2)
        assert nest.is_parallel
        assert dag.stages[number].loops[nest.vector_loop].is_reduction
        row = dict(zip(names, map(float, space.featurize(state)[0, number]), strict=True))
        assert row["points_computed_total"] == 40 * 24
        assert row["atomic_turns"] == pytest.approx(40 * 24 / 256)
        points = row["num_threads_per_block"] * row["points_computed_per_thread"]
        assert row["num_global_mem_stores_per_block"] == points  # nobody knows where they go: a sector each
        calls = [
            d.call
            for d in gpu_directives(dag, state.describe())
            if (d.stage, dag.funcs[d.func].is_output) == (1, False)
        ]
        assert calls[0] is Call.ATOMIC
        assert Call.GPU_BLOCKS in calls


@pytest.mark.parametrize(
    "build",
    [
        partial(scatter, bins=hl.UInt(16)),  # no words
        partial(scatter, bins=hl.Int(64)),
        partial(scatter, columns=6, rows=5),  # not even a warp
    ],
)
def test_what_cannot_be_parallel_runs_in_one_thread(build: Callable[[], hl.Pipeline]) -> None:
    dag, space = gpu_space(build)
    leaf = space.rollout(space.root(), [0])
    (counts,) = (one for one in leaf.describe() if len(one.stages) == 2)
    pure, update = counts.stages
    assert pure.is_parallel
    assert not update.is_parallel
    row = features(dag, space, leaf)["counts", 1]
    assert (row["num_blocks"], row["threads_per_block"], row["atomic_turns"]) == (1, 1, 0)


def test_a_scan_is_no_reduction() -> None:
    dag, space = gpu_space(histogram)
    leaf = space.rollout(space.root(), [0])
    schedules = {dag.funcs[s.func].name.split("$")[0]: s for s in leaf.describe()}
    assert not schedules["sums"].stages[1].is_parallel


def test_a_small_grid_costs_more_than_its_share() -> None:
    def seconds(size: int) -> float:
        x = hl.Var("x")
        func = hl.Func("func")
        func[x] = x * 3
        func.set_estimates([(0, size)])
        space = make_gpu_space(extract(func))
        children, _ = space.expand(space.expand(space.root())[0])
        return float(space.cost(children, _core.CostModel()).min())

    assert seconds(1 << 22) < 4096 * seconds(1 << 10)


@pytest.mark.parametrize("name", ["v100", "rtx2080ti", "a100", "nano", "p100"])
def test_the_core_counts_blocks_as_the_calculator_does(name: str) -> None:
    machine = replace(GpuMachine.preset(name, threads=1), multiprocessors=1)  # one that has all blocks to hold
    dag = extract(PIPELINES["convolution"]())
    space = _core.Space(dag, gpu_parameters(machine, dag), _core.SpaceOptions(), 1)
    leaves = space.rollout(space.root(), range(100))
    counted = 0
    for place in range(len(leaves)):
        for row in features(dag, space, leaves.take([place])).values():
            if row["launches"] and row["num_threads_per_block"] == row["threads_per_block"] and row["num_blocks"] > 32:
                warps = math.ceil(row["threads_per_block"] / 32)
                held = machine.occupancy(
                    int(row["threads_per_block"]),
                    registers_per_thread=math.ceil(row["registers"]),
                    shared_bytes_per_block=int(row["shared_bytes"]),
                )
                assert row["resident_warps"] == warps * max(1, held.blocks)
                counted += 1
    assert counted > 10


@pytest.mark.parametrize("name", PIPELINES)
def test_no_decision_leaves_nothing_to_choose(name: str) -> None:
    dag, space = gpu_space(PIPELINES[name])
    leaves = space.rollout(space.root(), range(200))
    for place in range(len(leaves)):
        assert len(leaves.take([place]).describe()) == len(dag.funcs)


def test_what_is_read_pointwise_is_inline_unless_its_reader_is() -> None:
    source, first, second, output = (
        image(60, 40, pixel=hl.Float(32)),
        hl.Func("first"),
        hl.Func("second"),
        hl.Func("output"),
    )
    first[X, Y] = hl.exp(source[X, Y] + source[X + 1, Y])
    second[X, Y] = first[X, Y] * 2
    output[X, Y] = second[X, Y] + second[X + 1, Y]
    dag, space = gpu_space(lambda: finish(output, sizes=(40, 24)))
    places = {dag.funcs[func].name.split("$")[0]: func for func in range(len(dag.funcs))}
    leaves = space.rollout(space.root(), range(200))
    seen = set()
    for described in (leaves.take([i]).describe() for i in range(200)):
        seen.add(tuple(described[places[name]].placement == _core.Placement.INLINE for name in ("second", "first")))
    # Of `second` in memory, `first` is inline; of `second` inline, it may be either.
    assert seen == {(False, True), (True, True), (True, False)}
