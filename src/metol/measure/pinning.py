"""On which cores a child runs: as many as its schedule has threads.

Enters: how many. Leaves: the calling thread, and those that it starts from then on, on that many cores.
"""

import contextlib
import os
from collections.abc import Iterator

__all__ = ["pin", "pinned"]


def pin(threads: int | None) -> None:
    """Keep this process on as many cores as it has threads, and those that Halide starts from now on."""
    cores = sorted(os.sched_getaffinity(0))
    if threads is not None and len(cores) > threads:
        os.sched_setaffinity(0, cores[:threads])


@contextlib.contextmanager
def pinned(threads: int | None) -> Iterator[None]:
    """Keep this process there for a while; what compiles in between may have all cores."""
    cores = os.sched_getaffinity(0)
    pin(threads)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
