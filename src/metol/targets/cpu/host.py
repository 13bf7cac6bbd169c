"""What the operating system says about the CPU: its model, the cores we may use, its caches, and what new pages cost.

From /proc and /sys of Linux where they exist; elsewhere, and for what they leave out, typical sizes. What the first
touch of a page costs is measured: it differs by a factor of ten between machines, and is found out in milliseconds.
"""

import ctypes
import functools
import math
import mmap
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Caches", "available_cpus", "cpu_name", "detect_caches", "page_fault_seconds_per_byte", "parse_cpu_list"]

_SYSTEM_CPUS: Final = Path("/sys/devices/system/cpu")
_CPU_INFO: Final = Path("/proc/cpuinfo")
# More of the last cache than this for each CPU in use is what a virtual machine says of a whole processor that it has a
# few cores of: its neighbours use the rest.
_MOST_L3_BYTES_PER_CPU: Final = 16 << 20
_TOUCHED_BYTES: Final = 4 << 20
_TOUCHED_ROUNDS: Final = 3
# From the fastest bare machine to a slow virtual one, in seconds a byte.
_PAGE_FAULT_RANGE: Final = (2e-11, 4e-9)
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Caches:
    """Sizes of the data caches; the defaults are what most x86-64 cores of the last ten years have at least."""

    l1_bytes: int = 32 << 10
    """Of one core."""
    l2_bytes: int = 512 << 10
    """Of one core."""
    l3_bytes: int = 8 << 20
    """Of all cores in use together: of each instance, the part that falls to them."""
    line_bytes: int = 64
    """One cache line."""


def available_cpus() -> tuple[int, ...]:
    """Return the numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def cpu_name(path: Path = _CPU_INFO) -> str:
    """Return the model name of the CPU."""
    if path.is_file():
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Read a list of CPUs as the kernel writes it: ``0-2,8`` is 0, 1, 2 and 8."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def detect_caches(cpus: tuple[int, ...], root: Path = _SYSTEM_CPUS) -> Caches:
    """Read the cache sizes of the CPUs in use.

    L1 and L2 are those of the first CPU, divided by the CPUs in use that share them. Of each L3, the part counts that
    falls to the CPUs in use: half of it when eight of the sixteen CPUs that share it are ours. It is 16 MiB a CPU at
    most.

    Args:
        cpus: Numbers of the CPUs in use.
        root: The folder that Linux describes its CPUs in.
    """
    default = Caches()
    private = {1: default.l1_bytes, 2: default.l2_bytes}
    line_bytes = default.line_bytes
    shared: dict[tuple[int, ...], float] = {}
    for cpu in cpus:
        for index in sorted((root / f"cpu{cpu}" / "cache").glob("index*")):
            level, kind, size, sharers, line = _read_cache(index)
            if kind == "Instruction" or size == 0:
                continue
            ours = len(set(sharers) & set(cpus)) or 1
            if level == 3:
                shared[sharers] = size * ours / max(len(sharers), 1)
            elif cpu == cpus[0] and level in private:
                private[level] = size // ours
                line_bytes = line or line_bytes
    l3_bytes = min(int(sum(shared.values())), len(cpus) * _MOST_L3_BYTES_PER_CPU) or default.l3_bytes
    return Caches(private[1], private[2], l3_bytes, line_bytes)


def _read_cache(index: Path) -> tuple[int, str, int, tuple[int, ...], int]:
    def read(name: str) -> str:
        path = index / name
        return path.read_text().strip() if path.is_file() else ""

    size = read("size")
    scale = _UNITS.get(size[-1:], 1)
    digits = size.rstrip("KMG")
    return (
        int(read("level") or 0),
        read("type"),
        int(digits or 0) * scale,
        parse_cpu_list(read("shared_cpu_list")),
        int(read("coherency_line_size") or 0),
    )


@functools.cache
def page_fault_seconds_per_byte() -> float:
    """Return what the first touch of new memory takes beyond the store itself, in seconds a byte.

    To a power of the square root of two, of the quickest of some rounds: it is the same each time, but on a machine
    that is halfway between two.
    """
    first, second = (min(seconds) for seconds in zip(*(_touch_twice() for _ in range(_TOUCHED_ROUNDS)), strict=True))
    least, most = _PAGE_FAULT_RANGE
    return math.pow(2, round(2 * math.log2(min(max((first - second) / _TOUCHED_BYTES, least), most))) / 2)


def _touch_twice() -> tuple[float, float]:
    """Write to new pages twice: what the first time takes, and the second. Either may be disturbed."""
    memory = mmap.mmap(-1, _TOUCHED_BYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = time.perf_counter()
    ctypes.memset(address, 1, _TOUCHED_BYTES)
    touched = time.perf_counter()
    ctypes.memset(address, 2, _TOUCHED_BYTES)
    return touched - start, time.perf_counter() - touched
