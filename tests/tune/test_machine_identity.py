"""What times are filed under: those of two GPUs, or of a GPU and the processor beside it, are never compared."""

import planted_failures
import pytest

from metol import SearchOptions
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine
from metol.tune import Problem, SearchTerms, fingerprint, key_of, machine_identity


def test_a_gpu_is_named_beside_its_processor() -> None:
    cpu = machine_identity()
    assert machine_identity(CpuMachine.default(threads=1)) == cpu
    assert machine_identity(GpuMachine.preset("a100")) == {**cpu, "gpu": "NVIDIA A100 40 GB"}


def test_fingerprints_tell_devices_apart() -> None:
    machines = None, GpuMachine.preset("a100"), GpuMachine.preset("h100"), GpuMachine.preset("opencl-cpu")
    assert len({fingerprint(machine_identity(machine)) for machine in machines}) == 4


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
def test_a_record_is_found_under_the_key_it_was_measured_under() -> None:
    terms = SearchTerms(2)
    with Problem(
        planted_failures.brighten(), options=SearchOptions(strategy="greedy"), target="opencl", threads=2
    ) as problem:
        assert problem.identity["gpu"] == problem.planner.machine.name
        assert key_of(planted_failures.brighten(), terms, target="opencl") == problem.key
        assert key_of(planted_failures.brighten(), terms).machine != problem.key.machine
