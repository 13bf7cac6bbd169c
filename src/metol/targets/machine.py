"""Which target a Halide target string asks for: the choice of a machine, and the numbers the core is given of it.

Enters: a Halide target. Leaves: a `Machine`, and the parameters from which the core makes its own target.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import halide as hl

from metol import _core
from metol.errors import MachineFormatError, SearchError, UnsupportedTargetError
from metol.pipeline import PipelineDag, Rfactor, Staging
from metol.targets.cpu import CpuMachine, cpu_parameters
from metol.targets.cpu import propose_rfactors as propose_for_cpu
from metol.targets.cpu import propose_stagings as propose_stagings_for_cpu
from metol.targets.gpu import GpuMachine, detect_gpu, detect_opencl, gpu_parameters
from metol.targets.gpu import propose_rfactors as propose_for_gpu
from metol.targets.gpu import propose_stagings as propose_stagings_for_gpu

__all__ = [
    "Machine",
    "can_run",
    "choose_machine",
    "default_target",
    "fit_target",
    "load_machine",
    "machine_parameters",
    "missing_processor",
    "parse_target",
    "propose_rfactors",
    "propose_stagings",
]

Machine: TypeAlias = CpuMachine | GpuMachine
"""A machine to schedule for. All have a `name` and `host_threads`."""

_GPU_FEATURES: Final = ("cuda", "opencl")
# What Halide has for other GPUs, so that they are understood, and refused as such.
_OTHER_GPU_FEATURES: Final = ("metal", "d3d12compute", "webgpu")
# More than any computer has; a system stops making them before long.
_MOST_THREADS: Final = 8192
_CAPABILITY: Final = "cuda_capability_"
# Sets of them that Halide's code uses wherever the target has them.
_INSTRUCTIONS: Final = (
    hl.TargetFeature.SSE41,
    hl.TargetFeature.AVX,
    hl.TargetFeature.F16C,
    hl.TargetFeature.FMA,
    hl.TargetFeature.AVX2,
    hl.TargetFeature.AVX512,
    hl.TargetFeature.AVX512_Skylake,
    hl.TargetFeature.AVX512_Cannonlake,
)
# The GPU of Sioutas et al. 2020, table 2, that stands for computers other than embedded ones; then one of each later
# architecture that Halide 21 has a feature for.
_USUAL_GPUS: Final = ("rtx2080ti", "a100", "rtx3090")


def parse_target(target: str | hl.Target | None) -> Any:
    """Return an hl.Target, that of this machine if None; ``cuda`` and ``opencl`` are GPUs beside its CPU.

    No driver is asked: ``host-cuda`` has no compute capability until `fit_target` adds that of a GPU.

    Raises:
        UnsupportedTargetError: Halide does not know the target, or it is of a kind that has no place here.
    """
    try:
        parsed: Any = hl.get_host_target() if target is None else _parse(_with_host(str(target)))
    except (hl.HalideError, RuntimeError) as error:
        if "vulkan" in str(target).split("-"):  # the library of which Halide looks for
            raise _left_out(str(target)) from error
        said = " ".join(str(error).split())
        raise UnsupportedTargetError(f"Halide does not know the target `{target}`: {said}") from error
    if parsed.has_gpu_feature() and not _is_known_gpu(parsed):
        raise _left_out(parsed.to_string())
    return parsed


def default_target(gpu: str | None) -> str:
    """Return the target where nobody states one: ``host``, or that of the GPU of a name.

    Raises:
        MachineFormatError: No GPU has that name.
    """
    if gpu is None:
        return "host"
    return "opencl" if GpuMachine.preset(gpu).capability.version is None else "cuda"


def _left_out(target: str) -> UnsupportedTargetError:
    return UnsupportedTargetError(
        f"The target `{target}` has a GPU that this version of Metol does not schedule for. "
        "Use cuda or opencl, as in `host-opencl`, or leave the GPU feature out, as in `host`."
    )


def choose_machine(
    target: hl.Target, machine: Machine | None = None, *, gpu: str | None = None, threads: int | None = None
) -> Machine:
    """Return the machine to schedule for.

    Args:
        target: What `parse_target` returned.
        machine: What the user asked for; None for the calibrated description of this CPU, for the GPU or the OpenCL
            device of this machine where a driver finds one that runs the target's code, and otherwise for an RTX 2080
            Ti, or, where the target states a higher compute capability than its, a later one.
        gpu: The name of a GPU, in place of `machine`.
        threads: Threads of the CPU to use; all of this process if None.

    Raises:
        UnsupportedTargetError: The machine is not of the kind that the target asks for, a CPU of another architecture
            or with wider vectors than the target has, or there are two.
        MachineFormatError: No GPU has that name.
        SearchError: `threads` is no number of threads.
    """
    if threads is not None and not (isinstance(threads, int) and 1 <= threads <= _MOST_THREADS):
        raise SearchError(f"A schedule is for 1 thread or more, up to {_MOST_THREADS}, not {threads!r}.")
    text = str(target.to_string())
    is_gpu = target.has_gpu_feature()
    has_cuda = target.has_feature(hl.TargetFeature.CUDA)
    if gpu is not None:
        machine = _named_gpu(gpu, machine, text, is_gpu=is_gpu, threads=threads)
    if machine is None and is_gpu:
        machine = detect_gpu(threads=threads) if has_cuda else detect_opencl(threads=threads)
        if machine is None or not can_run(machine, target):
            usual = (GpuMachine.preset(name, threads=threads) for name in _USUAL_GPUS)
            machine = next(each for each in usual if can_run(each, target))
    if machine is None:
        return CpuMachine.detect(text, threads=threads)
    if isinstance(machine, GpuMachine) != is_gpu:
        wanted = "GpuMachine" if is_gpu else "CpuMachine"
        raise UnsupportedTargetError(
            f"The target `{text}` needs a {wanted}, and `{machine.name}` is a {type(machine).__name__}. "
            "Pass a machine that fits the target, or none."
        )
    if isinstance(machine, CpuMachine) and (misfit := machine.misfit(target)):
        raise UnsupportedTargetError(
            f"The machine `{machine.name}` does not fit the target `{text}`: {misfit}. Pass "
            f'`CpuMachine.detect("{text}")`, a machine that was calibrated for the target, or none.'
        )
    if isinstance(machine, GpuMachine) and has_cuda and machine.capability.version is None:
        raise UnsupportedTargetError(
            f"The target `{text}` needs a GPU with CUDA, and `{machine.name}` has none. Use the target `host-opencl`, "
            "or another GPU."
        )
    return machine.for_opencl() if isinstance(machine, GpuMachine) and not has_cuda else machine


def load_machine(path: Path) -> Machine:
    """Read the description of a machine from a file, that of a CPU or of a GPU.

    Raises:
        MachineFormatError: It is something else; the message names the file.
    """
    text = path.read_text(encoding="utf-8")
    try:
        is_gpu = "capability" in json.loads(text)
        return GpuMachine.from_json(text) if is_gpu else CpuMachine.from_json(text)
    except (ValueError, RecursionError, TypeError, MachineFormatError) as error:
        raise MachineFormatError(f"{path}: {error}") from error


def fit_target(target: str | hl.Target | None, machine: Machine, *, is_chosen: bool) -> Any:
    """Return the target that schedules for a machine are compiled for: for CUDA, one with a compute capability.

    Halide's code for CUDA runs on GPUs of the capability of its target and on all later ones; where the target has
    none, it is made for the oldest GPUs. ``host-cuda`` is a target of this machine, and gets that of the GPU that is
    here, as Halide itself would say.

    Args:
        target: As the user wrote it, as for `parse_target`.
        machine: What `choose_machine` returned.
        is_chosen: Whether the user named the machine. A capability is added for such a one, and for the GPU that is
            here: what stands for GPUs that nobody named must not keep the code from others.

    Raises:
        UnsupportedTargetError: The target states a capability that the GPU does not have.
    """
    parsed = parse_target(target)
    if not isinstance(machine, GpuMachine) or machine.capability.version is None:
        return parsed
    if not is_chosen and not _is_this_machine(target, machine):
        return parsed
    if not _states_capability(target):
        parts = [part for part in str(parsed.to_string()).split("-") if not part.startswith(_CAPABILITY)]
        return hl.Target("-".join((*parts, machine.halide_feature)))
    if not can_run(machine, parsed):
        major, minor = _stated_capability(parsed)
        raise UnsupportedTargetError(
            f"The target `{target}` is for GPUs of compute capability {major}.{minor} and above, and "
            f"`{machine.name}` has {machine.capability}. Leave `{_CAPABILITY}{major}{minor}` out of the target, or "
            "name another GPU."
        )
    return parsed


def _states_capability(target: str | hl.Target | None) -> bool:
    """Whether a user wrote a capability: an hl.Target of ``host-cuda`` has that of the GPU here, if there is one."""
    if target is None or isinstance(target, str):
        return _CAPABILITY in (target or "")
    stated = [part for part in str(target).split("-") if part.startswith(_CAPABILITY)]
    here = detect_gpu() if stated else None
    return bool(stated) and (here is None or here.halide_feature not in stated)


def _is_this_machine(target: str | hl.Target | None, machine: GpuMachine) -> bool:
    """Whether a target is that of this machine, and a GPU its own."""
    is_host = isinstance(target, str) and _with_host(target).split("-")[0] == "host"
    return is_host and machine == detect_gpu(threads=machine.host_threads)


def missing_processor(target: hl.Target) -> str:
    """Tell why the processor of this machine cannot run code for a target; "" where it can."""
    host = hl.get_host_target()
    if (host.arch, host.os, host.bits) != (target.arch, target.os, target.bits):
        return f"this machine is {'-'.join(host.to_string().split('-')[:3])}"
    lacking = [
        feature.name.lower()
        for feature in _INSTRUCTIONS
        if target.has_feature(feature) and not host.has_feature(feature)
    ]
    return f"the processor of this machine has no {', '.join(lacking)}" if lacking else ""


def can_run(machine: GpuMachine, target: hl.Target) -> bool:
    """Whether a GPU has the compute capability that a target states, if any; OpenCL has none."""
    return machine.capability.version is None or machine.capability.version >= _stated_capability(target)


def _stated_capability(target: Any) -> tuple[int, int]:
    """The highest compute capability among the features of a target; (0, 0) without one."""
    features = [part for part in str(target.to_string()).split("-") if part.startswith(_CAPABILITY)]
    digits = (feature.removeprefix(_CAPABILITY) for feature in features)
    return max(((int(each[:-1]), int(each[-1])) for each in digits), default=(0, 0))


def _named_gpu(gpu: str, machine: Machine | None, target: str, *, is_gpu: bool, threads: int | None) -> GpuMachine:
    """Return the GPU of a name, where there is a place for one."""
    if machine is not None:
        raise UnsupportedTargetError(
            f"There is one machine to schedule for, and `{machine.name}` and the GPU `{gpu}` are two; pass one of them."
        )
    if not is_gpu:
        raise UnsupportedTargetError(
            f"A GPU is named for a target that has one, and `{target}` has none beside the GPU `{gpu}`; use the target "
            "`cuda` or `opencl` with it, or leave the GPU out."
        )
    return GpuMachine.preset(gpu, threads=threads)


def machine_parameters(machine: Machine, dag: PipelineDag) -> _core.MachineParameters:
    """Fill in what the core needs to know to search for schedules of one pipeline on one machine.

    Args:
        machine: Sizes and rates.
        dag: The pipeline.
    """
    if not isinstance(machine, GpuMachine):
        return cpu_parameters(machine, dag)
    return gpu_parameters(machine, dag)


def propose_rfactors(
    machine: Machine, dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int]
) -> tuple[tuple[Rfactor, ...], ...]:
    """Return updates of these Stages that are worth computing in two steps on a machine, or in three."""
    if isinstance(machine, GpuMachine):
        return propose_for_gpu(dag, schedules, stages, machine)
    return propose_for_cpu(dag, schedules, stages, machine)


def propose_stagings(
    machine: Machine, dag: PipelineDag, schedules: Sequence[_core.FuncSchedule], stages: Sequence[int]
) -> tuple[Staging, ...]:
    """Return what is worth copying for the Funcs of these Stages on a machine."""
    if isinstance(machine, GpuMachine):
        return propose_stagings_for_gpu(dag, schedules, stages)
    return propose_stagings_for_cpu(dag, schedules, stages, machine)


def _parse(target: str) -> Any:
    """Return the target of a text as Halide reads it, but for the second in which it asks the driver.

    Of ``host-cuda`` without a compute capability Halide compiles its runtime for CUDA, and runs it, to learn that of
    the GPU.
    """
    parts = target.split("-")
    asks = parts[0] == "host" and "cuda" in parts and _CAPABILITY not in target
    parsed = hl.Target("-".join(part for part in parts if part != "cuda") if asks else target)
    if asks:
        parsed.set_feature(hl.TargetFeature.CUDA)
    return parsed


def _with_host(target: str) -> str:
    """Return a target that Halide understands: it wants to be told the CPU beside a GPU."""
    return f"host-{target}" if target.split("-")[0] in (*_GPU_FEATURES, *_OTHER_GPU_FEATURES) else target


def _is_known_gpu(target: Any) -> bool:
    return any(target.has_feature(feature) for feature in (hl.TargetFeature.CUDA, hl.TargetFeature.OpenCL))
