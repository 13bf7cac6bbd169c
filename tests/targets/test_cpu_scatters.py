"""Which loops around a scatter run in vectors: those whose turns go side by side, wherever values send them."""

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image, make_space

from metol.pipeline import extract

WIDTH, COUNT, PLACES = 64, 500, 32
ROLLOUTS = 200


def scattered(*, by_row: bool) -> hl.Pipeline:
    """Rows that go to one place each, or each of their values to one of its own."""
    values = image(WIDTH, COUNT, name="values")
    places = image(COUNT, name="row_places") if by_row else image(WIDTH, COUNT, name="places")
    output, r = hl.Func("output"), hl.RDom([(0, COUNT)], "r")
    place = places[r.x] if by_row else places[X, r.x]
    output[X, Y] = 0
    output[X, hl.clamp(hl.i32(place), 0, PLACES - 1)] += hl.i32(values[X, r.x])
    return finish(output, sizes=(WIDTH, PLACES))


@pytest.mark.parametrize("by_row", [True, False])
def test_lanes_that_go_side_by_side_are_vectors(by_row: bool) -> None:
    dag = extract(scattered(by_row=by_row))
    (output,) = dag.outputs
    update = dag.stages[dag.funcs[output].stages[1]]
    assert update.has_data_dependent_write
    space = make_space(dag)
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    loops = {leaves.take([i]).describe()[output].stages[1].vector_loop for i in range(ROLLOUTS)}
    along_rows = [loop.name for loop in update.loops].index("x")
    assert loops == ({along_rows} if by_row else {-1})
