"""The model takes a tile for unrolled where lowering unrolls it, in the version for large outputs."""

import math
from collections.abc import Callable, Iterator

import halide as hl
import pytest
from small_pipelines import C, X, Y, chain, finish, image, make_space

from metol import _core
from metol.lower import Call, cpu_directives
from metol.pipeline import PipelineDag, extract

SIZE = 250
ROLLOUTS = 300


def transposed() -> hl.Pipeline:
    """Rows that are read across: vectors of the first blur gather, or those of the second do."""
    source = image(SIZE + 4, SIZE + 4)
    rows, across, output = hl.Func("rows"), hl.Func("across"), hl.Func("output")
    rows[X, Y] = source[X, Y] + source[X + 1, Y] + source[X + 4, Y]
    across[X, Y] = rows[Y, X]
    output[X, Y] = across[X, Y] + across[X + 1, Y] + across[X + 4, Y]
    return finish(output, sizes=(SIZE, SIZE))


def strided() -> hl.Pipeline:
    """Every second element, of an input without a clamp."""
    source = image(2 * SIZE, SIZE)
    half, output = hl.Func("half"), hl.Func("output")
    half[X, Y] = source[2 * X, Y] + source[2 * X + 1, Y]
    output[X, Y] = half[X, Y] * half[X, Y]
    return finish(output, sizes=(SIZE, SIZE))


def clamped() -> hl.Pipeline:
    """A boundary condition of its own, and stencils of it."""
    source = hl.BoundaryConditions.repeat_edge(image(SIZE, SIZE))
    first, output = hl.Func("first"), hl.Func("output")
    first[X, Y] = source[X - 1, Y] + source[X + 1, Y]
    output[X, Y] = first[X, Y - 1] + first[X, Y + 1]
    return finish(output, sizes=(SIZE, SIZE))


def summed() -> hl.Pipeline:
    """Sums of rows and of columns, of a Func and of an output."""
    source = image(SIZE, SIZE)
    total, output = hl.Func("total"), hl.Func("output")
    r = hl.RDom([(0, 9)], "r")
    total[X, Y] = 0
    total[X, Y] += source[Y, X] * r
    output[X, Y] = 0
    output[X, Y] += total[X, Y] * source[X, Y] + r
    return finish(output, sizes=(SIZE, SIZE))


def looked_up() -> hl.Pipeline:
    """A table at places that an image tells, through a Func that may be inlined."""
    source, table = image(SIZE, SIZE), hl.Func("table")
    index, output = hl.Func("index"), hl.Func("output")
    table[X] = X * X
    index[X, Y] = table[hl.clamp(source[X, Y], 0, 255)] + 1
    output[X, Y, C] = index[X, Y] * (C + 1)
    return finish(output, sizes=(SIZE, SIZE, 3))


def read_outputs() -> hl.Pipeline:
    """One output reads another across."""
    source = image(SIZE, SIZE)
    first, second = hl.Func("first"), hl.Func("second")
    first[X, Y] = source[X, Y] + 1
    second[X, Y] = first[Y, X] + source[X, Y]
    return finish(first, second, sizes=(SIZE, SIZE))


def stages_in_tiles(dag: PipelineDag) -> Iterator[tuple[int, bool, float]]:
    """For the Stages of random loop nests with tiles of several vectors: which, unrolled or not, and by the model."""
    space = make_space(dag)
    column = list(space.feature_table()).index("unrolled_loop_extent")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        schedules = leaf.describe()
        (rows,) = space.featurize(leaf)
        directives = cpu_directives(dag, schedules)
        for schedule in schedules:
            if schedule.placement not in (_core.Placement.ROOT, _core.Placement.AT):
                continue
            for position, (stage_id, nest) in enumerate(
                zip(dag.funcs[schedule.func].stages, schedule.stages, strict=False)
            ):
                pure = [
                    points
                    for points, loop in zip(nest.levels[-1], dag.stages[stage_id].loops, strict=False)
                    if not loop.is_reduction
                ]
                if nest.vector_loop < 0 or math.prod(pure) <= nest.vector_width:
                    continue
                own = [d for d in directives if (d.func, d.stage) == (schedule.func, position)]
                large = (0,) if any(d.branch == (0,) for d in own) else ()
                is_unrolled = any(d.call is Call.UNROLL for d in own if d.branch == large)
                yield stage_id, is_unrolled, float(rows[stage_id][column])


@pytest.mark.parametrize("build", [transposed, strided, clamped, chain, summed, looked_up, read_outputs])
def test_the_model_takes_for_unrolled_what_lowering_unrolls(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    found = list(stages_in_tiles(dag))
    assert len(found) > 100
    wrong = {
        dag.funcs[dag.stages[stage].func].name for stage, is_unrolled, extent in found if is_unrolled != (extent > 1)
    }
    assert wrong == set()


def test_random_loop_nests_have_tiles_of_both_kinds() -> None:
    found = {is_unrolled for _, is_unrolled, _ in stages_in_tiles(extract(transposed()))}
    assert found == {False, True}
