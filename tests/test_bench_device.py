import pytest

from metol.bench_device import BenchDevice, find_bench_device
from metol.errors import MachineFormatError
from metol.measure import Scheduler
from metol.targets.gpu import GpuMachine


def named(name: str) -> BenchDevice:
    device = find_bench_device(name, threads=2)
    assert device is not None
    return device


@pytest.mark.parametrize(
    ("name", "target", "is_here"),
    [
        ("a100", "host-cuda-cuda_capability_80", False),
        ("RTX 2080 Ti", "host-cuda-cuda_capability_75", False),
        ("h100", "host-cuda-cuda_capability_86", False),
        ("opencl", "host-opencl", True),
        ("OpenCL-CPU", "host-opencl", True),
    ],
)
def test_name_says_the_target_and_whether_it_may_be_run_on(name: str, target: str, is_here: bool) -> None:
    device = named(name)
    assert (device.target, device.is_here) == (target, is_here)


def test_gpu_of_this_machine_may_be_run_on_and_metol_finds_it_by_itself() -> None:
    device = BenchDevice(GpuMachine.preset("h200", threads=2))
    assert device.is_here
    assert device.tell(Scheduler("metol-analytical")) == Scheduler("metol-analytical")


def test_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(MachineFormatError, match=r"`voodoo` is not there; use one of gtx750ti, .*a100"):
        named("voodoo")


def test_schedulers_are_told_what_they_ask_for() -> None:
    device = named("a100")
    told = {name: dict(device.tell(Scheduler(name)).options) for name in ("metol-analytical", "anderson2021", "li2018")}
    assert told["metol-analytical"] == {"gpu": "a100"}
    assert told["li2018"] == {"parallelism": 108}
    assert told["anderson2021"] == {
        "parallelism": 108,
        "shared_memory_limit_kb": 48,
        "shared_memory_sm_limit_kb": 164,
        "active_block_limit": 32,
        "active_warp_limit": 64,
    }
    assert device.tell(Scheduler("mullapudi2016")) == Scheduler("mullapudi2016")


def test_peak_counts_a_multiplication_with_an_addition_as_two() -> None:
    assert named("a100").operations_per_second == pytest.approx(19.5e12, rel=0.01)  # its data sheet
