"""The description of a GPU that the search and the cost model work from.

Nothing is measured yet: the numbers are those of data sheets, under the names of presets. An OpenCL device on a CPU is
described in the same words, so that GPU schedules can be tried without a GPU.
"""

import os
from dataclasses import dataclass, fields

from metol.errors import MachineFormatError

__all__ = ["GpuMachine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMachine:
    """A GPU, in the words of CUDA."""

    name: str
    """Model of the GPU."""
    multiprocessors: int
    """Streaming multiprocessors; compute units to OpenCL."""
    lanes: int
    """32-bit operations that one multiprocessor completes in a cycle."""
    clock_hz: float
    """Clock while it computes."""
    memory_bytes_per_second: float
    """Between memory and the last cache."""
    l2_bytes_per_second: float
    """Between the last cache and all multiprocessors together."""
    l1_bytes_per_cycle: int
    """Between the first cache and the threads of one multiprocessor."""
    warp_threads: int = 32
    """Threads that run in step; their accesses to memory are merged into sectors."""
    sector_bytes: int = 32
    """The least that an access to memory brings in."""
    max_threads_per_block: int = 1024
    """Threads of a block."""
    max_threads_per_multiprocessor: int
    """Threads that a multiprocessor holds at once."""
    max_blocks_per_multiprocessor: int
    """Blocks that a multiprocessor holds at once."""
    warps_to_hide_latency: float = 16.0
    """Warps that keep a multiprocessor busy: four schedulers, each of which waits four cycles for a result."""
    launch_seconds: float = 3e-6
    """From one kernel to the next."""
    host_threads: int = 1
    """Threads of the CPU beside it: those that search, and run what cannot run on the GPU."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name != "name" and not value > 0:
                raise MachineFormatError(f"`{item.name}` of a GPU must be positive, not {value}.")

    @staticmethod
    def preset(name: str, *, threads: int | None = None) -> "GpuMachine":
        """Return a machine by the name of its preset.

        Args:
            name: ``rtx-2080-ti``, ``a100`` or ``opencl-cpu``, which is an OpenCL device on the CPU of this machine.
            threads: Threads of the CPU to use; all that this process may run on if None.

        Raises:
            MachineFormatError: There is no preset of that name.
        """
        host_threads = threads or len(os.sched_getaffinity(0))
        if name == "rtx-2080-ti":
            return GpuMachine(
                name="NVIDIA GeForce RTX 2080 Ti", multiprocessors=68, lanes=64, clock_hz=1.545e9,
                memory_bytes_per_second=616e9, l2_bytes_per_second=1.9e12, l1_bytes_per_cycle=64,
                max_threads_per_multiprocessor=1024, max_blocks_per_multiprocessor=16, host_threads=host_threads,
            )  # fmt: skip
        if name == "a100":
            return GpuMachine(
                name="NVIDIA A100 40 GB", multiprocessors=108, lanes=64, clock_hz=1.41e9,
                memory_bytes_per_second=1555e9, l2_bytes_per_second=4e12, l1_bytes_per_cycle=128,
                max_threads_per_multiprocessor=2048, max_blocks_per_multiprocessor=32, host_threads=host_threads,
            )  # fmt: skip
        if name == "opencl-cpu":
            # A core runs one work-group after the other, its work-items as the lanes of vectors; caches have lines.
            return GpuMachine(
                name="OpenCL on a CPU", multiprocessors=host_threads, lanes=8, clock_hz=3e9,
                memory_bytes_per_second=1e10, l2_bytes_per_second=3e10 * host_threads, l1_bytes_per_cycle=64,
                warp_threads=8, sector_bytes=64, max_threads_per_multiprocessor=1024,
                max_blocks_per_multiprocessor=1, warps_to_hide_latency=1, launch_seconds=5e-5,
                host_threads=host_threads,
            )  # fmt: skip
        raise MachineFormatError(f"There is no GPU preset `{name}`; there are rtx-2080-ti, a100 and opencl-cpu.")
