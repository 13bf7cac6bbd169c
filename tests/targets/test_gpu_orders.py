"""Which way round a Func lies in memory, and its threads with it, before its own tile is decided about."""

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image, make_gpu_space

from metol import _core
from metol.pipeline import extract

BLOCKS = 0  # the level of loops whose bodies are blocks of threads


def turned(loads: int) -> hl.Pipeline:
    """Rows of a sum of so many neighbours become columns, of which two are read along by threads of the output."""
    source, once, output = image(512, 512), hl.Func("once"), hl.Func("output")
    once[X, Y] = sum((source[X + i, Y] for i in range(loads)), start=hl.i16(0))
    output[X, Y] = once[Y, X] + once[Y + 2, X]
    return finish(output, sizes=(256, 256))


def placements(loads: int) -> list[list[_core.FuncSchedule]]:
    """All that can be decided about where the sum is computed, below a few decisions about the output."""
    dag = extract(turned(loads))
    space = make_gpu_space(dag)
    (func,) = (number for number, one in enumerate(dag.funcs) if one.name.split("$")[0] == "once")
    found = []
    for seed in range(60):
        path = space.path(space.rollout(space.root(), [seed]))
        decided = [decision[1] for decision in path].index(func)
        children = space.expand(space.replay(path[:decided]))[0]
        found.append([children.take([number]).describe()[func] for number in range(len(children))])
    return found


@pytest.mark.parametrize(("loads", "dims"), [(1, {0, 1}), (2, {0}), (3, {0})])
def test_at_root_the_loads_of_readers_and_its_own_decide(loads: int, dims: set[int]) -> None:
    # Threads of the output lie along either of its loops: its two loads are of the one dimension or the other.
    at_root = [one for found in placements(loads) for one in found if one.placement == _core.Placement.ROOT]
    assert {one.innermost_dim for one in at_root} == dims


@pytest.mark.parametrize("loads", [1, 3])
def test_in_a_block_both_ways_are_tried_where_they_differ(loads: int) -> None:
    def dims(found: list[_core.FuncSchedule]) -> list[int]:
        in_block = (one for one in found if one.placement == _core.Placement.AT and one.compute.level == BLOCKS)
        return sorted(one.innermost_dim for one in in_block)

    tried = [dims(found) for found in placements(loads)]
    assert [0] in tried
    assert ([0, 1] in tried) == (loads == 3)
