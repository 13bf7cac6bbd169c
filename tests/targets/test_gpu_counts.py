"""Transactions with memory that GPU features count, against what the threads of a block do when run one by one.

Index expressions are written twice, for Halide and as functions of Python; each thread of a block computes the points
of its tile with the latter, and the addresses of each warp are put together, load by load.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import halide as hl
import numpy as np
import pytest
from small_pipelines import X, Y, finish, image, make_gpu_space

from metol import _core
from metol.cost import CostTerms
from metol.pipeline import extract

WIDTH, HEIGHT = 96, 80  # of the output
SOURCE = (200, 400)  # of the input; its rows are 800 bytes: whole sectors
ROWS = 3  # of the reduction
SECTOR, WARP = 32, 32
LEAVES = 60

Index = Callable[[int, int, int], tuple[int, int]]  # x, y and r to a place of the input


@dataclass(frozen=True)
class Algorithm:
    """A sum of loads."""

    loads: Sequence[Index]
    has_reduction: bool = False
    has_unit_tiles: bool = False
    """Of tiles of several points the features count the mean, wherever they start."""

    def build(self) -> hl.Pipeline:
        source, output = image(*SOURCE, pixel=hl.Float(32)), hl.Func("output")
        if self.has_reduction:
            r = hl.RDom([(0, ROWS)], "r")
            output[X, Y] = hl.f32(0)
            output[X, Y] += sum(source[index(X, Y, r.x)] for index in self.loads)
        else:
            output[X, Y] = sum((source[index(X, Y, 0)] for index in self.loads), hl.f32(0))
        return finish(output, sizes=(WIDTH, HEIGHT))


ALGORITHMS = {
    "pointwise": Algorithm([lambda x, y, r: (x, y)]),
    "stencil": Algorithm([lambda x, y, r, i=i, j=j: (x + i, y + j) for i in range(3) for j in range(2)]),
    "transposed": Algorithm([lambda x, y, r: (y, x)]),
    "every second": Algorithm([lambda x, y, r: (2 * x, y), lambda x, y, r: (2 * x + 1, y)]),
    "half": Algorithm([lambda x, y, r: (x // 2, y // 2)], has_unit_tiles=True),
    "rows apart": Algorithm([lambda x, y, r: (x, 4 * y)]),
    "one column": Algorithm([lambda x, y, r: (0, y)]),
    "reduction": Algorithm([lambda x, y, r: (x, y + 2 * r), lambda x, y, r: (r, y)], has_reduction=True),
}


def warps_of(block: Sequence[int]) -> list[list[tuple[int, int]]]:
    """The threads of a block by warp."""
    threads = [(i % block[0], i // block[0]) for i in range(block[0] * block[1])]
    return [threads[i : i + WARP] for i in range(0, len(threads), WARP)]


def sectors_when_run(algorithm: Algorithm, nest: _core.StageNest, pure: Sequence[int]) -> tuple[int, int]:
    """Sectors that the loads of one block touch, and bytes that they need, where each starts with a sector."""
    threads, points = ([level[i] for i in pure] for level in (nest.levels[1], nest.levels[2]))
    along = pure.index(nest.vector_loop)
    block = (threads[along], threads[1 - along])

    def loads_of(thread: tuple[int, int]) -> list[tuple[int, int]]:
        """Places that a thread loads, each once an iteration of the reduction: of what does not move, once."""
        place = [0, 0]
        place[along], place[1 - along] = thread
        found: dict[tuple[int, tuple[int, int]], None] = {}
        for r in range(ROWS if algorithm.has_reduction else 1):
            tile = itertools.product(range(points[0]), range(points[1]))
            for (i, j), (number, index) in itertools.product(tile, enumerate(algorithm.loads)):
                at = index(place[0] * points[0] + i, place[1] * points[1] + j, r)
                is_still = index(0, 0, 0) == index(0, 0, 1)
                is_other = number if algorithm.has_reduction else 0
                found[(0 if is_still else 10 * r + is_other), at] = None
        return [at for _, at in found]

    sectors = needed = 0
    for warp in warps_of(block):
        for slot in zip(*(loads_of(thread) for thread in warp), strict=True):
            addresses = [4 * (x + SOURCE[0] * y) - 4 * (slot[0][0] + SOURCE[0] * slot[0][1]) for x, y in slot]
            sectors += len({address // SECTOR for address in addresses})
            needed += 4 * len(set(addresses))
    return sectors, needed


@pytest.mark.parametrize("name", ALGORITHMS)
def test_loads_are_those_that_threads_make(name: str) -> None:
    algorithm = ALGORITHMS[name]
    dag = extract(algorithm.build())
    space = make_gpu_space(dag)
    names = list(space.feature_table())
    number = next(i for i, stage in enumerate(dag.stages) if stage.index == int(algorithm.has_reduction))
    pure = [i for i, loop in enumerate(dag.stages[number].loops) if not loop.is_reduction]
    count = 20 * LEAVES if algorithm.has_unit_tiles else LEAVES
    leaves = space.rollout(space.root(), range(count))
    seen = set()
    for place in range(count):
        state = leaves.take([place])
        (schedule,) = (one for one in state.describe() if one.stages)
        nest = schedule.stages[-1]
        if algorithm.has_unit_tiles and any(nest.levels[2][i] > 1 for i in pure):
            continue
        row = dict(zip(names, map(float, space.featurize(state)[0, number]), strict=True))
        sectors, needed = sectors_when_run(algorithm, nest, pure)
        if algorithm.has_reduction:  # the sum itself: read once, along its own rows, which follow each other
            stored = row["num_global_mem_stores_per_block"]
            sectors += int(stored)
            needed += round(row["global_mem_store_efficiency"] * SECTOR * stored)
        counted = row["num_global_mem_loads_per_block"]
        assert counted == sectors, nest.levels
        assert row["global_mem_load_efficiency"] * SECTOR * counted == pytest.approx(needed), nest.levels
        seen.add(sectors)
    assert len(seen) > 5


def test_a_tail_warp_has_fewer_lanes() -> None:
    """3 rows of 16 threads: a warp of two rows, and one of one."""
    build = ALGORITHMS["pointwise"].build
    dag = extract(build())
    space = make_gpu_space(dag)
    names = list(space.feature_table())
    leaves = space.rollout(space.root(), range(400))
    rows = [dict(zip(names, row, strict=True)) for row in space.featurize(leaves)[:, -1]]
    tails = [row for row in rows if row["num_threads_per_block"] == 16]
    assert tails
    for row in tails:
        assert row["num_warps_per_block"] == row["num_active_warps_per_block"] == 1
        assert row["warp_lane_utilization"] == 0.5
        assert row["idle_lane_wastage"] == 16 / 1024


@pytest.mark.parametrize("name", ALGORITHMS)
def test_terms_agree_with_the_core(name: str) -> None:
    space = make_gpu_space(extract(ALGORITHMS[name].build()))
    rows = space.featurize(space.rollout(space.root(), range(20)))
    terms = CostTerms.of(space).evaluate(rows.astype(np.float64))
    expected = np.array([[space.terms(row) for row in state] for state in rows])
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(terms, expected, rtol=1e-6)
