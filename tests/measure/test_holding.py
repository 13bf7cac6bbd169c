"""Many schedules in one process: each is verified before it is held, and held schedules are timed one by one."""

import os
from dataclasses import replace
from pathlib import Path

import halide as hl
import numpy as np
import pytest
import ramps
from gpu_by_hand import tiled

from metol.framing import frame_of
from metol.lower import Call, Directive
from metol.measure import PipelineSource, schedule_at_root
from metol.measure import messages as m
from metol.measure.case import Case
from metol.measure.case_names import ESTIMATED
from metol.measure.cases import pipeline_case
from metol.measure.compiled import CompiledPipeline
from metol.measure.holding import DeviceFailedError, Holding
from metol.measure.tolerance import Tolerance
from metol.pipeline import extract


@pytest.fixture
def holding() -> Holding:
    return Holding(PipelineSource.parse(f"{ramps.__file__}:ramp"), hl.get_host_target(), 1)


def save_case(folder: Path, off: int = 0) -> str:
    """What the reference makes of random inputs; wrong by `off`."""
    pipeline = ramps.ramp()
    schedule_at_root(pipeline)
    code = CompiledPipeline.compile(pipeline, hl.get_host_target())
    case = pipeline_case(pipeline, code, ESTIMATED, 0)
    (right,), _ = code.run_once(case)
    Case(case.name, case.inputs, case.outputs, (right + np.int32(off),), (Tolerance(0, 0),)).save(folder)
    return str(folder)


def schedule_text(*calls: Call) -> str:
    pipeline = ramps.ramp()
    frame = frame_of(pipeline, extract(pipeline), "host", ())
    squares = next(i for i, ref in enumerate(frame.funcs) if ref.name.startswith("squares"))
    return replace(frame, directives=tuple(Directive(squares, 0, call, ()) for call in calls)).to_json()


def test_schedules_that_are_right_are_held_and_timed_by_number(holding: Holding, tmp_path: Path) -> None:
    case = save_case(tmp_path / "case")
    for number, calls in enumerate([(), (Call.COMPUTE_ROOT,)]):
        held = holding.hold(m.Hold(schedule_text(*calls), case))
        assert (held.number, held.problem) == (number, "")
        assert held.compile_seconds > 0
        assert held.first_ms > 0
    for number in (1, 0, 1):
        samples = holding.time(m.TimeHeld(number, 0.001, 0.0))
        assert samples.run_ms
        assert min(samples.run_ms) > 0


def test_a_schedule_that_is_wrong_is_told_and_not_held(holding: Holding, tmp_path: Path) -> None:
    held = holding.hold(m.Hold(schedule_text(), save_case(tmp_path / "case", off=1)))
    assert held.number == -1
    assert "elements differ" in held.problem


def test_what_runs_is_kept_on_as_many_cores_as_it_has_threads_and_let_go(
    holding: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores, seen = os.sched_getaffinity(0), []
    run_once = CompiledPipeline.run_once

    def note_cores(self: CompiledPipeline, case: Case) -> object:
        seen.append(os.sched_getaffinity(0))
        return run_once(self, case)

    case = save_case(tmp_path / "case")
    monkeypatch.setattr(CompiledPipeline, "run_once", note_cores)
    holding.hold(m.Hold(schedule_text(), case))
    assert seen == [{min(cores)}]
    assert os.sched_getaffinity(0) == cores


def tiled_text(width: int = 32, height: int = 8) -> str:
    """One kernel, for what is inlined into it."""
    pipeline = ramps.ramp()
    frame = frame_of(pipeline, extract(pipeline), "host-opencl", ())
    result = next(i for i, ref in enumerate(frame.funcs) if ref.name.startswith("result"))
    return replace(frame, directives=tuple(tiled(result, width, height))).to_json()


@pytest.fixture
def on_device(opencl_device: None) -> Holding:
    return Holding(PipelineSource.parse(f"{ramps.__file__}:ramp"), hl.Target("host-opencl"), 1)


@pytest.mark.opencl
def test_schedules_for_a_device_are_compared_held_and_timed_there(
    on_device: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    case = save_case(tmp_path / "case")
    for number, width in enumerate((32, 16)):
        held = on_device.hold(m.Hold(tiled_text(width), case))
        assert (held.number, held.problem) == (number, "")
        assert held.compile_seconds > 0
        assert held.first_ms > 0
    monkeypatch.setattr("metol.measure.holding.take_samples", lambda *_, wait: waits.append(wait) or [1.0])
    assert on_device.time(m.TimeHeld(1, 0.001, 0.0)).run_ms == [1.0]
    assert all(map(callable, waits))


@pytest.mark.opencl
def test_what_is_wrong_on_a_device_is_told_and_not_held(on_device: Holding, tmp_path: Path) -> None:
    held = on_device.hold(m.Hold(tiled_text(), save_case(tmp_path / "case", off=1)))
    assert held.number == -1
    assert "elements differ" in held.problem


@pytest.mark.opencl
def test_what_a_device_refuses_is_told_from_what_does_not_compile(on_device: Holding, tmp_path: Path) -> None:
    # More threads than a block may have.
    with pytest.raises(DeviceFailedError, match="CL"):
        on_device.hold(m.Hold(tiled_text(8192, 64), save_case(tmp_path / "case")))
