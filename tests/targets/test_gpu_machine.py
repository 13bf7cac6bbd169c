"""Descriptions of GPUs, and the choice of a machine by Halide target."""

from dataclasses import replace

import halide as hl
import pytest
from small_pipelines import matmul

from metol.errors import MachineFormatError
from metol.pipeline import extract
from metol.targets import choose_machine, machine_parameters, parse_target
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine, gpu_parameters


@pytest.mark.parametrize(
    ("target", "kind"),
    [(None, CpuMachine), ("host", CpuMachine), ("host-cuda", GpuMachine), ("x86-64-linux-opencl", GpuMachine)],
)
def test_the_target_chooses_the_machine(target: str | None, kind: type) -> None:
    machine = choose_machine(parse_target(target), threads=3)
    assert isinstance(machine, kind)
    assert machine.host_threads == 3


def test_a_given_machine_is_kept() -> None:
    machine = GpuMachine.preset("a100")
    assert choose_machine(parse_target(hl.Target("host-cuda")), machine) is machine


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(MachineFormatError, match="rtx-2080-ti, a100 and opencl-cpu"):
        GpuMachine.preset("voodoo")


@pytest.mark.parametrize("field", ["multiprocessors", "clock_hz", "launch_seconds"])
def test_a_machine_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(MachineFormatError, match=field):
        replace(GpuMachine.preset("a100"), **{field: 0})


def test_parameters_are_of_the_kind_of_the_machine() -> None:
    dag = extract(matmul())
    for machine in (GpuMachine.preset("a100"), CpuMachine.default(threads=1)):
        kind = type(machine).__name__.replace("Machine", "Parameters")
        assert type(machine_parameters(machine, dag)).__name__ == kind


def test_arithmetic_is_per_stage_and_faster_with_more_lanes() -> None:
    dag = extract(matmul())
    machine = GpuMachine.preset("a100")
    few, many = (gpu_parameters(replace(machine, lanes=lanes), dag).point_seconds for lanes in (64, 128))
    assert len(few) == len(dag.stages)
    assert [a / b for a, b in zip(few, many, strict=True)] == [2.0] * len(few)
    # The update multiplies and adds; the pure definition is a constant.
    zero, product = dag.funcs[dag.stages[0].func].stages
    assert few[product] > few[zero]
