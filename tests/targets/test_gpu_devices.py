"""Compute capabilities, and GPUs by name."""

import re
from dataclasses import replace

import halide as hl
import pytest

from metol.errors import MachineFormatError
from metol.targets.gpu import CAPABILITIES, DEVICES, OPENCL, ComputeCapability, GpuMachine, compute_capability


def test_capabilities_run_from_5_0_to_9_0() -> None:
    assert [str(capability) for capability in CAPABILITIES] == (
        ["5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0"]
    )


@pytest.mark.parametrize("capability", [*CAPABILITIES, OPENCL], ids=str)
def test_a_block_has_no_more_than_a_multiprocessor(capability: ComputeCapability) -> None:
    assert capability.max_threads_per_block <= capability.max_threads_per_multiprocessor
    assert capability.max_registers_per_block <= capability.registers_per_multiprocessor
    assert capability.registers_per_multiprocessor % capability.max_registers_per_block == 0
    assert capability.shared_bytes_per_block <= capability.max_shared_bytes_per_block
    room = capability.shared_bytes_per_multiprocessor - capability.reserved_shared_bytes
    assert capability.max_shared_bytes_per_block <= room


def test_a_version_between_has_the_limits_of_the_one_below() -> None:
    newer = compute_capability(12, 0)
    assert newer.version == (12, 0)
    assert replace(newer, version=(9, 0)) == compute_capability(9, 0)


def test_a_version_below_5_0_is_refused() -> None:
    with pytest.raises(MachineFormatError, match=r"5\.0 and above, and this is 3\.5"):
        compute_capability(3, 5)


@pytest.mark.parametrize("field", ["lanes", "warp_unit", "max_shared_bytes_per_block"])
def test_a_capability_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(MachineFormatError, match=field):
        replace(OPENCL, **{field: 0})


@pytest.mark.parametrize("choices", [(), (2, 1)])
def test_choices_of_shared_memory_ascend(choices: tuple[int, ...]) -> None:
    with pytest.raises(MachineFormatError, match="shared_bytes_choices"):
        replace(OPENCL, shared_bytes_choices=choices)


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_the_halide_feature_is_the_greatest_that_there_is(capability: ComputeCapability) -> None:
    names = filter(None, (re.fullmatch(r"CUDACapability(\d)(\d)", name) for name in dir(hl.TargetFeature)))
    versions = [(int(name[1]), int(name[2])) for name in names]
    assert capability.version is not None
    major, minor = max(version for version in versions if version <= capability.version)
    assert capability.halide_feature == f"cuda_capability_{major}{minor}"
    feature = getattr(hl.TargetFeature, f"CUDACapability{major}{minor}")
    assert hl.Target(f"host-cuda-{capability.halide_feature}").has_feature(feature)


@pytest.mark.parametrize(
    ("name", "feature"),
    [("h100", "cuda_capability_86"), ("xavier", "cuda_capability_70"), ("gtx750ti", "cuda_capability_50"),
     ("p100", "cuda_capability_50"), ("opencl-cpu", "opencl")],
)  # fmt: skip
def test_a_device_names_its_halide_feature(name: str, feature: str) -> None:
    assert GpuMachine.preset(name).halide_feature == feature


@pytest.mark.parametrize("name", DEVICES)
def test_a_name_makes_a_machine(name: str) -> None:
    machine = GpuMachine.preset(name, threads=3)
    assert machine.host_threads == 3
    assert machine.l2_bytes_per_second > machine.memory_bytes_per_second
    assert machine.max_threads_per_multiprocessor == machine.capability.max_warps_per_multiprocessor * (
        machine.warp_threads
    )


def test_every_capability_has_a_device() -> None:
    assert {device.capability for device in DEVICES.values()} == {*CAPABILITIES, OPENCL}


@pytest.mark.parametrize("name", ["rtx2080ti", "rtx-2080-ti", "RTX 2080 Ti", "rtx_2080Ti "])
def test_spelling_of_a_name_does_not_count(name: str) -> None:
    assert GpuMachine.preset(name).name == "NVIDIA GeForce RTX 2080 Ti"


def test_devices_of_the_paper_are_as_it_says() -> None:
    """Sioutas et al. 2020, table 2."""
    rtx, xavier = GpuMachine.preset("rtx2080ti"), GpuMachine.preset("xavier")
    for machine, capability, count in ((rtx, "7.5", 68), (xavier, "7.2", 8)):
        assert (str(machine.capability), machine.multiprocessors) == (capability, count)
        assert (machine.max_threads_per_block, machine.max_registers_per_thread) == (1024, 255)
        assert machine.registers_per_multiprocessor == 65536
        assert machine.shared_bytes_per_block == 48 * 1024
    assert rtx.capability.max_shared_bytes_per_block == 64 * 1024
    assert rtx.lanes * 2 * rtx.multiprocessors * rtx.clock_hz == pytest.approx(13.45e12, rel=0.01)


def test_an_opencl_device_on_a_cpu_has_its_cores() -> None:
    machine = GpuMachine.preset("opencl-cpu", threads=5)
    assert machine.multiprocessors == 5
    assert machine.shared_bytes_per_block == 32 * 1024
