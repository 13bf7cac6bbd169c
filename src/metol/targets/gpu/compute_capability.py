"""What a multiprocessor holds at once, by compute capability.

Enters: a version, such as (8, 6). Leaves: limits, the grains in which registers and shared memory are handed out, and
what a multiprocessor does in a cycle. Source: CUDA C++ programming guide, "Compute capabilities"; CUDA occupancy
calculator, "GPU data".
"""

from dataclasses import dataclass, fields, replace
from typing import Final

from metol.errors import MachineFormatError

__all__ = ["CAPABILITIES", "OPENCL", "ComputeCapability", "compute_capability"]

_KIB: Final = 1024
# The same for every version.
_WARP_THREADS: Final = 32
_REGISTERS: Final = 64 * _KIB
_SHARED_BYTES_PER_BLOCK: Final = 48 * _KIB

# Versions from 5.0 on that Halide 21 has a feature for.
_HALIDE_VERSIONS: Final = ((5, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCapability:
    """The limits of one compute capability."""

    version: tuple[int, int] | None
    """Major and minor; None for a device that is none of CUDA's."""
    warp_threads: int = _WARP_THREADS
    """Threads that run in step; their accesses to memory are merged into sectors."""
    sector_bytes: int = 32
    """The least that an access to memory brings in."""
    max_threads_per_block: int = 1024
    """Threads of a block."""
    max_warps_per_multiprocessor: int
    """Warps that a multiprocessor holds at once."""
    max_blocks_per_multiprocessor: int
    """Blocks that a multiprocessor holds at once."""
    warps_to_hide_latency: float = 16.0
    """Warps that keep a multiprocessor busy: four schedulers, each of which waits four cycles for a result."""

    registers_per_multiprocessor: int = _REGISTERS
    """32-bit registers."""
    max_registers_per_block: int = _REGISTERS
    """Registers of a block. A multiprocessor with more has several files of this size, and a block lies in one."""
    max_registers_per_thread: int = 255
    """Registers that an instruction can name."""
    register_unit: int = 256
    """Registers are handed to warps in multiples of this."""
    warp_unit: int = 4
    """Warps that find registers are a multiple of this: one for each partition of the multiprocessor."""

    shared_bytes_choices: tuple[int, ...]
    """What of the first cache may be set aside as shared memory of a multiprocessor, ascending."""
    shared_bytes_per_block: int = _SHARED_BYTES_PER_BLOCK
    """Shared memory of a block whose kernel asks for no more than the usual."""
    max_shared_bytes_per_block: int
    """Shared memory of a block whose kernel has opted in to more. Halide's kernels never do."""
    shared_unit_bytes: int
    """Shared memory is handed to blocks in multiples of this."""
    reserved_shared_bytes: int = 0
    """Shared memory that each block loses to the system."""

    lanes: int
    """32-bit floating-point operations that a multiprocessor completes in a cycle."""
    l1_bytes: int
    """The first cache of a multiprocessor; from 7.0 on with the shared memory that is taken from it."""
    l1_bytes_per_cycle: int
    """Between the first cache and the threads of a multiprocessor."""
    l2_bytes_per_cycle: int
    """Between the last cache and one multiprocessor, while all of them ask."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int | float) and value <= 0 and item.name != "reserved_shared_bytes":
                raise MachineFormatError(f"`{item.name}` of a compute capability must be positive, not {value}.")
        if not self.shared_bytes_choices or tuple(sorted(self.shared_bytes_choices)) != self.shared_bytes_choices:
            raise MachineFormatError(
                f"`shared_bytes_choices` must be ascending, with one size at least, not {self.shared_bytes_choices}."
            )

    @property
    def max_threads_per_multiprocessor(self) -> int:
        """Threads that a multiprocessor holds at once."""
        return self.max_warps_per_multiprocessor * self.warp_threads

    @property
    def shared_bytes_per_multiprocessor(self) -> int:
        """The most shared memory that a multiprocessor can be set to have."""
        return self.shared_bytes_choices[-1]

    @property
    def is_shared_in_l1(self) -> bool:
        """Whether shared memory is a part of the first cache."""
        return self.version is not None and self.version >= (7, 0)

    @property
    def halide_feature(self) -> str:
        """The feature of a Halide target that says what the device can do, such as ``cuda_capability_86``.

        It is that of the greatest version not above this one: Halide 21 knows none after 8.6, whose code runs on all
        that came later.
        """
        if self.version is None:
            return "opencl"
        major, minor = max(version for version in _HALIDE_VERSIONS if version <= self.version)
        return f"cuda_capability_{major}{minor}"

    @property
    def architecture(self) -> str:
        """What NVIDIA's assembler calls it, such as ``sm_86``.

        Raises:
            MachineFormatError: It is no version of CUDA's.
        """
        if self.version is None:
            raise MachineFormatError("An OpenCL device has no CUDA architecture; use the target `host-opencl` for it.")
        return "sm_{}{}".format(*self.version)

    def __str__(self) -> str:
        return "OpenCL" if self.version is None else "{}.{}".format(*self.version)


# All but the caches' bytes a cycle is from the sources above; the choice of no shared memory at all, which 7.0 and all
# from 8.0 on have, is left out. The first cache gives 32 banks of 4 bytes where it is one with shared memory, and half
# of that before and on 7.5. For the last cache there is no data sheet: its numbers are estimates, the best known of
# them those of 7.0, 7.5, 8.0 and 9.0.
#
# fmt: off
_TABLE: Final = (
    # version, warps, blocks, KiB of registers of a block, warp unit,
    # KiB of shared memory that a multiprocessor and a block may have, its unit in bytes, bytes reserved,
    # lanes, bytes a cycle of the first cache and of the last
    ((5, 0), 64, 32, 64, 4, (64,), 48, 256, 0, 128, 64, 32),
    ((5, 2), 64, 32, 64, 4, (96,), 48, 256, 0, 128, 64, 32),
    ((5, 3), 64, 32, 32, 4, (64,), 48, 256, 0, 128, 64, 32),
    ((6, 0), 64, 32, 64, 2, (64,), 48, 256, 0, 64, 64, 20),
    ((6, 1), 64, 32, 64, 4, (96,), 48, 256, 0, 128, 64, 32),
    ((6, 2), 64, 32, 32, 4, (64,), 48, 256, 0, 128, 64, 32),
    ((7, 0), 64, 32, 64, 4, (8, 16, 32, 64, 96), 96, 256, 0, 64, 128, 18),
    ((7, 2), 64, 32, 64, 4, (8, 16, 32, 64, 96), 96, 256, 0, 64, 128, 16),
    ((7, 5), 32, 16, 64, 4, (32, 64), 64, 256, 0, 64, 64, 18),
    ((8, 0), 64, 32, 64, 4, (8, 16, 32, 64, 100, 132, 164), 163, 128, 1024, 64, 128, 26),
    ((8, 6), 48, 16, 64, 4, (8, 16, 32, 64, 100), 99, 128, 1024, 128, 128, 16),
    ((8, 7), 48, 16, 64, 4, (8, 16, 32, 64, 100, 132, 164), 163, 128, 1024, 128, 128, 16),
    ((8, 9), 48, 24, 64, 4, (8, 16, 32, 64, 100), 99, 128, 1024, 128, 128, 16),
    ((9, 0), 64, 32, 64, 4, (8, 16, 32, 64, 100, 132, 164, 196, 228), 227, 128, 1024, 128, 128, 21),
)
# fmt: on
# KiB of the first cache: "unified data cache" or "L1/texture cache" there.
_L1_KIB: Final = {
    (5, 0): 24,
    (5, 2): 24,
    (5, 3): 24,
    (6, 0): 24,
    (6, 1): 48,
    (6, 2): 24,
    (7, 0): 128,
    (7, 2): 128,
    (7, 5): 96,
    (8, 0): 192,
    (8, 6): 128,
    (8, 7): 192,
    (8, 9): 128,
    (9, 0): 256,
}  # fmt: skip

CAPABILITIES: Final = tuple(
    ComputeCapability(
        version=version,
        max_warps_per_multiprocessor=warps,
        max_blocks_per_multiprocessor=blocks,
        max_registers_per_block=registers * _KIB,
        warp_unit=warp_unit,
        shared_bytes_choices=tuple(size * _KIB for size in choices),
        max_shared_bytes_per_block=shared * _KIB,
        shared_unit_bytes=shared_unit,
        reserved_shared_bytes=reserved,
        lanes=lanes,
        l1_bytes=_L1_KIB[version] * _KIB,
        l1_bytes_per_cycle=l1,
        l2_bytes_per_cycle=l2,
    )
    for version, warps, blocks, registers, warp_unit, choices, shared, shared_unit, reserved, lanes, l1, l2 in _TABLE
)
"""Every version from 5.0 to 9.0, ascending."""

OPENCL: Final = ComputeCapability(
    version=None,
    # A core runs one work-group after the other, its work-items as the lanes of vectors; caches have lines.
    warp_threads=8,
    sector_bytes=64,
    max_warps_per_multiprocessor=128,
    max_blocks_per_multiprocessor=1,
    warps_to_hide_latency=1,
    # What does not fit the registers of a core is on its stack: the largest block finds room with all it can name.
    registers_per_multiprocessor=_KIB * _KIB,
    max_registers_per_block=_KIB * _KIB,
    register_unit=8,
    warp_unit=1,
    # Local memory as OpenCL 1.2 guarantees it.
    shared_bytes_choices=(32 * _KIB,),
    shared_bytes_per_block=32 * _KIB,
    max_shared_bytes_per_block=32 * _KIB,
    shared_unit_bytes=64,
    lanes=8,
    l1_bytes=32 * _KIB,
    l1_bytes_per_cycle=64,
    l2_bytes_per_cycle=10,
)
"""An OpenCL device of which nothing is known but that it is a CPU."""


def compute_capability(major: int, minor: int) -> ComputeCapability:
    """Return the limits of a version; for one that is not in the table, those of the greatest below it.

    Raises:
        MachineFormatError: The version is below 5.0.
    """
    known = [capability for capability in CAPABILITIES if capability.version and capability.version <= (major, minor)]
    if not known:
        raise MachineFormatError(
            f"Metol describes GPUs of compute capability 5.0 and above, and this is {major}.{minor}; describe it by a "
            "`ComputeCapability` of its own."
        )
    return replace(known[-1], version=(major, minor))
