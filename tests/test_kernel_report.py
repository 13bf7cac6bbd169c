"""Kernels beside the limits of a GPU: what can be launched, and how full it makes a multiprocessor."""

import math
from typing import Any

import pytest

from metol.kernel_report import judge_kernel
from metol.measure import Kernel
from metol.targets.gpu import ComputeCapability, Limit, compute_capability

T4, A100 = compute_capability(7, 5), compute_capability(8, 0)
NANO = compute_capability(5, 3)


def kernel(**fields: Any) -> Kernel:
    usual: dict[str, Any] = {
        "name": "_kernel_sums_s1_x",
        "func": 3,
        "func_name": "sums",
        "stage": 2,
        "architecture": "sm_80",
        "blocks": (10, 10, 1),
        "threads": (32, 8, 1),
        "shared_bytes": 0,
        "registers": 32,
        "spill_store_bytes": 0,
        "spill_load_bytes": 0,
        "stack_bytes": 0,
    }
    return Kernel(**(usual | fields))


def test_a_small_kernel_fills_a_multiprocessor() -> None:
    report = judge_kernel(kernel(), A100)
    assert report.is_launchable
    assert report.occupancy is not None
    assert (report.occupancy.blocks, report.occupancy.share) == (8, 1.0)
    assert report.text == "sums update 1 on sm_80: 32x8x1 threads, 32 registers, occupancy 100%"


@pytest.mark.parametrize(
    ("capability", "fields", "problem"),
    [
        (A100, {"threads": (64, 32, 1)}, "a block has 2048 threads, and may have 1024"),
        (A100, {"threads": (4, 1, 128)}, "there are 128 threads along z, and may be 64"),
        (A100, {"blocks": (1, 65536, 1)}, "there are 65536 blocks along y, and may be 65535"),
        (A100, {"shared_bytes": 49156}, "a block has 49156 B of shared memory, and may have 49152"),
        (A100, {"threads": (1024, 1, 1), "registers": 65}, "1024 threads with 65 registers each .* in 65536"),
        (NANO, {"threads": (512, 1, 1), "registers": 65}, "512 threads with 65 registers each .* in 32768"),
    ],
)
def test_what_exceeds_a_limit_cannot_be_launched(
    capability: ComputeCapability, fields: dict[str, Any], problem: str
) -> None:
    report = judge_kernel(kernel(**fields), capability)
    assert not report.is_launchable
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(report.text)


def test_the_most_of_everything_can_be_launched() -> None:
    most = kernel(threads=(1024, 1, 1), blocks=(2**31 - 1, 65535, 65535), registers=64, shared_bytes=48 << 10)
    report = judge_kernel(most, A100)
    assert report.is_launchable
    assert report.occupancy is not None
    assert report.occupancy.limits == (Limit.REGISTERS,)


def test_what_is_not_known_is_not_judged() -> None:
    report = judge_kernel(kernel(threads=(None, 8, 1), shared_bytes=None), T4)
    assert report.is_launchable
    assert report.occupancy is None
    assert "?x8x1 threads" in report.text
    assert "? B of shared memory, occupancy unknown" in report.text


def test_spills_stack_and_shared_memory_are_told_where_there_are_any() -> None:
    report = judge_kernel(
        kernel(spill_store_bytes=64, spill_load_bytes=80, stack_bytes=72, shared_bytes=20480, func_name="", func=-1), T4
    )
    assert report.text.startswith("_kernel_sums_s1_x on")
    assert "spills 64 B, loaded as 80 B, 72 B of stack, 20480 B of shared memory" in report.text
    assert report.occupancy is not None
    assert math.isclose(report.occupancy.share, 0.75)
