"""Asks a child process for the kernels of a schedule: it lowers, and lets ptxas assemble, without a GPU.

Enters: a pipeline, a schedule for CUDA, architectures. Leaves: one `Kernel` a launch and architecture. What hangs, or
needs all memory, ends with the child, and whatever it started.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import metol.errors
from metol.errors import KernelError, MetolError
from metol.lower import Schedule
from metol.measure import messages as m
from metol.measure.gate import BufferSizes
from metol.measure.kernels import Kernel
from metol.measure.process import Child, ChildDiedError, ChildTimeoutError, physical_memory_bytes
from metol.measure.ptxas import find_ptxas
from metol.measure.source import stored_source
from metol.pipeline import EstimateMap

__all__ = ["inspect_kernels"]

# Lowering takes a second or two, assembling 6 to 28 ms a kernel and architecture.
_LIMIT_SECONDS: Final = 120.0
_MEMORY_SHARE: Final = 0.5


def inspect_kernels(
    pipeline: Any,
    schedule: Schedule,
    *,
    target: str,
    architectures: Sequence[str],
    sizes: BufferSizes | None = None,
    estimates: EstimateMap | None = None,
    limit_seconds: float = _LIMIT_SECONDS,
) -> tuple[Kernel, ...]:
    """Compile the kernels of a schedule, and tell what each takes.

    Args:
        pipeline: An `hl.Pipeline`, or its `PipelineSource`. The schedule that it carries matters only for Funcs that
            are to keep it.
        schedule: One that fits it.
        target: A Halide target with CUDA, such as ``host-cuda-cuda_capability_80``.
        architectures: Such as ``sm_80``; not below the target's.
        sizes: What extents that depend on the size of an output are told for; those are unknown if None.
        estimates: Sizes and values that the pipeline does not tell, by name.
        limit_seconds: For all of it together.

    Returns:
        By architecture, in the order in which the code launches them; none where all of it runs on the CPU.

    Raises:
        MissingToolError: There is no ptxas.
        KernelError: Halide does not compile the schedule, ptxas refuses a kernel, or either takes too long.
        MetolError: The pipeline cannot be built, or the schedule does not fit it.
    """
    ptxas = find_ptxas()
    memory_bytes = int(_MEMORY_SHARE * physical_memory_bytes())
    with tempfile.TemporaryDirectory(prefix="metol-") as folder, Child(threads=1, memory_bytes=memory_bytes) as child:
        request = m.InspectKernels(
            str(stored_source(pipeline, Path(folder), estimates)),
            target,
            schedule.to_json(),
            (sizes or BufferSizes((), {}, {})).to_json(),
            list(architectures),
            str(ptxas),
        )
        try:
            answer = child.ask(request, limit_seconds)
        except ChildTimeoutError as error:
            raise KernelError(f"The kernels are not compiled within {limit_seconds:g} s.") from error
        except ChildDiedError as death:
            raise KernelError(f"Compiling the kernels fails: {death}") from death
    if isinstance(answer, m.Failure):
        error_class = getattr(metol.errors, answer.error, MetolError) if answer.is_users else KernelError
        raise error_class(answer.message)
    return tuple(Kernel.from_dict(content) for content in answer.kernels)
