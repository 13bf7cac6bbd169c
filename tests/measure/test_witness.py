"""The plainest schedule for a target computes what everything at root computes, of integers to the last bit."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from small_pipelines import C, X, Y, blur, chain, finish, image, matmul

from metol.errors import MetolError
from metol.measure.at_root import schedule_at_root
from metol.measure.cases import pipeline_case
from metol.measure.compiled import CompiledPipeline
from metol.measure.witness import schedule_as_witness
from metol.targets.gpu import has_opencl_device

Build = Callable[[], hl.Pipeline]


def histogram_of_rows() -> hl.Pipeline:
    """A scatter with a loop of points, one without, and one point."""
    source, rows, whole, output = image(39, 25), hl.Func("rows"), hl.Func("whole"), hl.Func("output")
    r = hl.RDom([(0, 39)])
    rows[X, Y] = 0
    rows[source[r.x, Y] % 16, Y] += 1
    area = hl.RDom([(0, 39), (0, 25)])
    whole[()] = 0
    whole[()] += source[area.x, area.y]
    output[X, Y] = rows[X, Y] + whole[()]
    return finish(output, sizes=(16, 25))


def four_loops() -> hl.Pipeline:
    output, w = hl.Func("output"), hl.Var("w")
    output[C, X, Y, w] = C + 3 * X + 5 * Y + 7 * w
    return finish(output, sizes=(3, 70, 5, 2))


def results(build: Build, schedule: Callable[[hl.Pipeline, hl.Target], None], target: str) -> tuple[np.ndarray, ...]:
    reference = build()
    schedule_at_root(reference)
    case = pipeline_case(reference, CompiledPipeline.compile(reference, hl.get_host_target()), "odd", 0)
    pipeline = build()
    parsed = hl.Target(target)
    schedule(pipeline, parsed)
    return CompiledPipeline.compile(pipeline, parsed).run_once(case)[0]


@pytest.mark.parametrize("target", ["host", pytest.param("host-opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("build", [blur, chain, matmul, histogram_of_rows, four_loops])
def test_witness_is_right(build: Build, target: str) -> None:
    if target != "host" and not has_opencl_device():
        pytest.skip("no OpenCL device")
    found = results(build, schedule_as_witness, target)
    expected = results(build, lambda pipeline, _: schedule_at_root(pipeline), "host")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_there_is_no_witness_of_what_stays_on_the_host() -> None:
    output = hl.Func("output")
    output[X] = hl.popcount(image(40)[X])
    pipeline = finish(output, sizes=(40,))
    with pytest.raises(MetolError, match="on the host alone"):
        schedule_as_witness(pipeline, hl.Target("host-opencl"))
