"""The GPU of this machine, as its CUDA driver describes it.

Enters: nothing but the machine. Leaves: a `GpuMachine`, or None where there is no driver or no GPU. The driver is asked
in a child process with a time limit: it may crash, and a half-installed one may never answer.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from metol.errors import MachineFormatError
from metol.targets.gpu.compute_capability import ComputeCapability, compute_capability
from metol.targets.gpu.machine import GpuMachine

__all__ = ["MEMORY_SHARE", "detect_gpu"]

_LIBRARIES: Final = ("libcuda.so.1", "libcuda.so")
# A driver that has to load its kernel module first takes some seconds.
_CHILD_SECONDS: Final = 20.0
MEMORY_SHARE: Final = 0.4
"""Of the rate of the last cache, where the driver does not tell the memory's, as on a virtual GPU: GPUs with GDDR
memory have a third to a half."""


class _Attribute(IntEnum):
    """CUdevice_attribute of the CUDA driver API: those that are asked for."""

    MAX_THREADS_PER_BLOCK = 1
    SHARED_BYTES_PER_BLOCK = 8
    WARP_THREADS = 10
    MAX_REGISTERS_PER_BLOCK = 12
    CLOCK_KHZ = 13
    MULTIPROCESSORS = 16
    MEMORY_CLOCK_KHZ = 36
    MEMORY_BUS_BITS = 37
    L2_BYTES = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    MAJOR = 75
    MINOR = 76
    SHARED_BYTES_PER_MULTIPROCESSOR = 81
    REGISTERS_PER_MULTIPROCESSOR = 82
    MAX_SHARED_BYTES_PER_BLOCK = 97
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    RESERVED_SHARED_BYTES = 111


_NEEDED: Final = (_Attribute.MULTIPROCESSORS, _Attribute.CLOCK_KHZ, _Attribute.L2_BYTES, _Attribute.MAJOR)


def detect_gpu(
    *,
    threads: int | None = None,
    libraries: tuple[str, ...] = _LIBRARIES,
    limit_seconds: float = _CHILD_SECONDS,
) -> GpuMachine | None:
    """Describe the GPU that Halide's runtime would run on: that with the most multiprocessors.

    The driver is asked once in a process; the answer is kept.

    Args:
        threads: Threads of the CPU to use; all that this process may run on if None.
        libraries: The driver, under the names to try, the first that is there.
        limit_seconds: When the driver is given up.

    Returns:
        The machine; None where there is no driver, no GPU, none of compute capability 5.0 or above, or no answer.
    """
    machines = [_machine(name, attributes) for name, attributes in _ask(libraries, limit_seconds)]
    found = max(
        (machine for machine in machines if machine is not None),
        key=lambda machine: machine.multiprocessors,
        default=None,
    )
    return None if found is None else replace(found, host_threads=threads or len(os.sched_getaffinity(0)))


@functools.cache
def _ask(libraries: tuple[str, ...], limit_seconds: float) -> tuple[tuple[str, Mapping[int, int]], ...]:
    """Return the name and the attributes of each device; none where the driver does not answer."""
    child = Path(__file__).with_name("driver_child.py")
    command = [sys.executable, "-I", str(child), ",".join(str(int(each)) for each in _Attribute), *libraries]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=limit_seconds, check=True
        )
        # The last line; what is before it is the driver's own.
        devices = json.loads(done.stdout.strip().split("\n")[-1])
    except (subprocess.SubprocessError, json.JSONDecodeError):
        return ()
    return tuple((str(each["name"]), _numbers(each["attributes"])) for each in devices)


def _numbers(attributes: Mapping[str, Any]) -> Mapping[int, int]:
    return {int(attribute): int(value) for attribute, value in attributes.items()}


def _machine(name: str, attributes: Mapping[int, int]) -> GpuMachine | None:
    """Return a device in Metol's words; None where too little is known, or it is too old."""
    if any(attributes.get(needed, 0) <= 0 for needed in _NEEDED):
        return None
    try:
        row = compute_capability(attributes[_Attribute.MAJOR], attributes.get(_Attribute.MINOR, 0))
    except MachineFormatError:
        return None
    multiprocessors, clock_hz = attributes[_Attribute.MULTIPROCESSORS], attributes[_Attribute.CLOCK_KHZ] * 1e3
    l2_bytes_per_second = multiprocessors * clock_hz * row.l2_bytes_per_cycle
    return GpuMachine(
        name=name,
        capability=_capability(row, attributes),
        multiprocessors=multiprocessors,
        clock_hz=clock_hz,
        memory_bytes_per_second=_memory_bytes_per_second(attributes) or MEMORY_SHARE * l2_bytes_per_second,
        l2_bytes=attributes[_Attribute.L2_BYTES],
    )


def _memory_bytes_per_second(attributes: Mapping[int, int]) -> float:
    """2 x clock x bits of the bus / 8: memory sends on both edges of its clock. 0 where the driver does not tell."""
    clock_hz = attributes.get(_Attribute.MEMORY_CLOCK_KHZ, 0) * 1e3
    return 2 * clock_hz * attributes.get(_Attribute.MEMORY_BUS_BITS, 0) / 8


def _capability(row: ComputeCapability, attributes: Mapping[int, int]) -> ComputeCapability:
    """Return the limits that the driver states, and those of the table where it states none."""

    def stated(attribute: _Attribute, otherwise: int) -> int:
        return attributes.get(attribute, 0) or otherwise

    warp_threads = stated(_Attribute.WARP_THREADS, row.warp_threads)
    threads = stated(_Attribute.MAX_THREADS_PER_MULTIPROCESSOR, row.max_threads_per_multiprocessor)
    shared = stated(_Attribute.SHARED_BYTES_PER_MULTIPROCESSOR, row.shared_bytes_per_multiprocessor)
    return replace(
        row,
        warp_threads=warp_threads,
        max_threads_per_block=stated(_Attribute.MAX_THREADS_PER_BLOCK, row.max_threads_per_block),
        max_warps_per_multiprocessor=threads // warp_threads,
        max_blocks_per_multiprocessor=stated(
            _Attribute.MAX_BLOCKS_PER_MULTIPROCESSOR, row.max_blocks_per_multiprocessor
        ),
        registers_per_multiprocessor=stated(_Attribute.REGISTERS_PER_MULTIPROCESSOR, row.registers_per_multiprocessor),
        max_registers_per_block=stated(_Attribute.MAX_REGISTERS_PER_BLOCK, row.max_registers_per_block),
        shared_bytes_choices=(*(size for size in row.shared_bytes_choices if size < shared), shared),
        shared_bytes_per_block=stated(_Attribute.SHARED_BYTES_PER_BLOCK, row.shared_bytes_per_block),
        max_shared_bytes_per_block=stated(_Attribute.MAX_SHARED_BYTES_PER_BLOCK, row.max_shared_bytes_per_block),
        reserved_shared_bytes=attributes.get(_Attribute.RESERVED_SHARED_BYTES, row.reserved_shared_bytes),
    )
