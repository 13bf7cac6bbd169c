"""Vectors that the end of a loop with a guard cuts through: AVX2 goes through their lanes one by one."""

import re
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import BARE_TARGET, SOME_TARGET, WIDE_TARGET, X, Y, finish, image, make_space

from metol.pipeline import extract

LANES = 32
ROWS = 64
ROLLOUTS = 300


def eroded(width: int, pixel: hl.Type, step: int = 1) -> tuple[hl.Func, hl.ImageParam]:
    """The least of nine pixels, as a reduction, whose loops end with a guard: there is no input beyond.

    Of every `step`-th pixel along rows.
    """
    source = image(step * width + 2, ROWS + 2, pixel=pixel)
    least = hl.Func("least")
    r = hl.RDom([(0, 3), (0, 3)], "r")
    least[X, Y] = source[step * X, Y]
    least[X, Y] = hl.min(least[X, Y], source[step * X + r.x, Y + r.y])
    return least, source


@pytest.mark.slow
@pytest.mark.parametrize(("target", "is_lane_by_lane"), [(BARE_TARGET, True), (f"{WIDE_TARGET}-no_runtime", False)])
def test_the_compiler_takes_the_lanes_beyond_an_end_one_by_one(
    tmp_path: Path, target: str, is_lane_by_lane: bool
) -> None:
    least, source = eroded(LANES + 7, hl.UInt(8))
    least.update().vectorize(X, LANES, hl.TailStrategy.GuardWithIf)
    path = tmp_path / "code.s"
    least.compile_to_assembly(str(path), [source], "least", hl.Target(target))
    of_a_lane = len(re.findall(r"\tvp(?:insr|extr)b\t", path.read_text()))
    assert of_a_lane >= 3 * LANES - 3 if is_lane_by_lane else of_a_lane == 0


@pytest.mark.slow
def test_no_instruction_loads_some_of_the_lanes_that_lie_apart(tmp_path: Path) -> None:
    least, source = eroded(LANES + 7, hl.UInt(8), step=2)
    least.update().vectorize(X, LANES, hl.TailStrategy.GuardWithIf)
    path = tmp_path / "code.s"
    least.compile_to_assembly(str(path), [source], "least", hl.Target(f"{WIDE_TARGET}-no_runtime"))
    assert len(re.findall(r"\tvpinsrb\t", path.read_text())) >= LANES - 1


def scalars_of_vectors(width: int, pixel: hl.Type, target: str, step: int = 1) -> list[tuple[float, float, int]]:
    """Share of the vectors that the end cuts through, scalar loads and stores a vector, and lanes: in some loop nests.

    In each the update runs in vectors along its rows, with one of the nine pixels after the other.
    """
    least, _ = eroded(width, pixel, step)
    dag = extract(finish(least, sizes=(width, ROWS)))
    space = make_space(dag, target=target)
    (func,) = dag.outputs
    update = dag.funcs[func].stages[1]
    column = list(space.feature_table()).index("scalar_loads_per_vector")
    row = next(i for i, loop in enumerate(dag.stages[update].loops) if loop.name == "x")
    nine = [i for i, loop in enumerate(dag.stages[update].loops) if loop.is_reduction]
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    found = []
    for i in range(ROLLOUTS):
        leaf = leaves.take([i])
        nest = leaf.describe()[func].stages[1]
        tile = nest.levels[-1]
        if nest.vector_loop == row and nest.vector_width > 1 and all(tile[loop] == 1 for loop in nine):
            # With a guard around lanes that lie apart, lowering unrolls nothing.
            points = tile[row] if step == 1 else nest.vector_width
            vectors = -(-width // points) * points // nest.vector_width
            share = (1 if width % nest.vector_width else 0) / vectors
            found.append((share, space.featurize(leaf)[0][update][column], nest.vector_width))
    assert len(found) >= 10
    return found


@pytest.mark.parametrize(("pixel", "accesses"), [(hl.UInt(8), 3), (hl.Int(32), 1)])
def test_lanes_beyond_an_end_are_loaded_and_stored_one_by_one(pixel: hl.Type, accesses: int) -> None:
    """Of bytes two loads and the store are, of four bytes the store alone."""
    found = scalars_of_vectors(3 * LANES + 4, pixel, SOME_TARGET)
    assert all(share > 0 for share, _, _ in found)
    for share, scalars, lanes in found:
        assert scalars == pytest.approx(share * accesses * lanes)


def test_none_are_where_vectors_end_with_the_loop_or_leave_lanes_out() -> None:
    assert all(
        scalars == 0 for share, scalars, _ in scalars_of_vectors(4 * LANES, hl.UInt(8), SOME_TARGET) if not share
    )
    assert all(scalars == 0 for _, scalars, _ in scalars_of_vectors(3 * LANES + 4, hl.UInt(8), WIDE_TARGET))


@pytest.mark.parametrize(("pixel", "target", "accesses"), [(hl.UInt(8), WIDE_TARGET, 1), (hl.Int(32), SOME_TARGET, 2)])
def test_lanes_that_lie_apart_are_loaded_one_by_one_on_every_machine(
    pixel: hl.Type, target: str, accesses: int
) -> None:
    """The pixels are; with AVX2 the lanes are stored so, too."""
    for share, scalars, lanes in scalars_of_vectors(3 * LANES + 4, pixel, target, step=2):
        assert scalars == pytest.approx(share * accesses * lanes)
