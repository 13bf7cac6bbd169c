"""Features of small pipelines on a GPU of 68 multiprocessors, worked out by hand; and what the space offers."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import blur, convolution, gpu_space, histogram, make_gpu_space, matmul

from metol import _core
from metol.pipeline import PipelineDag, extract

INNER = 4  # DecisionKind::Inner


def at_root(
    build: Callable[[], hl.Pipeline], block: tuple[int, int], thread_loop: int = 0
) -> tuple[PipelineDag, _core.Space, _core.States]:
    """Everything at root, with blocks of one shape along the two innermost pure loops where there are such."""
    dag = extract(build())
    space = make_gpu_space(dag, allow_inline=False)
    state = space.root()
    for _ in range(space.decision_count):
        children, _ = space.expand(state)
        made = [space.path(children.take([i]))[-1] for i in range(len(children))]
        chosen = [i for i, decision in enumerate(made) if is_block(dag, decision, block, thread_loop)]
        state = children.take(chosen)
        assert len(state) == 1
    return dag, space, state


def is_block(dag: PipelineDag, decision: tuple[int, ...], block: tuple[int, int], thread_loop: int) -> bool:
    kind, stage, loop, trips = decision[0], decision[2], decision[6], decision[-12:]
    if kind != INNER:
        return True
    pure = [i for i, dim in enumerate(dag.stages[stage].loops) if not dim.is_reduction]
    wanted = {pure[0]: block[0], pure[1]: block[1]}
    return loop == pure[thread_loop] and all(trips[i] == wanted.get(i, 1) for i in range(len(dag.stages[stage].loops)))


def features(dag: PipelineDag, space: _core.Space, state: _core.States) -> dict[tuple[str, int], dict[str, float]]:
    (rows,) = space.featurize(state)
    names = list(space.feature_table())
    return {
        (dag.funcs[stage.func].name.split("$")[0], stage.index): dict(zip(names, map(float, row), strict=True))
        for stage, row in zip(dag.stages, rows, strict=True)
    }


BLUR_Y = {  # 40 x 24 of 16 bits in 2 x 3 blocks of 32 x 8 threads; each reads 3 rows of blur_x
    "points_computed": 40 * 24,
    "blocks": 6,
    "threads_per_block": 256,
    "points_per_thread": 1,
    "lanes_issued": 6 * 256,
    "sm_imbalance": 68 / 6,
    "resident_warps": 8,
    "exposed_latency": 2,
    "sectors_loaded": 48 * 3 * 2,  # 48 warps, 3 loads, 64 bytes
    "sectors_stored": 48 * 2,
    "bytes_read_by_blocks": 6 * 10 * 64,
    "bytes_read": 26 * 96,  # 80 bytes a row are 3 sectors
    "bytes_written": 40 * 24 * 2,
    "launches": 1,
    "inlined_lanes": 0,
}
PRODUCT = {  # the same grid of 32-bit sums over k: a(k, y) is one place a warp, b(x, k) a row of it
    "points_computed": 40 * 24 * 24,
    "blocks": 6,
    "points_per_thread": 24,
    "lanes_issued": 6 * 256 * 24,
    "sectors_loaded": 48 * 24 * (1 + 4 + 4),  # a, b, and the sum itself
    "sectors_stored": 48 * 24 * 4,
    "bytes_read": 24 * 96 + 24 * 160,
    "bytes_written": 40 * 24 * 4,
}


@pytest.mark.parametrize(
    ("build", "stage", "expected"), [(blur, ("blur_y", 0), BLUR_Y), (matmul, ("product", 1), PRODUCT)]
)
def test_features_at_root(build: Callable[[], hl.Pipeline], stage: tuple[str, int], expected: dict[str, float]) -> None:
    row = features(*at_root(build, (32, 8)))[stage]
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_lanes_across_the_storage_load_a_sector_each() -> None:
    row = features(*at_root(blur, (8, 32), thread_loop=1))["blur_y", 0]
    # The output is stored along x; blur_x lies as its own threads do, along y.
    assert row["sectors_stored"] == 5 * 8 * 32
    assert row["sectors_loaded"] == 5 * 8 * 3 * 2


def test_a_func_inlined_is_charged_to_its_own_row() -> None:
    dag, space = gpu_space(blur)
    inlined = space.rollout(space.root().take([0] * 40), list(range(40)))
    rows = [features(dag, space, inlined.take([i])) for i in range(40)]
    charged = [row["blur_x", 0] for row in rows if row["blur_x", 0]["inlined_lanes"] > 0]
    assert charged
    assert all(row["launches"] == 0 for row in charged)


def test_blocks_have_1024_threads_at_most() -> None:
    dag, space = gpu_space(convolution)
    leaves = space.rollout(space.root().take([0] * 100), list(range(100)))
    sizes = {row["threads_per_block"] for i in range(100) for row in features(dag, space, leaves.take([i])).values()}
    assert max(sizes) == 1024
    assert space.pruned_counts()["tile_too_large"] > 0


def test_what_cannot_be_parallel_runs_in_one_thread() -> None:
    dag, space = gpu_space(histogram)
    leaf = space.rollout(space.root(), [0])
    schedules = {dag.funcs[s.func].name.split("$")[0]: s for s in leaf.describe()}
    pure, scatter = schedules["counts"].stages
    assert pure.is_parallel
    assert not scatter.is_parallel
    row = features(dag, space, leaf)["counts", 1]
    assert (row["blocks"], row["threads_per_block"], row["points_per_thread"]) == (1, 1, 40 * 24)


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
