"""Emptying the caches before a run is timed, by reading more memory than all of them hold.

In: the CPUs that a pipeline runs on. Out: a `CacheWalk`. Each CPU reads a share of its own, so that the private caches
are emptied, too, and together they read the shared ones full. Sizes come from /sys of Linux.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["CacheWalk", "cache_bytes"]

_SYSTEM_CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# Taken at least, as some systems tell nothing and others leave their largest cache out: what most machines of the last
# ten years do not exceed.
_LEAST_BYTES = 64 << 20

# No cache replaces strictly what is oldest: one reading of its size leaves something behind, two leave little.
_FACTOR = 2


@dataclass(frozen=True, slots=True)
class CacheWalk:
    """A walk over memory that takes the place of everything in the caches of some CPUs."""

    cpus: tuple[int, ...]
    """The CPUs that walk, one after the other."""
    ones: NDArray[np.uint64]  # [size_bytes / 8]
    """The memory, with a 1 in each element: what was never written has no memory of its own, and is in the caches."""

    @staticmethod
    def of_machine(cpus: Collection[int], root: Path = _SYSTEM_CPUS) -> "CacheWalk":
        """Return a walk over twice what the caches of these CPUs hold, as `cache_bytes` finds it."""
        return CacheWalk.of_size(cpus, _FACTOR * cache_bytes(cpus, root))

    @staticmethod
    def of_size(cpus: Collection[int], size_bytes: int) -> "CacheWalk":
        """Return a walk over so many bytes, rounded up to elements of 8."""
        return CacheWalk(tuple(sorted(cpus)), np.ones(-(-size_bytes // 8), np.uint64))

    def walk(self) -> int:
        """Read every byte of the memory from this thread, which moves from CPU to CPU, and return how many there were.

        The bytes are counted by summing what was read.
        """
        home = os.sched_getaffinity(0)
        count = 0
        try:
            for cpu, share in zip(self.cpus, np.array_split(self.ones, len(self.cpus)), strict=True):
                os.sched_setaffinity(0, {cpu})
                count += int(share.sum())
        finally:
            os.sched_setaffinity(0, home)
        return count * self.ones.itemsize


def cache_bytes(cpus: Collection[int], root: Path = _SYSTEM_CPUS) -> int:
    """Return how much the caches for data of these CPUs hold in all, each counted once, however many CPUs share it.

    Where the system tells less than 64 MiB, or nothing, it is 64 MiB.

    Args:
        cpus: their numbers.
        root: the folder that Linux describes its CPUs in.
    """
    sizes: dict[tuple[str, str, str], int] = {}
    for cpu in cpus:
        for index in (root / f"cpu{cpu}" / "cache").glob("index*"):
            level, kind, sharers, size = (_read(index / name) for name in ("level", "type", "shared_cpu_list", "size"))
            digits = size.rstrip("KMG")
            if kind != "Instruction" and digits.isdecimal():
                sizes[level, kind, sharers or str(cpu)] = int(digits) * _UNITS.get(size[-1], 1)
    return max(sum(sizes.values()), _LEAST_BYTES)


def _read(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""
