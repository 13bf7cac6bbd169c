"""What here runs OpenCL, as its loader describes it.

Enters: nothing but the machine. Leaves: yes or no, and a `GpuMachine`. The loader is asked in a child process with a
time limit, as drivers are: one that is half installed may crash, or never answer.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from metol.targets.gpu.compute_capability import ComputeCapability
from metol.targets.gpu.driver import MEMORY_SHARE, detect_gpu
from metol.targets.gpu.machine import GpuMachine

__all__ = ["detect_opencl", "has_opencl_device"]

_LIBRARIES: Final = ("libOpenCL.so.1", "libOpenCL.so")
_CHILD_SECONDS: Final = 20.0
# CL_DEVICE_TYPE_CPU of OpenCL 1.2.
_CPU: Final = 2
_ON_CPU: Final = "opencl-cpu"
# What stands for a GPU of which its driver tells no more than OpenCL has words for.
_USUAL_GPU: Final = "rtx2080ti"


def has_opencl_device(libraries: tuple[str, ...] = _LIBRARIES, limit_seconds: float = _CHILD_SECONDS) -> bool:
    """Tell whether Halide's runtime would find an OpenCL device; asked once in a process.

    Args:
        libraries: The loader, under the names to try, the first that is there.
        limit_seconds: When it is given up.
    """
    return any(_ask(libraries, limit_seconds))


def detect_opencl(
    *,
    threads: int | None = None,
    libraries: tuple[str, ...] = _LIBRARIES,
    limit_seconds: float = _CHILD_SECONDS,
) -> GpuMachine | None:
    """Describe the OpenCL device that Halide's runtime would run on: of the first platform, that with the most units.

    Of a CPU nothing but its name is taken, and of NVIDIA's GPUs what the driver of CUDA tells; of others, what OpenCL
    has no words for is that of an RTX 2080 Ti.

    Args:
        threads: Threads of the CPU to use; all that this process may run on if None.
        libraries: The loader, under the names to try, the first that is there.
        limit_seconds: When it is given up.

    Returns:
        The machine; None where there is no loader, no device, or no answer.
    """
    first = next(iter(_ask(libraries, limit_seconds)), ())
    device = max(first, key=lambda each: int(each.get("compute_units", 0)), default=None)
    if device is None:
        return None
    name = str(device["name"]) or "OpenCL device"
    if int(device.get("type", _CPU)) & _CPU:
        return replace(GpuMachine.preset(_ON_CPU, threads=threads), name=name)
    nvidia = detect_gpu(threads=threads)
    if nvidia is not None and nvidia.name == name:
        return nvidia.for_opencl()
    return _described(GpuMachine.preset(_USUAL_GPU, threads=threads).for_opencl(), name, device)


def _described(usual: GpuMachine, name: str, device: Mapping[str, Any]) -> GpuMachine:
    """Return a GPU as OpenCL tells of it, and as the usual one where it does not."""
    multiprocessors = int(device.get("compute_units", 0)) or usual.multiprocessors
    clock_hz = 1e6 * float(device.get("clock_mhz", 0)) or usual.clock_hz
    stated = replace(usual, name=name, multiprocessors=multiprocessors, clock_hz=clock_hz)
    return replace(
        stated,
        capability=_limited(usual.capability, device),
        memory_bytes_per_second=MEMORY_SHARE * stated.l2_bytes_per_second,
    )


def _limited(usual: ComputeCapability, device: Mapping[str, Any]) -> ComputeCapability:
    """Return what a block may have of a device."""
    threads = int(device.get("max_threads_per_block", 0)) or usual.max_threads_per_block
    local_bytes = int(device.get("local_bytes", 0)) or usual.shared_bytes_per_block
    return replace(
        usual,
        max_threads_per_block=min(threads, usual.max_threads_per_block),
        shared_bytes_per_block=min(local_bytes, usual.shared_bytes_per_block),
        max_shared_bytes_per_block=min(local_bytes, usual.max_shared_bytes_per_block),
    )


@functools.cache
def _ask(libraries: tuple[str, ...], limit_seconds: float) -> tuple[tuple[Mapping[str, Any], ...], ...]:
    """Return the devices of each platform; none where the loader does not answer."""
    child = Path(__file__).with_name("opencl_child.py")
    command = [sys.executable, "-I", str(child), *libraries]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=limit_seconds, check=True
        )
        # The last line; what is before it is a driver's own.
        return tuple(map(tuple, json.loads(done.stdout.strip().split("\n")[-1])))
    except (subprocess.SubprocessError, json.JSONDecodeError):
        return ()
