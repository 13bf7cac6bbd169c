"""Whether a schedule is right: run beside a plain one, and its kernels compiled for the GPU that it is for.

Enters: a schedule that Halide lowers. Leaves: a `Verification`. Without a GPU, a schedule for CUDA cannot be run here:
then what is known is that each of its kernels compiles, and can be launched.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import halide as hl

from metol.errors import KernelError, MissingToolError
from metol.kernel_report import KernelReport, judge_kernel
from metol.lower import Schedule
from metol.measure import BufferSizes, RunOptions, find_ptxas, inspect_kernels, verify_schedule
from metol.pipeline import EstimateMap
from metol.targets import Machine, parse_target
from metol.targets.gpu import GpuMachine, detect_gpu

__all__ = ["Verification", "has_cuda", "require_means", "verify_for"]

_NOT_RUN: Final = "not run, for there is no GPU here"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found out about a schedule."""

    refusal: str = ""
    """Why it must not be used; empty where it may."""
    summary: str = ""
    """What was compared with the reference schedule, and how closely; what was compiled, and what was not done."""
    is_compared: bool = False
    """Whether it was run, and found to agree with the reference schedule."""
    kernels: tuple[KernelReport, ...] = ()
    """What each kernel takes of the GPU; none for a CPU, for OpenCL, and where ptxas is missing."""

    @property
    def spill_bytes(self) -> int:
        """Bytes of registers that the kernels store to and load from local memory; 0 where no kernel was compiled."""
        kernels = (report.kernel for report in self.kernels)
        return sum(kernel.spill_store_bytes + kernel.spill_load_bytes for kernel in kernels)

    @property
    def text(self) -> str:
        """The summary, and each kernel."""
        return "; ".join(filter(None, (self.summary, *(report.text for report in self.kernels))))


def has_cuda(target: str) -> bool:
    """Whether a target, as a user writes it, has a GPU with CUDA."""
    return bool(parse_target(target).has_feature(hl.TargetFeature.CUDA))


def require_means(target: str, *, runs: bool = True) -> None:
    """Make sure that something can be found out about schedules for a target.

    Raises:
        MissingToolError: It has CUDA, and there is neither a GPU here to run them on, where they may be run, nor an
            assembler.
    """
    if has_cuda(target) and not (runs and detect_gpu() is not None):
        find_ptxas()


def verify_for(
    machine: Machine,
    pipeline: Any,
    schedule: Schedule,
    *,
    sizes: BufferSizes,
    estimates: EstimateMap | None = None,
    runs: bool = True,
) -> Verification:
    """Run a schedule beside everything at root; for CUDA, compile its kernels, and run it where there is a GPU.

    Args:
        machine: What the schedule is for.
        pipeline: An `hl.Pipeline`, or its `PipelineSource`.
        schedule: One that fits it, with its target.
        sizes: What it is made for.
        estimates: Sizes and values that the pipeline does not tell, by name.
        runs: Whether it may be run; otherwise kernels for CUDA are compiled, and nothing else is done.

    Raises:
        MissingToolError: The target has CUDA, and there is neither an assembler nor a GPU here to run it on.
    """
    if not (isinstance(machine, GpuMachine) and has_cuda(schedule.target)):
        return _run(machine, pipeline, schedule, estimates) if runs else Verification()
    is_gpu_here = runs and detect_gpu() is not None
    try:
        compiled = _compile(machine, pipeline, schedule, sizes, estimates)
    except MissingToolError as missing:
        if not is_gpu_here:
            raise
        compiled = Verification(summary=str(missing))
    if compiled.refusal:
        return compiled
    if not is_gpu_here:
        return replace(compiled, summary=f"{compiled.summary}; {_NOT_RUN if runs else 'not run'}")
    run = _run(machine, pipeline, schedule, estimates)
    return replace(run, summary=f"{run.summary}; {compiled.summary}", kernels=compiled.kernels)


def _run(machine: Machine, pipeline: Any, schedule: Schedule, estimates: EstimateMap | None) -> Verification:
    options = RunOptions(threads=machine.host_threads, target=schedule.target, timing=None)
    row = verify_schedule(pipeline, schedule, options=options, estimates=estimates)
    if row.is_ok:
        return Verification(summary=row.detail, is_compared=True)
    return Verification(refusal=f"{row.status.value.replace('_', ' ')}: {row.detail}")


def _compile(
    machine: GpuMachine, pipeline: Any, schedule: Schedule, sizes: BufferSizes, estimates: EstimateMap | None
) -> Verification:
    """Compile the kernels of a schedule, and hold each to the limits of the GPU."""
    architecture = machine.capability.architecture
    try:
        kernels = inspect_kernels(
            pipeline,
            schedule,
            target=schedule.target,
            architectures=(architecture,),
            sizes=sizes,
            estimates=estimates,
        )
    except KernelError as error:
        return Verification(refusal=str(error))
    reports = tuple(judge_kernel(kernel, machine.capability) for kernel in kernels)
    refused = [report.text for report in reports if not report.is_launchable]
    if refused:
        return Verification(refusal=f"it cannot be launched: {'; '.join(refused)}", kernels=reports)
    summary = f"{len(reports)} kernel{'s' * (len(reports) != 1)} compiled for {architecture}"
    return Verification(summary=summary, kernels=reports)
