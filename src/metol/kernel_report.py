"""Whether a GPU can launch the kernels of a schedule, and how well they fill it.

Enter: a `Kernel`, as Halide launches it and ptxas assembles it, and the limits of a GPU. Leaves: a `KernelReport`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from metol.measure import BlockLimits, Kernel
from metol.targets.gpu import ComputeCapability, Limit, Occupancy, occupancy

__all__ = ["KernelReport", "judge_kernel", "launched_of"]

# CUDA C++ programming guide, "Technical specifications per compute capability": the same for every version.
_MOST_BLOCKS: Final = (2**31 - 1, 65535, 65535)
_MOST_THREADS: Final = (1024, 1024, 64)


@dataclass(frozen=True, slots=True)
class KernelReport:
    """A kernel beside the limits of a GPU."""

    kernel: Kernel
    """What it takes."""
    occupancy: Occupancy | None
    """What a multiprocessor holds of it; None where its threads or its shared memory are known to a run alone."""
    problems: tuple[str, ...]
    """Why it cannot be launched; none where it can, or only a run can tell."""

    @property
    def is_launchable(self) -> bool:
        """Whether nothing is known that forbids it."""
        return not self.problems

    @property
    def text(self) -> str:
        """The kernel in a line, for a person."""
        kernel = self.kernel
        parts = [f"{_extents_text(kernel.threads)} threads", f"{kernel.registers} registers"]
        if kernel.spill_store_bytes or kernel.spill_load_bytes:
            parts.append(f"spills {kernel.spill_store_bytes} B, loaded as {kernel.spill_load_bytes} B")
        if kernel.stack_bytes:
            parts.append(f"{kernel.stack_bytes} B of stack")
        if kernel.shared_bytes is None or kernel.shared_bytes:
            parts.append(f"{_known(kernel.shared_bytes)} B of shared memory")
        parts.append("occupancy unknown" if self.occupancy is None else f"occupancy {self.occupancy.share:.0%}")
        return f"{kernel.label} on {kernel.architecture}: {', '.join((*parts, *self.problems))}"


def judge_kernel(kernel: Kernel, capability: ComputeCapability) -> KernelReport:
    """Hold a kernel to the limits of a GPU.

    Args:
        kernel: Assembled for this GPU's architecture.
        capability: The limits. Shared memory of a block is the usual, as Halide's kernels never opt in to more.
    """
    shared_limit = min(capability.shared_bytes_per_block, capability.max_shared_bytes_per_block)
    threads, shared_bytes = kernel.threads_per_block, kernel.shared_bytes
    problems = list(BlockLimits(capability.max_threads_per_block, shared_limit).excesses(threads, shared_bytes))
    for what, extents, most in (("threads", kernel.threads, _MOST_THREADS), ("blocks", kernel.blocks, _MOST_BLOCKS)):
        for axis, extent, limit in zip("xyz", extents, most, strict=True):
            if extent is not None and extent > limit:
                problems.append(f"there are {extent} {what} along {axis}, and may be {limit}")
    held = None
    if threads and shared_bytes is not None:
        held = occupancy(
            replace(capability, max_shared_bytes_per_block=shared_limit),
            threads_per_block=threads,
            registers_per_thread=kernel.registers,
            shared_bytes_per_block=shared_bytes,
        )
        if held.blocks == 0 and Limit.REGISTERS in held.limits:
            problems.append(
                f"a block of {threads} threads with {kernel.registers} registers each does not find room in "
                f"{capability.max_registers_per_block} registers"
            )
    return KernelReport(kernel, held, tuple(problems))


def launched_of(reports: Sequence[KernelReport]) -> tuple[KernelReport, ...]:
    """Return those of the kernels that run at the estimated sizes; the others are there for smaller outputs."""
    return tuple(report for report in reports if report.kernel.is_launched)


def _extents_text(extents: tuple[int | None, ...]) -> str:
    return "x".join(_known(extent) for extent in extents)


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)
