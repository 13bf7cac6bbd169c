"""Calibration: real kernels on this machine, loose checks of what they say."""

from dataclasses import fields, replace
from importlib import import_module

import halide as hl
import pytest

from metol.errors import UnsupportedTargetError
from metol.targets.cpu import calibrate
from metol.targets.cpu.machine import CpuMachine
from metol.targets.cpu.operation_kernels import OPERATION_PROBES, build_operation

# The function of the same name hides the module as an attribute of its package.
calibration = import_module("metol.targets.cpu.calibrate")


def _jit_target() -> hl.Target:
    return hl.get_host_target().with_feature(hl.TargetFeature.JIT)


@pytest.mark.slow
def test_calibrate_measures_plausible_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests run meanwhile, and will not leave the cores.
    monkeypatch.setattr(calibration, "_QUIET_SECONDS", 1.0)
    progress: list[float] = []
    default = CpuMachine.default()
    machine = calibrate(default, progress=lambda _, fraction: progress.append(fraction), budget_seconds=30.0)
    assert machine.is_calibrated
    assert machine.fingerprint == default.fingerprint
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    assert 3e8 < machine.clock_hz < 1e10
    operations, memory = machine.operations, machine.memory
    assert operations.f32_fma_seconds < operations.f32_div_seconds < operations.f32_pow_seconds
    assert memory.l2_read_bytes_per_second >= memory.l3_read_bytes_per_second >= memory.dram_read_bytes_per_second
    assert memory.dram_read_bytes_per_second_all_threads >= memory.dram_read_bytes_per_second
    for group in (operations, memory, machine.overheads):
        assert all(getattr(group, item.name) > 0 for item in fields(group))


def test_calibrate_without_a_budget_keeps_the_defaults() -> None:
    default = CpuMachine.default()
    machine = calibrate(default, budget_seconds=0.0)
    assert machine.operations == default.operations
    assert not machine.is_calibrated
    assert "`f32_fma` was not measured within the budget." in machine.notes


def test_calibrate_refuses_another_architecture() -> None:
    with pytest.raises(UnsupportedTargetError, match="does not run here"):
        calibrate(replace(CpuMachine.default(), vector_isa="powerpc-64-linux-vsx"))


@pytest.mark.parametrize("name", ["f32_fma", "convert_u8_f32"])
def test_build_operation_runs(name: str) -> None:
    step = next(step for step in OPERATION_PROBES if step.name == name)
    probe = build_operation(step, 16, _jit_target())
    probe.run(10)
    assert probe.events == step.chains * step.operations


def test_plausible_clamps_and_notes() -> None:
    default = CpuMachine.default().operations
    measured = {"f32_add_seconds": default.f32_add_seconds * 1e6, "f32_mul_seconds": -1.0}
    rates, notes = calibration._plausible(default, measured, 6.0)
    assert rates.f32_add_seconds == pytest.approx(default.f32_add_seconds * 6)
    assert rates.f32_mul_seconds == pytest.approx(default.f32_mul_seconds / 6)
    assert len(notes) == 2
    assert "f32_add_seconds" in notes[0]


def test_ordered_makes_no_cache_slower_than_the_next() -> None:
    memory = replace(CpuMachine.default().memory, l2_read_bytes_per_second=1.0)
    ordered, notes = calibration._ordered(memory)
    assert ordered.l2_read_bytes_per_second == memory.l3_read_bytes_per_second
    assert len(notes) == 1
