"""Sums that are one number: each step waits for the one before it, but for those that are added up beforehand.

What the compiler does is in the first tests; the other holds the model to it.
"""

import re
from pathlib import Path

import halide as hl
import pytest
from assembled import assembly_of
from small_pipelines import finish, func_named, image, make_space

from metol.pipeline import extract

COUNT = 8192
ROLLOUTS = 200
# Steps that the core looks ahead, which hide as much waiting.
LOOK_AHEAD = 128
R = hl.RDom([(0, COUNT)], "r")


def total(apart: int = 1) -> hl.Func:
    """The sum of elements of an image that lie so far apart."""
    source = image(COUNT * apart, pixel=hl.Float(32))
    result = hl.Func("total")
    result[()] = 0.0
    result[()] += source[R * apart]
    return result


def waits_a_turn(assembly: str) -> int:
    """Count the additions in the only loop whose operand is their own result."""
    (body,) = re.findall(r"\n(?:\.LBB\d+_\d+):((?:(?!\n\.LBB)[\s\S])*?vaddss[\s\S]*?)\n\tj\w+\t\.LBB", assembly)
    (total_in,) = re.findall(r"vmovss\t(%xmm\d+), \(%r\w+\)\s*(?:#.*)?\n", assembly)[-1:]
    return len(re.findall(rf"\tvadd[sp]s\t.*{total_in}, {total_in}\b", body))


@pytest.mark.parametrize("apart", [1, 5])
@pytest.mark.parametrize("unrolled", [1, 4, 8])
def test_steps_of_a_turn_wait_for_each_other_where_they_lie_apart(tmp_path: Path, unrolled: int, apart: int) -> None:
    result, output = total(apart), hl.Func("output")
    output[()] = result[()]
    result.compute_root()
    result.update().unroll(R.x, unrolled)
    assert waits_a_turn(assembly_of(output, tmp_path)) == (1 if apart == 1 else unrolled)


@pytest.mark.parametrize("apart", [1, 5])
def test_steps_that_wait_are_counted(apart: int) -> None:
    output = hl.Func("output")
    output[()] = hl.max(total(apart)[()], 0.0)
    dag = extract(finish(output, sizes=()))
    space = make_space(dag)
    func = func_named(dag, "total")
    stage = dag.funcs[func].stages[1]
    seen = set()
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        nest = leaf.describe()[func].stages[1]
        (rows,) = space.featurize(leaf)
        row = dict(zip(space.feature_table(), map(float, rows[stage]), strict=True))
        unrolled = list(nest.levels)[-1][0]
        assert nest.vector_width == 1
        steps = COUNT // unrolled if apart == 1 else COUNT
        assert row["chained_steps"] == pytest.approx(steps - LOOK_AHEAD)
        assert row["spilled_steps"] == 0
        seen.add(unrolled)
    assert len(seen) > 1
