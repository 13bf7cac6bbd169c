"""Tiles of sums: in which order their loops nest, and whether sums and what they are made of fit into the registers.

What the compiler does is in the first tests; the others hold the model and lowering to it.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import halide as hl
import pytest
from assembled import assembly_of, inner_loops
from small_pipelines import SOME_TARGET, C, X, Y, finish, func_named, image, make_space

from metol import _core
from metol.lower import Call, cpu_directives
from metol.pipeline import PipelineDag, extract

REGISTERS, LANES = 16, 8
SIZES = 64, 48, 48
CHANNELS = 192
ROLLOUTS = 400
K = hl.RDom([(0, CHANNELS)], "k")

# What the factors of a sum depend on, by their number: the loops 0 (of vectors), 1 and 2 of the tile.
FACTORS = {2: ({1}, {0, 2}), 3: ({1}, {0, 2}, {2})}


def sums_of(factors: int) -> hl.Func:
    """Sums over channels of a weight times a pixel, as of a convolution; and times the scale of a row, if of three."""
    sums = hl.Func("sums")
    sums[X, C, Y] = 0.0
    weights = image(SIZES[1], CHANNELS, name="weights", pixel=hl.Float(32))
    source = image(SIZES[0], CHANNELS, SIZES[2], pixel=hl.Float(32))
    term = weights[C, K] * source[X, K, Y]
    if factors == 3:
        term *= image(SIZES[2], CHANNELS, name="scale", pixel=hl.Float(32))[Y, K]
    sums[X, C, Y] += term
    return sums


def values_alive(steps: Sequence[int], order: Sequence[int], factors: int) -> int:
    """Count the values that are held from their first to their last use, of all factors.

    Args:
        steps: Of each loop of the tile.
        order: The loops of more than one step, innermost first.
        factors: Of each term.
    """
    count = 0
    for loops in FACTORS[factors]:
        sharing = [place for place, loop in enumerate(order) if loop not in loops]
        count += math.prod(steps[loop] for loop in order[: max(sharing, default=0)] if loop in loops)
    return count


def orders_of(steps: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.permutations([loop for loop in range(3) if steps[loop] > 1])


@pytest.mark.parametrize("steps", [(1, 4, 3), (1, 6, 2), (2, 3, 2), (2, 6, 1), (1, 4, 2)])
def test_the_compiler_spills_where_sums_and_values_are_more_than_registers(
    tmp_path: Path, steps: tuple[int, int, int]
) -> None:
    found, expected = {}, {}
    for order in orders_of(steps):
        sums, output = sums_of(2), hl.Func("output")
        output[X, C, Y] = sums[X, C, Y]
        for var, extent in zip((X, C, Y), SIZES, strict=True):
            output.bound(var, 0, extent)
        sums.compute_root()
        outside, inside = [hl.Var(f"o{i}") for i in range(3)], [hl.Var(f"i{i}") for i in range(3)]
        lanes = hl.Var("lanes")
        update = sums.update()
        for i, var in enumerate((X, C, Y)):
            update.split(var, outside[i], inside[i], steps[i] * (LANES if i == 0 else 1))
        update.split(inside[0], inside[0], lanes, LANES).vectorize(lanes)
        rest = [loop for loop in range(3) if loop not in order]
        update.reorder(lanes, *(inside[i] for i in (*order, *rest)), K.x, *outside)
        for loop in inside:
            update.unroll(loop)
        found[order] = bool(re.search("Spill", inner_loop(assembly_of(output, tmp_path), math.prod(steps))))
        expected[order] = math.prod(steps) + values_alive(steps, order, 2) > REGISTERS
    assert found == expected


def inner_loop(assembly: str, additions: int) -> str:
    """Return the loop that makes so many additions to sums and contains no other."""
    (body,) = (body for body in inner_loops(assembly) if len(re.findall(r"\tvfmadd", body)) == additions)
    return body


def rolled_out(factors: int) -> Iterator[tuple[PipelineDag, _core.Space, _core.States, list[int]]]:
    """Loop nests whose tiles make several sums, with the steps of their tiles in the order of the dimensions."""
    output = hl.Func("output")
    output[X, C, Y] = hl.max(sums_of(factors)[X, C, Y], 0.0)
    dag = extract(finish(output, sizes=SIZES))
    space = make_space(dag, target=SOME_TARGET)
    func = func_named(dag, "sums")
    stage = dag.funcs[func].stages[1]
    places = [loop.pure_dim for loop in dag.stages[stage].loops]
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        nest = leaf.describe()[func].stages[1]
        if nest.vector_loop < 0 or places[nest.vector_loop] != 0:
            continue
        tile = [list(nest.levels)[-1][places.index(dim)] for dim in range(3)]
        tile[0] //= nest.vector_width
        is_native = nest.vector_width == LANES and list(nest.levels)[-1][places.index(-1)] == 1
        if is_native and sum(steps > 1 for steps in tile) > 1:
            yield dag, space, leaf, tile


@pytest.mark.parametrize("factors", [2, 3])
def test_loops_of_a_tile_nest_so_that_the_fewest_values_are_alive(factors: int) -> None:
    chosen = set()
    for dag, _, leaf, tile in rolled_out(factors):
        func = func_named(dag, "sums")
        directives = [d for d in cpu_directives(dag, leaf.describe()) if (d.func, d.stage) == (func, 1)]
        unrolled = {str(d.args[0].name) for d in directives if d.call is Call.UNROLL}  # type: ignore[union-attr]
        (names,) = ([str(loop.name) for loop in d.args] for d in directives if d.call is Call.REORDER)  # type: ignore[union-attr]
        order = tuple("xcy".index(name[0]) for name in names if name in unrolled)
        if len(order) == sum(steps > 1 for steps in tile):
            chosen.add((order, tuple(tile)))
            assert values_alive(tile, order, factors) == min(
                values_alive(tile, other, factors) for other in orders_of(tile)
            )
    assert {order[0] for order, _ in chosen} == {0, 1, 2}


@pytest.mark.parametrize("factors", [2, 3])
def test_spills_are_foreseen(factors: int) -> None:
    seen = set()
    for dag, space, leaf, tile in rolled_out(factors):
        (rows,) = space.featurize(leaf)
        stage = dag.funcs[func_named(dag, "sums")].stages[1]
        row = dict(zip(space.feature_table(), map(float, rows[stage]), strict=True))
        if row["chained_steps"] == 0:
            continue  # its sums go through memory at each step
        spills = math.prod(tile) + min(values_alive(tile, order, factors) for order in orders_of(tile)) > REGISTERS
        assert row["spilled_steps"] == (row["chained_steps"] if spills else 0)
        seen.add(spills)
    assert seen == ({False} if factors == 2 else {False, True})
