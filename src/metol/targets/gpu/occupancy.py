"""How many blocks of a kernel a multiprocessor holds at once, and what keeps out another.

Enter: limits, and what one block takes. Leaves: an `Occupancy`. Source: NVIDIA's CUDA occupancy calculator, the sheet
"Calculator": warps are handed registers, blocks shared memory, both in grains.
"""

from dataclasses import dataclass
from enum import Enum

from metol.errors import OccupancyError
from metol.targets.gpu.compute_capability import ComputeCapability

__all__ = ["Limit", "Occupancy", "occupancy"]


class Limit(Enum):
    """What runs out first."""

    THREADS = "threads per block"
    """The block has more threads than any block may have."""
    WARPS = "warps"
    BLOCKS = "blocks"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared memory"


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What a multiprocessor holds of a kernel."""

    blocks: int
    """Blocks at once; 0 where the kernel cannot be launched at all."""
    warps: int
    """Warps of these blocks."""
    share: float
    """Of the warps that a multiprocessor could hold."""
    limits: tuple[Limit, ...]
    """What keeps out one more block, each of them by itself; at least one."""


def occupancy(
    capability: ComputeCapability,
    *,
    threads_per_block: int,
    registers_per_thread: int | None = None,
    shared_bytes_per_block: int = 0,
    shared_bytes_per_multiprocessor: int | None = None,
) -> Occupancy:
    """Count the blocks that a multiprocessor holds.

    Args:
        capability: The limits.
        threads_per_block: Threads of a block; the last warp may be partly empty.
        registers_per_thread: As ``ptxas`` reports them; None where they are unknown, and limit nothing then.
        shared_bytes_per_block: Static and dynamic shared memory together, without what the system reserves.
        shared_bytes_per_multiprocessor: One of the capability's choices; the largest if None.

    Returns:
        The occupancy: of 0 blocks where a block is larger than blocks may be.

    Raises:
        OccupancyError: A number is not positive, or there is no such choice of shared memory.
    """
    available_bytes = capability.shared_bytes_per_multiprocessor
    if shared_bytes_per_multiprocessor is not None:
        available_bytes = shared_bytes_per_multiprocessor
    _check(capability, threads_per_block, registers_per_thread, shared_bytes_per_block, available_bytes)
    warps = -(-threads_per_block // capability.warp_threads)
    blocks_by = {
        Limit.WARPS: capability.max_warps_per_multiprocessor // warps,
        Limit.BLOCKS: capability.max_blocks_per_multiprocessor,
    }
    if threads_per_block > capability.max_threads_per_block:
        blocks_by[Limit.THREADS] = 0
    if registers_per_thread is not None:
        blocks_by[Limit.REGISTERS] = _blocks_by_registers(capability, warps, registers_per_thread)
    if shared_bytes_per_block + capability.reserved_shared_bytes > 0:
        blocks_by[Limit.SHARED_MEMORY] = _blocks_by_shared_memory(capability, shared_bytes_per_block, available_bytes)
    blocks = min(blocks_by.values())
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        share=blocks * warps / capability.max_warps_per_multiprocessor,
        limits=tuple(limit for limit in Limit if blocks_by.get(limit) == blocks),
    )


def _check(
    capability: ComputeCapability, threads: int, registers: int | None, shared_bytes: int, available_bytes: int
) -> None:
    if threads <= 0:
        raise OccupancyError(
            f"A block has 1 thread at least, and `threads_per_block` is {threads}; pass the product of the extents of "
            "its thread loops."
        )
    if registers is not None and registers <= 0:
        raise OccupancyError(
            f"A thread has 1 register at least, and `registers_per_thread` is {registers}; pass what ptxas reports, or "
            "None where nothing is known."
        )
    if shared_bytes < 0:
        raise OccupancyError(
            f"`shared_bytes_per_block` is {shared_bytes}; pass the bytes of a block, 0 where it has no shared memory."
        )
    if available_bytes not in capability.shared_bytes_choices:
        raise OccupancyError(
            f"A multiprocessor of compute capability {capability} cannot set aside {available_bytes} bytes as shared "
            f"memory; choose among {', '.join(map(str, capability.shared_bytes_choices))}."
        )


def _blocks_by_registers(capability: ComputeCapability, warps: int, registers: int) -> int:
    """Blocks that find registers; each file is filled by itself."""
    if registers > capability.max_registers_per_thread:
        return 0
    registers_per_warp = _round_up(registers * capability.warp_threads, capability.register_unit)
    warps_of_file = _round_down(capability.max_registers_per_block // registers_per_warp, capability.warp_unit)
    files = capability.registers_per_multiprocessor // capability.max_registers_per_block
    return warps_of_file // warps * files


def _blocks_by_shared_memory(capability: ComputeCapability, shared_bytes: int, available_bytes: int) -> int:
    """Blocks that find shared memory."""
    if shared_bytes > capability.max_shared_bytes_per_block:
        return 0
    taken_bytes = shared_bytes + capability.reserved_shared_bytes
    return available_bytes // _round_up(taken_bytes, capability.shared_unit_bytes)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _round_down(value: int, unit: int) -> int:
    return value // unit * unit
