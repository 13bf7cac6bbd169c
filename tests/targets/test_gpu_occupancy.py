"""The CUDA occupancy calculator: rows worked out by hand from its formulas, and what holds for any kernel.

A warp takes 256 registers for each 8 of a thread that have begun, and partitions have equal numbers of warps. So a file
of 65536 has room for 64 warps of 32 registers, 48 of 40, 40 of 48, 32 of 64, 28 of 72, 16 of 128, 12 of 168, 8 of 255.
"""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metol.errors import OccupancyError
from metol.targets.gpu import CAPABILITIES, OPENCL, ComputeCapability, GpuMachine, Limit, compute_capability, occupancy

THREADS, WARPS, BLOCKS, REGISTERS, SHARED = Limit
KIB = 1024

# capability, threads of a block, registers of a thread, shared bytes of a block: blocks, warps, limits
TABLE = [
    # 64 warps, 32 blocks, 64 KiB
    ((5, 0), 256, 32, 0, 8, 64, (WARPS, REGISTERS)),
    ((5, 0), 32, 16, 0, 32, 32, (BLOCKS,)),
    ((5, 0), 256, 32, 12 * KIB, 5, 40, (SHARED,)),
    ((5, 0), 128, 37, 0, 12, 48, (REGISTERS,)),
    ((5, 0), 256, 48, 0, 5, 40, (REGISTERS,)),
    # 96 KiB, by 256 bytes
    ((5, 2), 256, 32, 12 * KIB, 8, 64, (WARPS, REGISTERS, SHARED)),
    ((5, 2), 256, 32, 12 * KIB + 1, 7, 56, (SHARED,)),
    # two files of 32768 registers
    ((5, 3), 256, 48, 0, 4, 32, (REGISTERS,)),
    ((5, 3), 1024, 32, 0, 2, 64, (WARPS, REGISTERS)),
    ((5, 3), 1024, 33, 0, 0, 0, (REGISTERS,)),
    # warps by twos
    ((6, 0), 64, 40, 0, 25, 50, (REGISTERS,)),
    ((6, 0), 192, 48, 0, 7, 42, (REGISTERS,)),
    ((6, 0), 512, 32, 32 * KIB, 2, 32, (SHARED,)),
    ((6, 1), 1024, 32, 0, 2, 64, (WARPS, REGISTERS)),
    ((6, 1), 100, 32, 0, 16, 64, (WARPS, REGISTERS)),
    ((6, 1), 128, 16, 48 * KIB, 2, 8, (SHARED,)),
    ((6, 1), 512, 128, 0, 1, 16, (REGISTERS,)),
    # two files again
    ((6, 2), 256, 64, 0, 4, 32, (REGISTERS,)),
    ((6, 2), 512, 128, 0, 0, 0, (REGISTERS,)),
    # CUDA C++ best practices guide, "Calculating occupancy": 75 % and 63 % with 37 registers
    ((7, 0), 128, 37, 0, 12, 48, (REGISTERS,)),
    ((7, 0), 320, 37, 0, 4, 40, (REGISTERS,)),
    ((7, 0), 64, 40, 0, 24, 48, (REGISTERS,)),
    ((7, 0), 192, 48, 0, 6, 36, (REGISTERS,)),
    ((7, 0), 256, 255, 0, 1, 8, (REGISTERS,)),
    ((7, 0), 288, 255, 0, 0, 0, (REGISTERS,)),
    ((7, 0), 32, 256, 0, 0, 0, (REGISTERS,)),
    ((7, 0), 256, 32, 96 * KIB, 1, 8, (SHARED,)),
    ((7, 0), 256, 32, 96 * KIB + 1, 0, 0, (SHARED,)),
    ((7, 0), 1024, 64, 0, 1, 32, (REGISTERS,)),
    ((7, 0), 1025, 32, 0, 0, 0, (THREADS,)),
    ((7, 0), 64, 16, 1, 32, 64, (WARPS, BLOCKS)),
    ((7, 2), 256, 40, 24 * KIB, 4, 32, (SHARED,)),
    # 32 warps, 16 blocks, 64 KiB
    ((7, 5), 256, 32, 0, 4, 32, (WARPS,)),
    ((7, 5), 32, 32, 0, 16, 16, (BLOCKS,)),
    ((7, 5), 64, 64, 0, 16, 32, (WARPS, BLOCKS, REGISTERS)),
    ((7, 5), 256, 32, 16 * KIB, 4, 32, (WARPS, SHARED)),
    ((7, 5), 256, 32, 16 * KIB + 1, 3, 24, (SHARED,)),
    ((7, 5), 1024, 64, 0, 1, 32, (WARPS, REGISTERS)),
    ((7, 5), 512, 72, 0, 1, 16, (REGISTERS,)),
    # 64 warps, 32 blocks, 164 KiB, of which each block takes one more than it asks for
    ((8, 0), 256, 32, 0, 8, 64, (WARPS, REGISTERS)),
    ((8, 0), 32, 32, 0, 32, 32, (BLOCKS,)),
    ((8, 0), 128, 32, 16 * KIB, 9, 36, (SHARED,)),
    ((8, 0), 256, 32, 48 * KIB, 3, 24, (SHARED,)),
    ((8, 0), 1024, 32, 163 * KIB, 1, 32, (SHARED,)),
    ((8, 0), 1024, 32, 163 * KIB + 1, 0, 0, (SHARED,)),
    ((8, 0), 256, 168, 0, 1, 8, (REGISTERS,)),
    # 48 warps, 16 blocks, 100 KiB
    ((8, 6), 256, 32, 0, 6, 48, (WARPS,)),
    ((8, 6), 32, 32, 0, 16, 16, (BLOCKS,)),
    ((8, 6), 1024, 32, 0, 1, 32, (WARPS,)),
    ((8, 6), 128, 48, 8 * KIB, 10, 40, (REGISTERS,)),
    ((8, 6), 128, 40, 8 * KIB, 11, 44, (SHARED,)),
    ((8, 6), 256, 32, 48 * KIB, 2, 16, (SHARED,)),
    ((8, 6), 768, 40, 0, 2, 48, (WARPS, REGISTERS)),
    ((8, 7), 256, 32, 48 * KIB, 3, 24, (SHARED,)),
    # 24 blocks
    ((8, 9), 32, 32, 0, 24, 24, (BLOCKS,)),
    ((8, 9), 64, 32, 0, 24, 48, (WARPS, BLOCKS)),
    ((8, 9), 192, 64, 0, 5, 30, (REGISTERS,)),
    # 228 KiB
    ((9, 0), 256, 32, 27 * KIB, 8, 64, (WARPS, REGISTERS, SHARED)),
    ((9, 0), 256, 32, 48 * KIB, 4, 32, (SHARED,)),
    ((9, 0), 128, 128, 0, 4, 16, (REGISTERS,)),
    ((9, 0), 384, 168, 0, 1, 12, (REGISTERS,)),
    ((9, 0), 1024, 64, 0, 1, 32, (REGISTERS,)),
    ((9, 0), 256, 24, 0, 8, 64, (WARPS,)),
]


@pytest.mark.parametrize(("version", "threads", "registers", "shared_bytes", "blocks", "warps", "limits"), TABLE)
def test_occupancy_is_that_of_the_calculator(
    version: tuple[int, int],
    threads: int,
    registers: int,
    shared_bytes: int,
    blocks: int,
    warps: int,
    limits: tuple[Limit, ...],
) -> None:
    capability = compute_capability(*version)
    found = occupancy(
        capability, threads_per_block=threads, registers_per_thread=registers, shared_bytes_per_block=shared_bytes
    )
    assert (found.blocks, found.warps, found.limits) == (blocks, warps, limits)
    assert found.share == warps / capability.max_warps_per_multiprocessor


def test_registers_that_are_unknown_limit_nothing() -> None:
    assert occupancy(compute_capability(7, 0), threads_per_block=64).limits == (WARPS, BLOCKS)


@pytest.mark.parametrize(("kib", "blocks"), [(32, 2), (64, 4), (None, 4)])
def test_shared_memory_that_is_set_aside_limits_blocks(kib: int | None, blocks: int) -> None:
    chosen = None if kib is None else kib * KIB
    found = occupancy(
        compute_capability(7, 5),
        threads_per_block=64,
        shared_bytes_per_block=16 * KIB,
        shared_bytes_per_multiprocessor=chosen,
    )
    assert found.blocks == blocks


def test_halides_kernels_have_48_kib_at_most() -> None:
    machine = GpuMachine.preset("a100", threads=1)
    most = machine.shared_bytes_per_block
    assert most == 48 * KIB
    assert machine.occupancy(256, shared_bytes_per_block=most).blocks == 3
    refused = machine.occupancy(256, shared_bytes_per_block=most + 1)
    assert (refused.blocks, refused.limits) == (0, (SHARED,))
    assert machine.occupancy(288, registers_per_thread=255).blocks == 0


def test_a_core_runs_one_work_group() -> None:
    assert occupancy(OPENCL, threads_per_block=1024, registers_per_thread=255).blocks == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads_per_block": 0}, "`threads_per_block` is 0; pass the product"),
        ({"threads_per_block": 32, "registers_per_thread": 0}, "`registers_per_thread` is 0; pass what ptxas"),
        ({"threads_per_block": 32, "shared_bytes_per_block": -1}, "`shared_bytes_per_block` is -1; pass the bytes"),
        (
            {"threads_per_block": 32, "shared_bytes_per_multiprocessor": 48 * KIB},
            "capability 7.5 cannot set aside 49152 bytes as shared memory; choose among 32768, 65536",
        ),
    ],
)
def test_what_cannot_be_a_kernel_is_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(OccupancyError, match=message):
        occupancy(compute_capability(7, 5), **arguments)  # type: ignore[arg-type]


capabilities = st.sampled_from([*CAPABILITIES, OPENCL])
threads = st.integers(1, 1100)
registers = st.integers(1, 260)
shared = st.integers(0, 240 * KIB)


@given(
    capabilities,
    threads,
    registers,
    shared,
    st.tuples(st.integers(0, 600), st.integers(0, 64), st.integers(0, 64 * KIB)),
)
def test_a_block_that_takes_more_is_held_no_more_often(
    capability: ComputeCapability, threads: int, registers: int, shared: int, more: tuple[int, int, int]
) -> None:
    def blocks(more_threads: int = 0, more_registers: int = 0, more_shared: int = 0) -> int:
        return occupancy(
            capability,
            threads_per_block=threads + more_threads,
            registers_per_thread=registers + more_registers,
            shared_bytes_per_block=shared + more_shared,
        ).blocks

    least = blocks(*more)
    for one in ((more[0], 0, 0), (0, more[1], 0), (0, 0, more[2])):
        assert least <= blocks(*one) <= blocks()


@given(capabilities, threads, registers, shared)
def test_what_binds_is_what_keeps_out_a_block(
    capability: ComputeCapability, threads: int, registers: int, shared: int
) -> None:
    given_all = partial(
        occupancy, threads_per_block=threads, registers_per_thread=registers, shared_bytes_per_block=shared
    )
    found = given_all(capability)
    assert found.limits
    assert 0 <= found.share <= 1
    assert found.warps == found.blocks * -(-threads // capability.warp_threads)
    roomier = replace(
        capability,
        max_warps_per_multiprocessor=1000 * capability.max_warps_per_multiprocessor,
        max_blocks_per_multiprocessor=1000 * capability.max_blocks_per_multiprocessor,
    )
    if not {WARPS, BLOCKS} & set(found.limits):
        assert given_all(roomier).blocks == found.blocks
    if set(found.limits) <= {WARPS, BLOCKS}:
        assert given_all(roomier).blocks > found.blocks


@given(st.sampled_from(CAPABILITIES), st.integers(1, 1024), st.integers(1, 255))
def test_registers_are_handed_out_by_partition(capability: ComputeCapability, threads: int, registers: int) -> None:
    """Each partition of a file has its share of the registers, and warps go to the partitions in turn."""
    plenty = replace(
        capability,
        max_warps_per_multiprocessor=10**6,
        max_blocks_per_multiprocessor=10**6,
        reserved_shared_bytes=0,
    )
    free = [capability.max_registers_per_block // capability.warp_unit] * capability.warp_unit
    warps = 0
    while free[warps % len(free)] >= (taken := -(-registers // 8) * 256):
        free[warps % len(free)] -= taken
        warps += 1
    files = capability.registers_per_multiprocessor // capability.max_registers_per_block
    found = occupancy(plenty, threads_per_block=threads, registers_per_thread=registers)
    assert found.blocks == warps // -(-threads // 32) * files
