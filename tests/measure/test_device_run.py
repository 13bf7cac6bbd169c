"""Runs on a GPU with everything resident there: OpenCL on the CPU."""

from collections.abc import Callable
from dataclasses import replace

import halide as hl
import numpy as np
import pytest

from metol.measure import LocalRunner, PipelineSource, RunOptions, Scheduler, Status
from metol.measure.case import BufferShape, Case, Input
from metol.measure.device_run import DeviceRun

pytestmark = [pytest.mark.opencl, pytest.mark.usefixtures("opencl_device")]

Planted = Callable[[str], PipelineSource]
WIDTH, HEIGHT = 48, 20


def scaled() -> hl.Pipeline:
    """A kernel that takes an array, an integer and a float."""
    x, y, xi, yi = (hl.Var(name) for name in ("x", "y", "xi", "yi"))
    source, offset, gain = (
        hl.ImageParam(hl.Float(32), 2, "source"),
        hl.Param(hl.Int(32), "offset"),
        hl.Param(hl.Float(32), "gain"),
    )
    result = hl.Func("scaled")
    result[x, y] = source[x, y] * gain + offset
    result.gpu_tile(x, y, xi, yi, 8, 4)
    return hl.Pipeline(result)


def case() -> Case:
    array = np.arange(WIDTH * HEIGHT, dtype=np.float32).reshape(HEIGHT, WIDTH)
    inputs = {
        "source": Input("source", array=array, mins=(0, 0)),
        "offset": Input("offset", number=-3),
        "gain": Input("gain", number=0.5),
    }
    names = [argument.name for argument in scaled().infer_arguments()]
    return Case("estimated size", tuple(inputs[name] for name in names), (BufferShape.of_array(array),))


@pytest.mark.slow
def test_results_are_those_of_the_kernel_and_stay_on_the_device_until_fetched() -> None:
    this = case()
    (array,) = (item.array for item in this.inputs if item.array is not None)
    run = DeviceRun.bind(scaled(), hl.Target("host-opencl"), this)
    run.run()
    run.wait()
    assert np.isnan(run.arrays[0]).all()
    np.testing.assert_array_equal(run.fetch()[0], array * np.float32(0.5) - 3)


def test_inputs_are_copied_to_the_device_once() -> None:
    this = case()
    (array,) = (item.array for item in this.inputs if item.array is not None)
    wanted = array * np.float32(0.5) - 3
    run = DeviceRun.bind(scaled(), hl.Target("host-opencl"), this)
    run.run()
    array[:] = 0
    run.run()
    np.testing.assert_array_equal(run.fetch()[0], wanted)


@pytest.mark.parametrize(
    "name",
    [
        "blur",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("interleaved", "pair", "wide_numbers", "histogram")),
    ],
)
def test_schedules_are_verified_and_timed_on_the_device(name: str, planted: Planted, brief_options: RunOptions) -> None:
    options = RunOptions(threads=1, target="host-opencl", timing=brief_options.timing, timeout_seconds=120)
    (row,) = LocalRunner(options).run(planted(name), [Scheduler.parse("metol-analytical:gpu=opencl-cpu")])
    assert row.verified, row.problem
    assert row.run_ms is not None
    assert row.run_ms > 0


def test_caches_of_a_device_are_not_emptied(planted: Planted, brief_options: RunOptions) -> None:
    assert brief_options.timing is not None
    timing = replace(brief_options.timing, is_cold=True)
    options = RunOptions(threads=1, target="host-opencl", timing=timing, timeout_seconds=120)
    (row,) = LocalRunner(options).run(planted("blur"), [Scheduler("reference")])
    assert row.status is Status.RUN_FAILED
    assert "time with warm ones" in row.detail
