"""What kernels on an H100 and an H200 showed, and the model had not known: tiny blocks, stores, atomics, scans."""

from collections.abc import Callable, Iterator

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image, make_gpu_space, matmul, matmul_output

from metol import _core
from metol.pipeline import PipelineDag, extract
from metol.targets import machine_parameters
from metol.targets.gpu import GpuMachine, gpu_parameters

H100 = GpuMachine.preset("h100", threads=2)
Row = dict[str, float]


def rows_of(dag: PipelineDag, space: _core.Space, func: str, update: int = 0) -> Iterator[Row]:
    """The features of one Stage in random loop nests."""
    names = list(space.feature_table())
    number = next(
        i
        for i, stage in enumerate(dag.stages)
        if dag.funcs[stage.func].name.split("$")[0] == func and stage.index == update
    )
    leaves = space.rollout(space.root(), range(60))
    for i in range(len(leaves)):
        row = space.featurize(leaves.take([i]))[0, number]
        if row.any():
            yield dict(zip(names, map(float, row), strict=True))


def test_only_blocks_that_do_next_to_nothing_are_waited_for() -> None:
    func = hl.Func("func")
    func[X, Y] = image(4096, 4096)[X, Y] * 3
    dag = extract(finish(func, sizes=(4096, 4096)))
    rows = list(rows_of(dag, make_gpu_space(dag, machine="h100"), "func"))
    by_work = {row["num_threads_per_block"] * row["points_computed_per_thread"]: row for row in rows}
    waited = {work: row["blocks_waited_for"] / row["num_blocks"] for work, row in by_work.items()}
    assert waited[min(waited)] > 0.8
    assert waited[max(waited)] == 0


def sums(element: hl.Type) -> hl.Pipeline:
    source, total = image(256, 256, pixel=element), hl.Func("total")
    r = hl.RDom([(0, 256), (0, 256)], "r")
    total[()] = hl.cast(element, 0)
    total[()] += source[r.x, r.y]
    return finish(total, sizes=())


def test_a_warp_adds_up_integers_before_it_updates_one_place() -> None:
    turns = {}
    for element in (hl.Int(32), hl.Float(32)):
        dag = extract(sums(element))
        found = {row["atomic_turns"] for row in rows_of(dag, make_gpu_space(dag, machine="h100"), "total", 1)}
        (turns[element.is_float()],) = found
    assert turns == {False: pytest.approx(256 * 256 / 12), True: 256 * 256}


def test_neighbours_look_up_the_same_where_there_is_little_to_choose_from() -> None:
    def looked_up(places: int) -> hl.Pipeline:
        source, table, output = image(512, 512), image(512, places, name="table"), hl.Func("output")
        output[X, Y] = table[X, hl.clamp(source[X, Y], 0, places - 1)]
        return finish(output, sizes=(512, 512))

    def loads(places: int) -> list[float]:
        dag = extract(looked_up(places))
        rows = rows_of(dag, make_gpu_space(dag, machine="h100"), "output")
        return [row["num_global_mem_loads_per_block"] / row["num_threads_per_block"] for row in rows]

    assert all(few <= many for few, many in zip(loads(16), loads(256), strict=True))
    assert min(loads(16)) < min(loads(256)) / 1.5


def test_a_warp_alone_fetches_nothing_again() -> None:
    source, output = image(2048, 2048, pixel=hl.Float(32)), hl.Func("output")
    r = hl.RDom([(0, 2048)], "r")
    sum_of = hl.Func("sum_of")
    sum_of[X, Y] = 0.0
    sum_of[X, Y] += source[r.x, Y] * source[X, r.x]
    output[X, Y] = sum_of[X, Y]
    dag = extract(finish(output, sizes=(2048, 2048)))
    rows = list(rows_of(dag, make_gpu_space(dag, machine="h100"), "sum_of", 1))
    alone = [row["bytes_fetched_again"] for row in rows if row["num_active_warps_per_block"] == 1]
    assert alone
    assert max(alone) == 0
    assert max(row["bytes_fetched_again"] for row in rows) > 0


def scanned(*, across: bool) -> hl.Pipeline:
    """Running sums of rows, weighted by a row or, from one turn to the next, by another row each time."""
    source, weights = image(256, 256), image(256, 256, name="weights")
    scan, output = hl.Func("scan"), hl.Func("output")
    r = hl.RDom([(1, 255)], "r")
    scan[X, Y] = source[X, Y]
    scan[r.x, Y] += scan[r.x - 1, Y] * (weights[Y, r.x] if across else weights[r.x, Y])
    output[X, Y] = scan[X, Y] + 1
    return finish(output, sizes=(256, 256))


@pytest.mark.parametrize(("across", "cost"), [(False, 1 + 2 * 4 / 32), (True, 3)])
def test_a_turn_waits_for_what_the_one_before_it_has_written(across: bool, cost: float) -> None:
    dag = extract(scanned(across=across))
    rows = list(rows_of(dag, make_gpu_space(dag, machine="h100"), "scan", 1))
    assert rows
    assert {row["turns_in_a_row"] / row["points_computed_per_thread"] for row in rows} == {cost}
    # What is waited for is told so, and nothing is charged for it twice.
    assert {row["exposed_latency"] for row in rows} == {1}


@pytest.mark.parametrize("build", [matmul, matmul_output])
def test_sums_that_stay_at_one_place_wait_for_nothing(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    assert {row["turns_in_a_row"] for row in rows_of(dag, make_gpu_space(dag, machine="h100"), "product", 1)} == {0}


@pytest.mark.parametrize("build", [matmul, matmul_output])
def test_sums_stay_in_registers_where_sizes_are_fixed(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    stores = {}
    for is_fixed in (False, True):
        options = _core.SpaceOptions()
        options.has_fixed_sizes = is_fixed
        space = _core.Space(dag, machine_parameters(H100, dag), options, 2)
        stores[is_fixed] = [row["num_global_mem_stores_per_block"] for row in rows_of(dag, space, "product", 1)]
    assert all(fixed <= other for fixed, other in zip(stores[True], stores[False], strict=True))
    assert min(fixed / other for fixed, other in zip(stores[True], stores[False], strict=True) if other) <= 1 / 24


def test_what_was_measured_has_a_price() -> None:
    dag = extract(matmul())
    parameters = gpu_parameters(H100, dag)
    space = _core.Space(dag, parameters, _core.SpaceOptions(), 2)
    terms = list(space.term_table())
    leaf = space.rollout(space.root(), [0])
    prices = dict(
        zip(terms, space.analytical_coefficients(0, space.featurize(leaf)[0, 0]), strict=True),
    )
    assert prices["blocks_waited_for"] == pytest.approx(1.25 / H100.clock_hz)
    assert prices["turns_in_a_row"] == pytest.approx(280 / H100.clock_hz)
    assert prices["written_through"] == pytest.approx(32 * prices["l2_bytes"])
    assert prices["memory_bytes"] == pytest.approx(0.6 / H100.memory_bytes_per_second)
