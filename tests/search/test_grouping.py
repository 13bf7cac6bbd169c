"""Grouping for GPUs: which tiles are looked at, what becomes one kernel, and that results stay right."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import halide as hl
import numpy as np
import pytest
from small_pipelines import PIPELINES, ExactRuns, X, Y, chain, finish, histogram, image, schedule_with

from metol import _core
from metol.errors import SearchError
from metol.lower import gpu_directives
from metol.options import SearchOptions
from metol.pipeline import PipelineDag, extract
from metol.search import FUSION_MODES, Budget, Grouping, SearchResult, one_kernel_each
from metol.search.grouping.group_costs import GroupCosts, GroupRows
from metol.search.grouping.tile_bounds import TileBounds, tiled_dims
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine, gpu_parameters

MACHINE = GpuMachine.preset("rtx2080ti", threads=2)
LARGE = (1536, 2560)


def space_of(dag: PipelineDag, machine: GpuMachine = MACHINE) -> _core.Space:
    return _core.Space(dag, gpu_parameters(machine, dag), _core.SpaceOptions(), 2)


def grouped(
    build: Callable[[], hl.Pipeline], mode: str = "nested", machine: GpuMachine = MACHINE
) -> tuple[PipelineDag, _core.Space, SearchResult]:
    dag = extract(build())
    space = space_of(dag, machine)
    return dag, space, Grouping(machine, mode).search(space, _core.CostModel(), Budget.start())


def placements(dag: PipelineDag, result: SearchResult) -> dict[str, str]:
    return {
        dag.funcs[one.func].name.split("$")[0]: one.placement.name + "@threads" * (one.compute.level == 1)
        for one in result.state.describe()
        if not dag.funcs[one.func].is_input
    }


def stencils(count: int, radius: int = 1) -> hl.Pipeline:
    """Costly stencils of a large image, one after the other."""
    func: hl.Func | hl.ImageParam = image(*(side + 2 * count * radius for side in LARGE), pixel=hl.Float(32))
    for step in range(count):
        stencil = hl.Func(f"step_{step}")
        window = [func[X + dx, Y + dy] for dx in range(2 * radius + 1) for dy in range(2 * radius + 1)]
        stencil[X, Y] = sum((hl.sqrt(value) for value in window[1:]), hl.sqrt(window[0]))
        func = stencil
    return finish(func, sizes=LARGE)


@pytest.mark.parametrize(
    ("extents", "dims", "most"),
    [
        ((1536, 2560), (0, 1), (12, 20)),  # 1/128 of each of several long ones
        ((1536, 500, 3), (0, 1), (48, 250)),  # 1/32 of a single one; half of the other; channels are short
        ((40, 24), (0,), (20,)),  # all are short: the longest
        ((4096,), (0,), (128,)),
        ((), (), ()),
    ],
)
def test_tiles_have_the_bounds_of_the_paper(
    extents: Sequence[int], dims: tuple[int, ...], most: tuple[int, ...]
) -> None:
    assert tiled_dims(extents) == dims
    assert TileBounds.of(extents, most_threads=1024).most == most
    assert TileBounds.of(extents, most_threads=1024, shrink=2).most == tuple(max(1, size // 2) for size in most)


def test_coarse_tiles_are_powers_of_two_and_fine_ones_even() -> None:
    bounds = TileBounds.of((1536, 2560), most_threads=1024)
    coarse, fine = bounds.coarse(), bounds.fine()
    assert {tile[0] for tile in coarse} == {1, 2, 4, 8, 12}
    assert {tile[1] for tile in fine} == {1, *range(2, 21, 2)}
    for tile in (*coarse, *fine):
        assert 8 <= tile[0] * tile[1] <= 1024


def test_many_fine_tiles_are_thinned_out() -> None:
    fine = TileBounds.of((1000, 1000, 1000), most_threads=1024).fine()
    assert 100 < len(fine) <= 400
    assert all(math.prod(tile.values()) <= 1024 for tile in fine)


def test_fusion_makes_fewer_kernels() -> None:
    kernels = {}
    for mode in FUSION_MODES:
        dag, _, result = grouped(lambda: stencils(4), mode)
        kernels[mode] = sum(place == "ROOT" for place in placements(dag, result).values())
    assert kernels["no-fusion"] == 4
    assert kernels["overlap"] < 4


def test_a_func_that_two_kernels_read_is_a_kernel() -> None:
    def build() -> hl.Pipeline:
        source = image(LARGE[0] + 4, LARGE[1] + 4, pixel=hl.Float(32))
        both, rows, columns = (hl.Func(name) for name in ("both", "rows", "columns"))
        both[X, Y] = hl.sqrt(source[X, Y]) + hl.sqrt(source[X + 1, Y + 1]) + hl.exp(source[X + 1, Y])
        rows[X, Y] = both[X, Y] + both[X + 1, Y] + both[X + 2, Y]
        columns[X, Y] = both[X, Y] + both[X, Y + 1] + both[X, Y + 2]
        return finish(rows, columns, sizes=LARGE)

    dag, _, result = grouped(build)
    assert placements(dag, result)["both"] == "ROOT"


def test_members_that_no_two_threads_share_go_into_threads() -> None:
    """Figure 4 of the paper: K is read at one place of x and y, three channels of it; here a sum, so not inlined."""

    def build() -> hl.Pipeline:
        c, k, r = hl.Var("c"), hl.Func("K"), hl.RDom([(0, 3)], "r")
        source = image(LARGE[0] + 4, LARGE[1] + 4, pixel=hl.Float(32))
        w, z = hl.Func("W"), hl.Func("Z")
        k[X, Y, c] = hl.f32(0)
        k[X, Y, c] += source[X + r.x, Y] * c
        w[X, Y] = hl.exp(k[X, Y, 0]) * hl.sin(k[X, Y, 1]) + hl.exp(k[X, Y, 2])
        z[X, Y] = sum((hl.sqrt(w[X, Y + d]) for d in range(1, 5)), hl.sqrt(w[X, Y]))
        return finish(z, sizes=LARGE)

    scarce = replace(
        MACHINE, capability=replace(MACHINE.capability, shared_bytes_per_block=4000, max_threads_per_block=512)
    )
    dag, _, overlapped = grouped(build, "overlap", scarce)
    assert placements(dag, overlapped)["K"] == "AT"
    dag, space, nested = grouped(build, "nested", scarce)
    assert placements(dag, nested) == {"K": "AT@threads", "W": "AT", "Z": "ROOT"}
    shared = [
        float(space.featurize(one.state)[0, :, list(space.feature_table()).index("shared_bytes")].max())
        for one in (overlapped, nested)
    ]
    assert shared[1] < shared[0]


def test_blocks_are_whole_warps_in_the_end() -> None:
    _, space, result = grouped(lambda: stencils(3))
    names = list(space.feature_table())
    (rows,) = space.featurize(result.state)
    threads = rows[rows[:, names.index("launches")] > 0][:, names.index("threads_per_block")]
    assert len(threads) > 0
    assert all(count % 32 == 0 for count in threads)


def rows_of(**columns: Sequence[float]) -> tuple[GroupCosts, GroupRows]:
    """One Stage with several tiles, of which some columns are given."""
    space = space_of(extract(chain()))
    usual = {
        "num_threads_per_block": 256.0,
        "threads_per_block": 256.0,
        "num_blocks": 1000.0,
        "points_computed_total": 1e6,
    }
    count = len(next(iter(columns.values())))
    table = [columns.get(name, [usual.get(name, 0.0)] * count) for name in space.feature_table()]
    rows = np.array(table, dtype=np.float32).T[:, None, :]
    return GroupCosts(space, MACHINE), GroupRows(rows, np.array([True]), np.array([10.0]), 1e4)


def test_more_loads_and_more_points_cost_more() -> None:
    accesses = [f"num_{memory}_mem_{kind}_per_block" for memory in ("global", "shared") for kind in ("loads", "stores")]
    for column in (*accesses, "points_computed_total"):
        costs, rows = rows_of(**{column: [1e6, 2e6, 4e6]})
        found = costs.of(rows, is_final=False)
        assert all(less < more for less, more in pairwise(found))


@pytest.mark.parametrize(
    ("columns", "is_final"),
    [
        ({"threads_per_block": [1056.0], "num_threads_per_block": [1056.0]}, False),
        ({"shared_bytes": [50_000.0]}, False),
        ({"num_blocks": [60.0]}, False),  # of 68 multiprocessors some would be idle
        (
            {"num_threads_per_block": [8.0], "threads_per_block": [32.0], "shared_bytes": [40_000.0]},
            False,
        ),  # low occupancy
        ({"threads_per_block": [250.0]}, True),  # no whole warps
    ],
)
def test_kernels_that_cannot_run_well_are_refused(columns: dict[str, list[float]], *, is_final: bool) -> None:
    costs, rows = rows_of(**columns)
    assert np.isinf(costs.of(rows, is_final=is_final)).all()


def test_memory_is_scaled_by_occupancy_in_the_final_pass_alone() -> None:
    few = {
        "num_threads_per_block": [64.0],
        "threads_per_block": [64.0],
        "points_computed_total": [0.0],
        "num_global_mem_loads_per_block": [1e3],
    }
    costs, rows = rows_of(**few)
    assert costs.of(rows, is_final=True)[0] > 4 * costs.of(rows, is_final=False)[0]


def test_a_budget_that_is_spent_still_gives_a_schedule() -> None:
    dag = extract(chain())
    space = space_of(dag)
    result = Grouping(MACHINE).search(space, _core.CostModel(), Budget.start(0.0))
    assert not result.is_complete
    assert int(result.state.decisions_made[0]) == space.decision_count


def test_the_same_grouping_comes_each_time() -> None:
    paths = [space.path(result.state) for _, space, result in (grouped(lambda: stencils(3)) for _ in range(2))]
    assert paths[0] == paths[1]


def test_modes_and_machines_are_checked() -> None:
    with pytest.raises(SearchError, match="no-fusion, overlap, nested"):
        Grouping(MACHINE, "all")
    with pytest.raises(SearchError, match="no-fusion, overlap, nested"):
        SearchOptions(strategy="grouping", fusion="all")
    with pytest.raises(SearchError, match="host-cuda"):
        SearchOptions(strategy="grouping").make(CpuMachine.default(threads=1))
    assert isinstance(SearchOptions(strategy="grouping", fusion="overlap").make(MACHINE), Grouping)


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_has_a_grouping(name: str) -> None:
    _, space, result = grouped(PIPELINES[name])
    assert space.path(space.replay(space.path(result.state))) == space.path(result.state)
    assert math.isfinite(result.cost_seconds)


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("name", ["chain", "convolution", "pyramid", "boundary", "tuples"])
def test_groups_keep_the_result(name: str) -> None:
    dag, _, result = grouped(PIPELINES[name])
    ExactRuns(name, target="host-opencl").check(
        schedule_with(PIPELINES[name], gpu_directives(dag, result.state.describe()))
    )


def test_a_scatter_is_a_kernel_of_one_thread() -> None:
    dag, _, result = grouped(histogram)
    assert placements(dag, result)["counts"] == "ROOT"


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("name", ["chain", "histogram", "half_boundary"])
def test_one_kernel_each_keeps_the_result(name: str) -> None:
    dag = extract(PIPELINES[name]())
    state = one_kernel_each(space_of(dag))
    funcs = {one.func: one.placement.name for one in state.describe() if not dag.funcs[one.func].is_input}
    computed = {place for func, place in funcs.items() if not dag.funcs[func].must_inline}
    assert computed == {"ROOT"}
    ExactRuns(name, target="host-opencl").check(schedule_with(PIPELINES[name], gpu_directives(dag, state.describe())))
