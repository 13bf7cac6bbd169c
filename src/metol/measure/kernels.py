"""The kernels of a schedule for CUDA: how Halide launches each, and what it takes on an architecture.

Enters: a pipeline and its schedule. Leaves: one `Kernel` a launch and architecture. Threads, blocks and shared memory
are what the lowered code hands to the driver, and the assembler never sees; registers and spills are the assembler's.
Nothing here runs on a GPU.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from metol import _core
from metol.errors import KernelError
from metol.lower import Schedule
from metol.measure.gate import BufferSizes
from metol.measure.ptxas import Resources, assemble
from metol.pipeline import LoweredPipeline, base_name, func_names

__all__ = ["Extents", "Kernel", "kernels_of"]

Extents = tuple[int | None, int | None, int | None]
"""Along x, y and z; None for what only a run can tell."""

_UNKNOWN: Final[Extents] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, assembled for one architecture."""

    name: str
    """Its name in the PTX."""
    func: int
    """Position in `Pipeline.get_func` of the Func that its outermost loop belongs to; -1 for one that the schedule
    made, and where that cannot be told."""
    func_name: str
    """Name of this Func, without `$n`; empty where that cannot be told."""
    stage: int
    """0 for the pure definition, then the updates; -1 where that cannot be told."""
    architecture: str
    """Such as ``sm_80``."""
    blocks: Extents
    """Of the grid, for outputs of the estimated size."""
    threads: Extents
    """Of a block."""
    shared_bytes: int | None
    """Of a block: what the launch asks for, and the code; None where only a run can tell."""
    registers: int
    """Of a thread, 32 bits each."""
    spill_store_bytes: int
    """Stored by a thread for want of registers, by all instructions that do so together."""
    spill_load_bytes: int
    """Loaded back."""
    stack_bytes: int
    """Of a thread, in local memory."""
    is_launched: bool = True
    """False for one that outputs of the estimated size do not need: it is there for smaller ones, and how that is
    launched is not known."""

    @property
    def threads_per_block(self) -> int | None:
        """Threads of a block; None where only a run can tell."""
        known = [extent for extent in self.threads if extent is not None]
        return math.prod(known) if len(known) == len(self.threads) else None

    @property
    def label(self) -> str:
        """The Stage, for a person; the kernel's own name where that cannot be told."""
        if not self.func_name:
            return self.name
        return f"{self.func_name} update {self.stage - 1}" if self.stage else self.func_name

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "Kernel":
        """Return what `dataclasses.asdict` took apart, and JSON made lists of."""
        blocks, threads = (_extents(content[name]) for name in ("blocks", "threads"))
        return Kernel(**{**content, "blocks": blocks, "threads": threads})


def kernels_of(
    pipeline: Any,
    schedule: Schedule,
    *,
    target: str,
    sizes: BufferSizes,
    architectures: Sequence[str],
    ptxas: Path,
) -> Iterator[Kernel]:
    """Lower a pipeline and assemble its kernels; yield them by architecture, in the order of the code.

    Args:
        pipeline: An `hl.Pipeline` that carries no schedule but that of Funcs which keep theirs; it gets this one.
        schedule: One that fits it.
        target: A Halide target with CUDA.
        sizes: What the schedule is made for.
        architectures: Such as ``sm_80``.
        ptxas: The assembler.

    Raises:
        KernelError: The assembler refuses a kernel.
        MetolError: Halide refuses the pipeline, or the schedule does not fit it.
    """
    funcs = func_names(pipeline)
    schedule.apply(pipeline)
    lowered = LoweredPipeline(pipeline, target, has_partitions=True)
    code = lowered.device_code()
    if not code:
        return
    outputs = [func.name() for func in pipeline.outputs()]
    regions = sizes.regions(outputs, lowered.required({}, {}))
    launches = lowered.launches(regions, sizes.scalars)
    for architecture in architectures:
        resources = assemble(code, architecture, ptxas)
        for launch in launches:
            if launch.kernel not in resources:
                raise KernelError(f"ptxas tells nothing of the kernel `{launch.kernel}` for {architecture}.")
            yield _kernel(launch, funcs, architecture, resources[launch.kernel])


def _kernel(launch: _core.KernelLaunch, funcs: Sequence[str], architecture: str, resources: Resources) -> Kernel:
    # What is left out at the estimated sizes has extents that Halide simplified for the sizes that it is for.
    is_launched = launch.is_taken
    at_launch = launch.shared_bytes if is_launched else None
    return Kernel(
        name=launch.kernel,
        func=funcs.index(launch.func) if launch.func in funcs else -1,
        func_name=base_name(launch.func),
        stage=launch.stage,
        architecture=architecture,
        blocks=_extents(launch.blocks) if is_launched else _UNKNOWN,
        threads=_extents(launch.threads) if is_launched else _UNKNOWN,
        shared_bytes=None if at_launch is None else at_launch + resources.static_shared_bytes,
        registers=resources.registers,
        spill_store_bytes=resources.spill_store_bytes,
        spill_load_bytes=resources.spill_load_bytes,
        stack_bytes=resources.stack_bytes,
        is_launched=is_launched,
    )


def _extents(along: Sequence[int | None]) -> Extents:
    x, y, z = along
    return x, y, z
