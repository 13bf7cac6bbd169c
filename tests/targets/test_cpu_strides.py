"""What a tile shares, and sums that it keeps in registers: only where distances in memory are known.

What the compiler does is in the first test; the others hold the model to it.
"""

import re
from collections.abc import Callable
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import BARE_TARGET, SOME_TARGET, C, X, Y, finish, func_named, image, make_space

from metol import _core
from metol.pipeline import PipelineDag, extract

ROWS, TAPS, LANES = 4, 3, 16
WIDTH, HEIGHT = 256, 128
ROLLOUTS = 600


@pytest.mark.slow
def test_the_compiler_shares_what_rows_have_in_common_only_where_it_knows_their_distance(tmp_path: Path) -> None:
    def multiplications(*, is_known: bool) -> int:
        """Of a vector, to divide by three: each value that is computed is one."""
        source = image(WIDTH + 2, HEIGHT + 2, pixel=hl.UInt(16))
        across, output = hl.Func("across"), hl.Func("output")
        across[X, Y] = (source[X, Y] + source[X + 1, Y] + source[X + 2, Y]) // 3
        output[X, Y] = (across[X, Y] + across[X, Y + 1] + across[X, Y + 2]) // 3
        x, y, inner_x, inner_y = (hl.Var(name) for name in ("xo", "yo", "xi", "yi"))
        output.tile(X, Y, x, y, inner_x, inner_y, LANES, ROWS, hl.TailStrategy.RoundUp)
        output.vectorize(inner_x).unroll(inner_y)
        if is_known:
            source.dim(1).set_stride(2 * WIDTH)
        path = tmp_path / f"{is_known}.s"
        output.compile_to_assembly(str(path), [source], "blurred", hl.Target(BARE_TARGET))
        return len(re.findall(r"\tvpmulhuw\t", path.read_text()))

    assert multiplications(is_known=True) == ROWS + TAPS - 1 + ROWS
    assert multiplications(is_known=False) == ROWS * TAPS + ROWS


@pytest.mark.slow
@pytest.mark.parametrize(("is_quotient", "expected"), [(False, 1), (True, 3)])
def test_the_compiler_shares_no_quotient_that_is_multiplied(tmp_path: Path, is_quotient: bool, expected: int) -> None:
    source = image(WIDTH + 1, HEIGHT, pixel=hl.Float(32))
    colours = image(WIDTH, HEIGHT, 3, name="colours", pixel=hl.Float(32))
    inlined, output = hl.Func("inlined"), hl.Func("output")
    value, change = source[X, Y], source[X + 1, Y] - source[X, Y]
    inlined[X, Y] = change / hl.max(value, 1) if is_quotient else hl.sqrt(hl.max(value, change))
    output[X, Y, C] = inlined[X, Y] * colours[X, Y, C]
    output.bound(C, 0, 3).reorder(C, X, Y).unroll(C).vectorize(X, 8, hl.TailStrategy.RoundUp)
    path = tmp_path / "code.s"
    output.compile_to_assembly(str(path), [source, colours], "scaled", hl.Target(BARE_TARGET))
    blocks = re.split(r"\n\.?\w+:", path.read_text())
    counts = {len(re.findall(r"\tv(?:div|sqrt|rsqrt)ps\t", block)) for block in blocks}
    assert max(counts) == expected


def rolled_out(build: Callable[[], hl.Pipeline]) -> tuple[PipelineDag, _core.Space, list[_core.States]]:
    dag = extract(build())
    space = make_space(dag, target=SOME_TARGET)
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    return dag, space, [leaves.take([i]) for i in range(ROLLOUTS)]


def stencil() -> hl.Pipeline:
    """Three rows of a Func; Halide leaves nothing of one that repeats the edges but loads."""
    source = image(WIDTH, HEIGHT, pixel=hl.Float(32))
    across, output = hl.Func("across"), hl.Func("output")
    across[X, Y] = hl.sqrt(hl.BoundaryConditions.repeat_edge(source)[X, Y])
    output[X, Y] = across[X, Y - 1] + across[X, Y] * across[X, Y + 1]
    return finish(output, sizes=(WIDTH, HEIGHT))


def test_tiles_share_loads_of_what_is_computed_inside_and_not_at_root() -> None:
    dag, space, leaves = rolled_out(stencil)
    loads = list(space.feature_table()).index("vector_loads_per_vector")
    across, output = func_named(dag, "across"), func_named(dag, "output")
    stage = dag.funcs[output].stages[0]
    found: dict[_core.Placement, set[tuple[int, float]]] = {}
    for leaf in leaves:
        schedules = leaf.describe()
        nest = schedules[output].stages[0]
        tile = list(nest.levels)[-1]
        if nest.vector_loop != 0 or tile[0] != nest.vector_width or schedules[across].innermost_dim != 0:
            continue
        (rows,) = space.featurize(leaf)
        per_vector = float(rows[stage][loads])
        found.setdefault(schedules[across].placement, set()).add((tile[1], per_vector))
    at_root = found[_core.Placement.ROOT]
    assert max(rows for rows, _ in at_root) >= ROWS
    assert min(per_vector for _, per_vector in at_root) >= TAPS
    inside = found[_core.Placement.AT]
    assert min(per_vector for rows, per_vector in inside if rows >= ROWS) < TAPS


def roots(*, is_quotient: bool) -> hl.Pipeline:
    """Three rows of a Func that might be inlined, and reads another."""
    source = image(WIDTH, HEIGHT, pixel=hl.Float(32))
    first, across, output = hl.Func("first"), hl.Func("across"), hl.Func("output")
    value = first[X, Y]
    first[X, Y] = hl.exp(hl.BoundaryConditions.repeat_edge(source)[X, Y])
    across[X, Y] = value / (value + 1) if is_quotient else hl.sqrt(value)
    output[X, Y] = across[X, Y - 1] + across[X, Y] * across[X, Y + 1]
    return finish(output, sizes=(WIDTH, HEIGHT))


def fewest_evaluations(placement: _core.Placement, *, is_quotient: bool) -> float:
    """Of all roll-outs with tiles of several rows: vectors of what is inlined for each vector of the output."""
    dag, space, leaves = rolled_out(lambda: roots(is_quotient=is_quotient))
    vectors = list(space.feature_table()).index("num_vectors")
    first, across, output = (func_named(dag, name) for name in ("first", "across", "output"))
    shares = []
    for leaf in leaves:
        schedules = leaf.describe()
        nest = schedules[output].stages[0]
        tile = list(nest.levels)[-1]
        is_wanted = schedules[across].placement == _core.Placement.INLINE and schedules[first].placement == placement
        if is_wanted and nest.vector_loop == 0 and tile[0] == nest.vector_width and tile[1] >= ROWS:
            (rows,) = space.featurize(leaf)
            shares.append(rows[dag.funcs[across].stages[0]][vectors] / rows[dag.funcs[output].stages[0]][vectors])
    return float(min(shares))


def test_tiles_share_what_they_compute_of_an_inlined_func_where_they_share_its_loads() -> None:
    assert fewest_evaluations(_core.Placement.ROOT, is_quotient=False) == TAPS
    assert fewest_evaluations(_core.Placement.AT, is_quotient=False) <= (ROWS + TAPS - 1) / ROWS
    assert fewest_evaluations(_core.Placement.AT, is_quotient=True) == TAPS


def sums(*, in_tiles: bool) -> hl.Pipeline:
    """Sums of an output itself, or of a Func that can be computed for a tile of it."""
    a, b = image(64, HEIGHT, name="a", pixel=hl.Float(32)), image(WIDTH, 64, name="b", pixel=hl.Float(32))
    k = hl.RDom([(0, 64)], "k")
    product, output = hl.Func("product"), hl.Func("output")
    product[X, Y] = 0.0
    product[X, Y] += a[k, Y] * b[X, k]
    output[X, Y] = hl.max(product[X, Y], 0.0)
    return finish(output if in_tiles else product, sizes=(WIDTH, HEIGHT))


def fewest_stores(*, in_tiles: bool) -> float:
    """Of all roll-outs with tiles of several rows and vectors: stores of sums for each vector of products."""
    dag, space, leaves = rolled_out(lambda: sums(in_tiles=in_tiles))
    table = list(space.feature_table())
    product = func_named(dag, "product")
    stage = dag.funcs[product].stages[1]
    rows_loop = [-1 if loop.is_reduction else loop.pure_dim for loop in dag.stages[stage].loops].index(1)
    shares = []
    for leaf in leaves:
        nest = leaf.describe()[product].stages[1]
        tile = list(nest.levels)[-1]
        if nest.vector_width > 1 and tile[rows_loop] > 1:
            (rows,) = space.featurize(leaf)
            row = dict(zip(table, rows[stage], strict=True))
            shares.append(row["vector_stores"] / row["num_vectors"])
    return min(shares)


def test_sums_of_several_rows_stay_in_registers_only_inside() -> None:
    assert fewest_stores(in_tiles=False) >= 1
    assert fewest_stores(in_tiles=True) <= 1 / 8


def table_of(columns: int) -> hl.Pipeline:
    """Rows of a table, each as long as `columns`, of which the first ones are read again for each pixel."""
    source, weights = image(64, HEIGHT, pixel=hl.Float(32)), image(columns, 64, name="weights", pixel=hl.Float(32))
    k = hl.RDom([(0, 64)], "k")
    product, output = hl.Func("product"), hl.Func("output")
    product[X, Y] = 0.0
    product[X, Y] += source[k, Y] * weights[X, k]
    output[X, Y] = hl.max(product[X, Y], 0.0)
    return finish(output, sizes=(64, HEIGHT))


def test_rows_a_page_apart_leave_a_first_level_cache_again() -> None:
    # 64 rows of 64 floats are half of the cache; 4096 bytes apart, all of them want the same few sets of it.
    def bytes_into_l1(columns: int) -> list[float]:
        dag, space, leaves = rolled_out(lambda: table_of(columns))
        column = list(space.feature_table()).index("bytes_into_l1")
        stage = dag.funcs[func_named(dag, "product")].stages[1]
        return [float(space.featurize(leaf)[0][stage][column]) for leaf in leaves]

    spread, crowded = bytes_into_l1(1040), bytes_into_l1(1024)
    assert all(more >= less for more, less in zip(crowded, spread, strict=True))
    assert max(more / max(1.0, less) for more, less in zip(crowded, spread, strict=True)) > 4


def picked_rows() -> hl.Pipeline:
    """Sums of rows of a large table whose numbers are in another one."""
    table, numbers = image(256, 2048, name="table", pixel=hl.Float(32)), image(64, name="numbers")
    k = hl.RDom([(0, 64)], "k")
    picked, output = hl.Func("picked"), hl.Func("output")
    picked[X, Y] = 0.0
    picked[X, Y] += table[X, hl.clamp(hl.i32(numbers[k]), 0, 2047)] + Y
    output[X, Y] = hl.max(picked[X, Y], 0.0)
    return finish(output, sizes=(256, HEIGHT))


def test_rows_read_at_numbers_from_memory_come_in_by_vectors() -> None:
    # Any of 2048 rows may be read, so the region is larger than a cache; of each, a vector reads two lines at most.
    dag, space, leaves = rolled_out(picked_rows)
    columns = list(space.feature_table())
    stage = dag.funcs[func_named(dag, "picked")].stages[1]
    (along_rows,) = (i for i, loop in enumerate(dag.stages[stage].loops) if loop.pure_dim == 0)
    lines = []
    for leaf in leaves:
        nest = leaf.describe()[func_named(dag, "picked")].stages
        if len(nest) > 1 and nest[1].vector_loop == along_rows:
            row = dict(zip(columns, space.featurize(leaf)[0][stage], strict=True))
            lines.append(row["bytes_into_l1"] / 64 / row["num_vectors"])
    assert max(lines) > 0.5
    # Besides the table, the numbers.
    assert max(lines) < 3
