"""What one operation, one byte and one event cost on a CPU, in seconds.

Three tables of measured rates and their built-in defaults. Each field carries its unit and meaning, from which the
table that a person sees is generated. They are what the coefficients of Adams et al. 2019, appendix B, stand for.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final

__all__ = ["CoreClass", "MemoryRates", "OperationRates", "OverheadRates", "default_clock_hz", "default_rates"]

_VECTOR: Final = "s/vector"
_BANDWIDTH: Final = "B/s"


def _described(unit: str, meaning: str) -> Mapping[str, str]:
    return MappingProxyType({"unit": unit, "meaning": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRates:
    """Reciprocal throughput of arithmetic on values in registers: seconds for one native vector on one core.

    A native vector fills one register: `native vector bytes / bytes of the type` lanes. A conversion counts vectors of
    the wider of its two types. Costs are what Halide's generated code takes, not what one instruction takes.
    """

    f32_add_seconds: float = field(metadata=_described(_VECTOR, "float32 add or subtract"))
    f32_mul_seconds: float = field(metadata=_described(_VECTOR, "float32 multiply"))
    f32_fma_seconds: float = field(metadata=_described(_VECTOR, "float32 multiply and add together"))
    f32_min_max_seconds: float = field(metadata=_described(_VECTOR, "float32 minimum or maximum"))
    f32_compare_select_seconds: float = field(
        metadata=_described(_VECTOR, "float32 comparison and the select it feeds")
    )
    f32_div_seconds: float = field(metadata=_described(_VECTOR, "float32 division"))
    f32_sqrt_seconds: float = field(metadata=_described(_VECTOR, "float32 square root"))
    f32_exp_seconds: float = field(metadata=_described(_VECTOR, "float32 exp"))
    f32_log_seconds: float = field(metadata=_described(_VECTOR, "float32 log"))
    f32_pow_seconds: float = field(metadata=_described(_VECTOR, "float32 pow"))
    f32_sin_seconds: float = field(metadata=_described(_VECTOR, "float32 sin, as any function that runs lane by lane"))
    f64_fma_seconds: float = field(metadata=_described(_VECTOR, "float64 add, multiply or both together"))
    i32_add_seconds: float = field(metadata=_described(_VECTOR, "32-bit integer add or bitwise operation"))
    i32_mul_seconds: float = field(metadata=_described(_VECTOR, "32-bit integer multiply"))
    i32_div_seconds: float = field(metadata=_described(_VECTOR, "32-bit integer division by a variable"))
    i32_div_constant_seconds: float = field(metadata=_described(_VECTOR, "32-bit integer division by a constant"))
    i16_add_seconds: float = field(metadata=_described(_VECTOR, "16-bit integer add or bitwise operation"))
    i16_mul_seconds: float = field(metadata=_described(_VECTOR, "16-bit integer multiply"))
    u8_add_seconds: float = field(metadata=_described(_VECTOR, "8-bit integer add or bitwise operation"))
    convert_i32_f32_seconds: float = field(metadata=_described(_VECTOR, "int32 to float32 or back"))
    convert_u8_f32_seconds: float = field(metadata=_described(_VECTOR, "uint8 to float32"))
    convert_f32_u8_seconds: float = field(metadata=_described(_VECTOR, "float32 to uint8"))
    widen_u8_u16_seconds: float = field(metadata=_described(_VECTOR, "uint8 to uint16"))
    narrow_u16_u8_seconds: float = field(metadata=_described(_VECTOR, "uint16 to uint8 with saturation"))
    gather_element_seconds: float = field(
        metadata=_described("s/element", "one lane of a vector load by computed index")
    )
    scalar_op_seconds: float = field(
        metadata=_described("s/op", "one scalar add or multiply in code that has no vectors")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRates:
    """What moving data costs. Bandwidths are of sequential accesses; `all_threads` counts all cores together."""

    l1_load_seconds: float = field(metadata=_described(_VECTOR, "dense vector load from L1"))
    l1_store_seconds: float = field(metadata=_described(_VECTOR, "dense vector store to L1"))
    l1_scalar_load_seconds: float = field(metadata=_described("s/load", "scalar or broadcast load from L1"))
    l2_read_bytes_per_second: float = field(metadata=_described(_BANDWIDTH, "read from L2, one thread"))
    l2_read_bytes_per_second_all_threads: float = field(metadata=_described(_BANDWIDTH, "read from L2, all threads"))
    l3_read_bytes_per_second: float = field(metadata=_described(_BANDWIDTH, "read from L3, one thread"))
    l3_read_bytes_per_second_all_threads: float = field(metadata=_described(_BANDWIDTH, "read from L3, all threads"))
    dram_read_bytes_per_second: float = field(metadata=_described(_BANDWIDTH, "read from DRAM, one thread"))
    dram_read_bytes_per_second_all_threads: float = field(
        metadata=_described(_BANDWIDTH, "read from DRAM, all threads")
    )
    dram_tiled_read_bytes_per_second: float = field(
        metadata=_described(_BANDWIDTH, "read from DRAM in runs that do not follow each other, one thread")
    )
    dram_tiled_read_bytes_per_second_all_threads: float = field(
        metadata=_described(_BANDWIDTH, "read from DRAM in runs that do not follow each other, all threads")
    )
    dram_write_bytes_per_second: float = field(
        metadata=_described(_BANDWIDTH, "bytes stored to DRAM, one thread; the read that a store causes is in it")
    )
    dram_write_bytes_per_second_all_threads: float = field(
        metadata=_described(_BANDWIDTH, "bytes stored to DRAM, all threads; the read that a store causes is in it")
    )
    page_fault_seconds_per_byte: float = field(
        metadata=_described("s/B", "first touch of freshly allocated memory, beyond the store itself, one thread")
    )
    page_fault_seconds_per_byte_all_threads: float = field(
        metadata=_described("s/B", "the same while all threads touch new memory: wall-clock seconds per byte in total")
    )
    fresh_allocation_bytes: float = field(
        metadata=_described("B", "heap allocations of more than this get new pages at every run; not measured")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadRates:
    """What control costs, beside the work done under it."""

    small_allocation_seconds: float = field(metadata=_described("s", "allocate and free 1 KiB on the heap"))
    large_allocation_seconds: float = field(
        metadata=_described("s", "allocate and free 64 MiB, touching only its first page")
    )
    parallel_launch_seconds: float = field(metadata=_described("s", "a parallel loop with one empty task per thread"))
    parallel_task_seconds: float = field(metadata=_described("s/task", "wall-clock seconds per further empty task"))
    loop_entry_seconds: float = field(metadata=_described("s", "enter and leave a short serial loop"))
    loop_iteration_seconds: float = field(
        metadata=_described("s", "one iteration of a serial loop, with one scalar store")
    )


class CoreClass(enum.Enum):
    """What cores have in common as far as uncalibrated rates go."""

    AVX512 = "avx512"
    """Whole registers of 64 bytes, two operations a cycle; the last cache lies far away, as on Intel's servers."""
    AVX512_IN_HALVES = "avx512_in_halves"
    """Registers of 64 bytes that are worked on in halves: Zen 4."""
    AVX512_NEAR_CACHE = "avx512_near_cache"
    """Whole registers of 64 bytes, up to four operations a cycle, on a fast clock; the last cache is near: Zen 5."""
    AVX2 = "avx2"
    """Registers of 32 bytes."""
    OTHER = "other"
    """Registers of 16 bytes."""


# Reciprocal throughput in cycles by class of core, in the order of the fields of OperationRates: code that Halide 21
# generates for AVX-512, AVX2 and SSE4.1, measured on Sapphire Rapids for the first class, on Zen 5 for the one with a
# near cache, and on Zen 4 for the others, raised a little where Intel's cores need more.
_CYCLES: Final[Mapping[CoreClass, tuple[float, ...]]] = MappingProxyType(
    {
        CoreClass.AVX512: (
            0.5, 0.5, 0.5, 0.55, 1.1, 10, 12, 17, 15, 36, 280, 0.5,
            0.5, 1.3, 96, 6.5, 0.5, 0.6, 0.5, 0.9, 1.6, 2, 1, 1.5, 1.8, 0.45,
        ),
        CoreClass.AVX512_IN_HALVES: (
            1, 1, 1, 1, 1.7, 8, 12, 17, 17, 41, 160, 1,
            0.5, 1.2, 96, 8, 0.5, 1, 0.5, 1, 1.5, 1.5, 0.8, 0.8, 1.5, 0.5,
        ),
        CoreClass.AVX512_NEAR_CACHE: (
            0.5, 0.5, 0.5, 0.5, 0.8, 2.5, 4.5, 12, 14, 29, 120, 0.5,
            0.25, 0.5, 96, 4, 0.25, 0.5, 0.25, 0.5, 0.85, 0.9, 0.6, 0.6, 0.8, 0.4,
        ),
        CoreClass.AVX2: (
            0.5, 0.5, 0.5, 0.5, 0.6, 4, 5.5, 12, 14, 31, 66, 0.5,
            0.3, 0.7, 48, 4.2, 0.3, 0.5, 0.3, 0.5, 0.9, 1.5, 0.5, 1.1, 1.5, 0.5,
        ),
        CoreClass.OTHER: (
            0.5, 0.5, 0.7, 0.5, 0.6, 3, 5, 12, 16, 43, 41, 0.7,
            0.3, 0.7, 24, 3.1, 0.3, 0.5, 0.3, 0.5, 0.9, 1.2, 0.5, 0.8, 1.5, 0.5,
        ),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What the clock, the caches and the memory of a class of core are like, measured on the same cores."""

    clock_hz: float = 3.0e9
    load_cycles: float = 0.5
    store_cycles: float = 1
    l2_bytes_per_cycle: float = 32
    l3_bytes_per_cycle: float = 16
    dram_read_bytes_per_second: float = 15e9
    dram_tiled_read_bytes_per_second: float = 9e9
    dram_write_bytes_per_second: float = 10e9
    loop_entry_cycles: float = 4


_SURROUNDINGS: Final[Mapping[CoreClass, _Surroundings]] = MappingProxyType(
    {
        CoreClass.AVX512: _Surroundings(load_cycles=0.7, l2_bytes_per_cycle=45, l3_bytes_per_cycle=9),
        CoreClass.AVX512_IN_HALVES: _Surroundings(load_cycles=1, store_cycles=2),
        CoreClass.AVX512_NEAR_CACHE: _Surroundings(
            clock_hz=4.0e9,
            l2_bytes_per_cycle=62,
            l3_bytes_per_cycle=30,
            dram_read_bytes_per_second=35e9,
            dram_tiled_read_bytes_per_second=24e9,
            dram_write_bytes_per_second=26e9,
            loop_entry_cycles=1.5,
        ),
        CoreClass.AVX2: _Surroundings(clock_hz=3.5e9),
        CoreClass.OTHER: _Surroundings(),
    }
)
# Threads that together reach what the memory controllers give, on a typical CPU.
_THREADS_TO_SATURATE_DRAM: Final = 4


def default_clock_hz(core: CoreClass) -> float:
    """Return the clock of a typical CPU of a class while vector code runs, in Hz."""
    return _SURROUNDINGS[core].clock_hz


def default_rates(core: CoreClass, cores: int) -> tuple[OperationRates, MemoryRates, OverheadRates]:
    """Return rates of a typical CPU of a class, for a machine that nobody has calibrated.

    Args:
        core: What the cores are like.
        cores: Threads used.
    """
    around = _SURROUNDINGS[core]
    clock_hz = around.clock_hz
    names = [item.name for item in fields(OperationRates)]
    seconds = (cycles / clock_hz for cycles in _CYCLES[core])
    operations = OperationRates(**dict(zip(names, seconds, strict=True)))
    saturating = min(cores, _THREADS_TO_SATURATE_DRAM)
    l2, l3 = around.l2_bytes_per_cycle * clock_hz, around.l3_bytes_per_cycle * clock_hz
    memory = MemoryRates(
        l1_load_seconds=around.load_cycles / clock_hz,
        l1_store_seconds=around.store_cycles / clock_hz,
        l1_scalar_load_seconds=0.5 / clock_hz,
        l2_read_bytes_per_second=l2,
        l2_read_bytes_per_second_all_threads=l2 * cores,
        l3_read_bytes_per_second=l3,
        l3_read_bytes_per_second_all_threads=l3 * cores,
        dram_read_bytes_per_second=around.dram_read_bytes_per_second,
        dram_read_bytes_per_second_all_threads=around.dram_read_bytes_per_second * saturating,
        dram_tiled_read_bytes_per_second=around.dram_tiled_read_bytes_per_second,
        dram_tiled_read_bytes_per_second_all_threads=around.dram_tiled_read_bytes_per_second * saturating,
        dram_write_bytes_per_second=around.dram_write_bytes_per_second,
        dram_write_bytes_per_second_all_threads=around.dram_write_bytes_per_second * saturating,
        page_fault_seconds_per_byte=1.5e-10,  # 0.6 us a page: between a bare machine and a virtual one
        page_fault_seconds_per_byte_all_threads=1.5e-10 / saturating**0.5,
        fresh_allocation_bytes=float(32 << 20),  # the most that glibc lets its threshold for mmap grow to
    )
    overheads = OverheadRates(
        small_allocation_seconds=40e-9,
        large_allocation_seconds=8e-6,
        parallel_launch_seconds=1e-6,
        parallel_task_seconds=20e-9,
        loop_entry_seconds=around.loop_entry_cycles / clock_hz,
        loop_iteration_seconds=1 / clock_hz,
    )
    return operations, memory, overheads
