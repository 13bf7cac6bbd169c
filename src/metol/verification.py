"""Whether a schedule is right: run beside a plain one, and its kernels compiled for the GPU that it is for.

Enters: a schedule that Halide lowers. Leaves: a `Verification`. Without a GPU, a schedule for CUDA is run on one that
is emulated, and its kernels are held to what the GPU that they are for can launch.
"""

from dataclasses import dataclass, replace
from typing import Any

import halide as hl

from metol.errors import KernelError, MetolError, MissingDeviceError, MissingToolError
from metol.kernel_report import KernelReport, judge_kernel, launched_of
from metol.lower import Schedule
from metol.measure import (
    BufferSizes,
    CheckOutcome,
    RunOptions,
    find_ptxas,
    inspect_kernels,
    is_numpy_type,
    is_untold,
    run_emulated,
    verify_schedule,
)
from metol.pipeline import EstimateMap, base_name
from metol.targets import Machine, can_run, missing_processor, parse_target
from metol.targets.gpu import GpuMachine, detect_gpu, has_opencl_device

__all__ = [
    "Verification",
    "has_cuda",
    "missing_device",
    "require_device",
    "require_means",
    "require_types",
    "verify_for",
]

# What takes longer at one size on a GPU that is emulated is left to those that have one.
_EMULATION_SECONDS = 60.0


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
    def launched(self) -> tuple[KernelReport, ...]:
        """The kernels that run at the estimated sizes; the others are there for smaller outputs."""
        return launched_of(self.kernels)

    @property
    def spill_bytes(self) -> int:
        """Bytes of registers that the kernels store to and load from local memory; 0 where no kernel was compiled."""
        kernels = (report.kernel for report in self.launched)
        return sum(kernel.spill_store_bytes + kernel.spill_load_bytes for kernel in kernels)

    @property
    def text(self) -> str:
        """The summary, and each kernel."""
        return "; ".join(filter(None, (self.summary, *(report.text for report in self.launched))))


def has_cuda(target: str) -> bool:
    """Whether a target, as a user writes it, has a GPU with CUDA."""
    return bool(parse_target(target).has_feature(hl.TargetFeature.CUDA))


def missing_device(target: str) -> str:
    """Tell why nothing that is compiled for a target can be run here; "" where it can."""
    parsed = parse_target(target)
    if missing := missing_processor(parsed):
        return missing
    if parsed.has_feature(hl.TargetFeature.CUDA):
        gpu = detect_gpu()
        if gpu is None:
            return "there is no GPU here"
        return "" if can_run(gpu, parsed) else f"the GPU here, `{gpu.name}`, has compute capability {gpu.capability}"
    if parsed.has_feature(hl.TargetFeature.OpenCL) and not has_opencl_device():
        return "there is no OpenCL device here"
    return ""


def require_device(target: str) -> None:
    """Make sure that schedules for a target can be run here.

    Raises:
        MissingDeviceError: It is for another processor, or has a GPU, and there is none here that they run on.
    """
    missing = missing_device(target)
    if not missing:
        return
    parsed = parse_target(target)
    if not parsed.has_gpu_feature() or missing_processor(parsed):
        raise MissingDeviceError(
            f"Schedules for `{target}` cannot be run, for {missing}. Run this on a machine that the target is of; "
            "`metol schedule` without `--verify` finds a schedule for it anywhere."
        )
    if has_cuda(target):
        raise MissingDeviceError(
            f"Schedules for CUDA cannot be run, for {missing}. Run this where there is one; `metol schedule --target "
            "cuda --verify` compiles without one, and `--target opencl` runs wherever there is an OpenCL device, such "
            "as that of the package pocl-opencl-icd, which is the CPU."
        )
    raise MissingDeviceError(
        f"Schedules for OpenCL cannot be run, for {missing}. Install a driver that brings one; that of the package "
        "pocl-opencl-icd is the CPU."
    )


def require_means(target: str, *, runs: bool = True) -> None:
    """Make sure that something can be found out about schedules for a target.

    Raises:
        MissingToolError: It has CUDA, and there is neither a GPU here to run them on, where they may be run, nor an
            assembler.
        MissingDeviceError: It has OpenCL or another processor, they may be run, and there is none here to run them on.
    """
    if not has_cuda(target):
        if runs:
            require_device(target)
    elif not runs or missing_device(target):
        find_ptxas()


def require_types(frame: Schedule) -> None:
    """Make sure that what goes into a pipeline and comes out of it can be passed from Python.

    Raises:
        MetolError: NumPy does not have the type of a buffer.
    """
    buffers = {estimate.name for estimate in frame.estimates if estimate.bounds}
    for func in frame.funcs:
        if func.name in buffers and not all(map(is_numpy_type, func.types)):
            raise MetolError(
                f"`{base_name(func.name)}` holds bfloat16, which NumPy does not have, so that nothing can be run from "
                "Python: schedule the pipeline without `verify`, or verify one that takes and gives float32."
            )


def verify_for(
    machine: Machine,
    pipeline: Any,
    schedule: Schedule,
    *,
    sizes: BufferSizes,
    estimates: EstimateMap | None = None,
    runs: bool = True,
    kernels: tuple[KernelReport, ...] = (),
) -> Verification:
    """Run a schedule beside everything at root; for CUDA, compile its kernels, and run it where there is a GPU.

    Args:
        machine: What the schedule is for.
        pipeline: An `hl.Pipeline`, or its `PipelineSource`.
        schedule: One that fits it, with its target.
        sizes: What it is made for.
        estimates: Sizes and values that the pipeline does not tell, by name.
        runs: Whether it may be run; otherwise kernels for CUDA are compiled, and nothing else is done.
        kernels: Those that were compiled of it for this machine before; none to compile them now.

    Raises:
        MissingToolError: The target has CUDA, and there is neither an assembler nor a GPU here to run it on.
    """
    if not (isinstance(machine, GpuMachine) and has_cuda(schedule.target)):
        return _run(machine, pipeline, schedule, estimates) if runs else Verification()
    missing_gpu = missing_device(schedule.target) if runs else ""
    is_run = runs and not missing_gpu
    try:
        compiled = _judged(machine, kernels or _compile(machine, pipeline, schedule, sizes, estimates))
    except KernelError as error:
        return Verification(refusal=str(error))
    except MissingToolError as missing:
        if not is_run:
            raise
        compiled = Verification(summary=str(missing))
    if compiled.refusal:
        return compiled
    if missing_gpu:
        return _run_emulated(
            compiled, missing_gpu, pipeline, schedule, threads=machine.host_threads, estimates=estimates
        )
    if not is_run:
        return replace(compiled, summary=f"{compiled.summary}; not run")
    run = _run(machine, pipeline, schedule, estimates)
    return replace(run, summary=f"{run.summary}; {compiled.summary}", kernels=compiled.kernels)


def _run(machine: Machine, pipeline: Any, schedule: Schedule, estimates: EstimateMap | None) -> Verification:
    options = RunOptions(threads=machine.host_threads, target=schedule.target, timing=None)
    row = verify_schedule(pipeline, schedule, options=options, estimates=estimates)
    if row.is_ok:
        return Verification(summary=row.detail, is_compared=True)
    return Verification(refusal=f"{row.status.value.replace('_', ' ')}: {row.detail}")


def _run_emulated(
    compiled: Verification,
    why: str,
    pipeline: Any,
    schedule: Schedule,
    *,
    threads: int,
    estimates: EstimateMap | None,
) -> Verification:
    """Run a schedule whose kernels were compiled on the emulated GPU, which may be too slow, or not know all of PTX."""
    options = RunOptions(
        threads=threads, target=schedule.target, timing=None, timeout_seconds=_EMULATION_SECONDS, is_emulated=True
    )
    checks = run_emulated(pipeline, schedule, options=options, estimates=estimates)
    right = [check.extents for check in checks if check.outcome is CheckOutcome.VERIFIED]
    for check in checks:
        if check.outcome is CheckOutcome.FAILED and not is_untold(check):
            return Verification(
                refusal=f"on an emulated GPU, at {check.extents}: {check.detail}", kernels=compiled.kernels
            )
    if right:
        sizes = " and ".join(right)
        return replace(
            compiled,
            summary=f"{compiled.summary}; right on an emulated GPU, for {why}, at {sizes}",
            is_compared=True,
        )
    reasons = "; ".join(dict.fromkeys(f"at {check.extents}: {check.detail}" for check in checks))
    return replace(compiled, summary=f"{compiled.summary}; not run, for {why}, and on an emulated one {reasons}")


def _compile(
    machine: GpuMachine, pipeline: Any, schedule: Schedule, sizes: BufferSizes, estimates: EstimateMap | None
) -> tuple[KernelReport, ...]:
    """Compile the kernels of a schedule, and hold each to the limits of the GPU."""
    kernels = inspect_kernels(
        pipeline,
        schedule,
        target=schedule.target,
        architectures=(machine.capability.architecture,),
        sizes=sizes,
        estimates=estimates,
    )
    return tuple(judge_kernel(kernel, machine.capability) for kernel in kernels)


def _judged(machine: GpuMachine, reports: tuple[KernelReport, ...]) -> Verification:
    """Refuse a schedule of which a kernel cannot be launched."""
    refused = [report.text for report in reports if not report.is_launchable]
    if refused:
        return Verification(refusal=f"it cannot be launched: {'; '.join(refused)}", kernels=reports)
    launched = launched_of(reports)
    architecture = machine.capability.architecture
    summary = f"{len(reports)} kernel{'s' * (len(reports) != 1)} compiled for {architecture}"
    if len(launched) < len(reports):
        summary += f", {len(launched)} of them for the estimated sizes"
    return Verification(summary=summary, kernels=reports)
