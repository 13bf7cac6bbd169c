"""What samples were measured on: those of two GPUs, or of a GPU and a processor, are never taken for samples of one.

Enter: samples, and what was asked for. Leave: those of one device. Their features and terms differ between processors
and GPUs, and what a term costs between any two GPUs.
"""

from collections.abc import Sequence

import halide as hl

from metol.errors import MetolError
from metol.targets import parse_target
from metol.targets.gpu import GpuMachine
from metol.train.samples import ProgramSamples

__all__ = ["require_one_device", "samples_of"]

_PROCESSOR = "a processor"


def samples_of(
    programs: Sequence[ProgramSamples], target: str | None = None, gpu: str | None = None
) -> tuple[ProgramSamples, ...]:
    """Return the samples of one device.

    Args:
        programs: All samples.
        target: ``host`` for those of processors, ``cuda`` or ``opencl`` for those of a GPU; None for all.
        gpu: Part of the GPU's name, of which case, hyphens and spaces do not count, or a name of Metol's table; None
            for any.

    Raises:
        MetolError: there are none, or of several devices.
    """
    chosen = tuple(
        program
        for program in programs
        if (target is None or _kind(program.target) == _kind(target)) and (gpu is None or _is_named(program, gpu))
    )
    if programs and not chosen:
        wanted = " and ".join(
            text for text in (target and f"the target `{target}`", gpu and f"the GPU `{gpu}`") if text
        )
        raise MetolError(f"There are no samples for {wanted}; those that there are ran on {_listed(programs)}.")
    require_one_device(chosen)
    return chosen


def require_one_device(programs: Sequence[ProgramSamples]) -> None:
    """Raise MetolError where samples are of several GPUs, of one by CUDA and by OpenCL, or of GPUs and processors."""
    measured = [program for program in programs if program.samples]
    devices = {(_kind(program.target), program.device) for program in measured}
    if len(devices) > 1:
        raise MetolError(
            f"These samples ran on {_listed(measured)}, and what is true of one is not of another; choose one device "
            "by `--target` and `--gpu`."
        )


def _listed(programs: Sequence[ProgramSamples]) -> str:
    devices = {(program.device or _PROCESSOR, _kind(program.target)) for program in programs}
    return ", ".join(f"{name} ({kind})" for name, kind in sorted(devices))


def _kind(target: str) -> str:
    """Return what a target is a target of: cuda, opencl or host."""
    parsed = parse_target(target)
    if parsed.has_feature(hl.TargetFeature.CUDA):
        return "cuda"
    return "opencl" if parsed.has_feature(hl.TargetFeature.OpenCL) else "host"


def _is_named(program: ProgramSamples, gpu: str) -> bool:
    return bool(program.device) and (_plain(gpu) in _plain(program.device) or _is_listed(program, gpu))


def _is_listed(program: ProgramSamples, gpu: str) -> bool:
    try:
        return GpuMachine.preset(gpu).name == program.device
    except MetolError:
        return False


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())
