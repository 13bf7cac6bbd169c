"""The description of a GPU that the search and the cost model work from.

Nothing is measured: the numbers are those of data sheets, by name, or the driver's. An OpenCL device on a CPU is
described in the same words, so that GPU schedules can be tried without a GPU.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from metol.destinations import write_text
from metol.errors import MachineFormatError
from metol.targets.gpu.compute_capability import ComputeCapability
from metol.targets.gpu.devices import LAUNCH_SECONDS, find_device
from metol.targets.gpu.occupancy import Occupancy, occupancy

__all__ = ["GpuMachine"]

_FORMAT: Final = "metol gpu"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMachine:
    """A GPU, in the words of CUDA."""

    name: str
    """Model of the GPU."""
    capability: ComputeCapability
    """What one multiprocessor holds, and does in a cycle."""
    multiprocessors: int
    """Streaming multiprocessors; compute units to OpenCL."""
    clock_hz: float
    """Clock while it computes."""
    memory_bytes_per_second: float
    """Between memory and the last cache."""
    l2_bytes: int
    """The last cache."""
    launch_seconds: float = LAUNCH_SECONDS
    """From one kernel to the next."""
    host_threads: int = 1
    """Threads of the CPU beside it: those that search, and run what cannot run on the GPU."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int | float) and not value > 0:
                raise MachineFormatError(f"`{item.name}` of a GPU must be positive, not {value}.")

    @staticmethod
    def preset(name: str, *, threads: int | None = None) -> "GpuMachine":
        """Return a machine by its name.

        Args:
            name: One of the names in docs/gpu_devices.md, such as ``rtx2080ti``; ``opencl-cpu`` is an OpenCL device on
                the CPU of this machine. Case, hyphens, underscores and spaces do not count.
            threads: Threads of the CPU to use; all that this process may run on if None.

        Raises:
            MachineFormatError: There is none of that name; the message lists all there are.
        """
        device = find_device(name)
        host_threads = threads or len(os.sched_getaffinity(0))
        return GpuMachine(
            name=device.title,
            capability=device.capability,
            multiprocessors=device.multiprocessors or host_threads,
            clock_hz=device.clock_hz,
            memory_bytes_per_second=device.memory_bytes_per_second,
            l2_bytes=device.l2_bytes,
            launch_seconds=device.launch_seconds,
            host_threads=host_threads,
        )

    def for_opencl(self) -> "GpuMachine":
        """Return the same GPU as OpenCL shows it: one with no compute capability."""
        return replace(self, capability=replace(self.capability, version=None))

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all that describes the GPU; not over the CPU beside it."""
        described = {**asdict(self), "host_threads": 0}
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Return the description as versioned JSON."""
        return json.dumps({"format": _FORMAT, "version": _VERSION, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: str) -> "GpuMachine":
        """Read a description.

        Raises:
            MachineFormatError: The text is not JSON, not a GPU, of another version, or has a bad value.
        """
        try:
            content = json.loads(text)
            form, version = content.pop("format"), content.pop("version")
            if (form, version) != (_FORMAT, _VERSION):
                raise MachineFormatError(
                    f"This is `{form}` of version {version}; Metol reads `{_FORMAT}` of version {_VERSION}."
                )
            return GpuMachine(**{**content, "capability": _capability_of(content["capability"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MachineFormatError(f"A description of a GPU cannot be read: {error}.") from error

    def save(self, path: str | Path) -> None:
        """Write the description to a file."""
        write_text(Path(path), self.to_json())

    @property
    def lanes(self) -> int:
        """32-bit operations that one multiprocessor completes in a cycle."""
        return self.capability.lanes

    @property
    def warp_threads(self) -> int:
        """Threads that run in step; their accesses to memory are merged into sectors."""
        return self.capability.warp_threads

    @property
    def sector_bytes(self) -> int:
        """The least that an access to memory brings in."""
        return self.capability.sector_bytes

    @property
    def l1_bytes_per_cycle(self) -> int:
        """Between the first cache and the threads of one multiprocessor."""
        return self.capability.l1_bytes_per_cycle

    @property
    def l2_bytes_per_second(self) -> float:
        """Between the last cache and all multiprocessors together."""
        return self.multiprocessors * self.capability.l2_bytes_per_cycle * self.clock_hz

    @property
    def max_threads_per_block(self) -> int:
        """Threads of a block."""
        return self.capability.max_threads_per_block

    @property
    def max_threads_per_multiprocessor(self) -> int:
        """Threads that a multiprocessor holds at once."""
        return self.capability.max_threads_per_multiprocessor

    @property
    def max_blocks_per_multiprocessor(self) -> int:
        """Blocks that a multiprocessor holds at once."""
        return self.capability.max_blocks_per_multiprocessor

    @property
    def warps_to_hide_latency(self) -> float:
        """Warps that keep a multiprocessor busy."""
        return self.capability.warps_to_hide_latency

    @property
    def registers_per_multiprocessor(self) -> int:
        """32-bit registers of a multiprocessor."""
        return self.capability.registers_per_multiprocessor

    @property
    def max_registers_per_block(self) -> int:
        """32-bit registers of a block."""
        return self.capability.max_registers_per_block

    @property
    def max_registers_per_thread(self) -> int:
        """32-bit registers of a thread."""
        return self.capability.max_registers_per_thread

    @property
    def shared_bytes_per_block(self) -> int:
        """Shared memory of a block: 48 KB on every GPU, as Halide's kernels never opt in to more."""
        return min(self.capability.shared_bytes_per_block, self.capability.max_shared_bytes_per_block)

    @property
    def shared_bytes_per_multiprocessor(self) -> int:
        """Shared memory of a multiprocessor that is set to have the most."""
        return self.capability.shared_bytes_per_multiprocessor

    @property
    def halide_feature(self) -> str:
        """The feature of a Halide target that fits the device, such as ``cuda_capability_86``, or ``opencl``."""
        return self.capability.halide_feature

    def occupancy(
        self, threads_per_block: int, *, registers_per_thread: int | None = None, shared_bytes_per_block: int = 0
    ) -> Occupancy:
        """Count the blocks of one of Halide's kernels that a multiprocessor holds.

        Args:
            threads_per_block: Threads of a block.
            registers_per_thread: Registers of a thread; None where they are unknown, and limit nothing then.
            shared_bytes_per_block: Shared memory of a block; with more than `shared_bytes_per_block` of this machine
                the kernel cannot be launched.

        Raises:
            OccupancyError: A number is not positive.
        """
        # The calculator goes by what a kernel that opts in could have.
        usual = replace(self.capability, max_shared_bytes_per_block=self.shared_bytes_per_block)
        return occupancy(
            usual,
            threads_per_block=threads_per_block,
            registers_per_thread=registers_per_thread,
            shared_bytes_per_block=shared_bytes_per_block,
        )


def _capability_of(content: dict[str, Any]) -> ComputeCapability:
    version = content["version"]
    return ComputeCapability(
        **{
            **content,
            "version": None if version is None else tuple(version),
            "shared_bytes_choices": tuple(content["shared_bytes_choices"]),
        }
    )
