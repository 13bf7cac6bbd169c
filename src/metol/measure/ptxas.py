"""NVIDIA's assembler of GPU code: where it is, and what it says of each kernel.

Enters: PTX, as Halide makes it, and an architecture. Leaves: registers, stack, spills and static shared memory of each
kernel. ``ptxas --verbose`` has no other output than text.
"""

import importlib.metadata
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from metol.errors import KernelError, MissingToolError

__all__ = ["Resources", "assemble", "find_ptxas"]

# The extra `cuda` brings the first: release 12.9 assembles for all GPUs from 5.0 to 12.1, later ones for 7.5 and above.
_PACKAGES: Final = ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc")

# Halide's runtime tells the driver to use no more (CU_JIT_MAX_REGISTERS), unless HL_CUDA_JIT_MAX_REGISTERS is set where
# the schedule runs. What a thread needs besides is spilled; a block of 1024 threads finds room in 65536 registers.
_MAX_REGISTERS: Final = 64

_KERNEL = re.compile(r"^ptxas info\s*: Compiling entry function '(?P<kernel>[^']+)'", re.MULTILINE)
_REGISTERS = re.compile(r"\bUsed (\d+) registers")
_STATIC_SHARED = re.compile(r"\b(\d+) bytes smem")
# The line after that which names the function; a kernel may call others, which have lines of their own.
_STACK = r"Function properties for {}\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
_ERROR_LINE = re.compile(r", line (\d+);")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes on one architecture."""

    registers: int
    """Of a thread, 32 bits each."""
    stack_bytes: int
    """Of a thread, in local memory."""
    spill_store_bytes: int
    """Stored by a thread for want of registers, by all instructions that do so together."""
    spill_load_bytes: int
    """Loaded back."""
    static_shared_bytes: int
    """Shared memory that the code itself asks for; Halide's asks at the launch."""


def find_ptxas() -> Path:
    """Return the assembler: that of an installed package, otherwise the first on the path.

    Raises:
        MissingToolError: There is none.
    """
    for package in _PACKAGES:
        try:
            files = importlib.metadata.files(package) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if file.name == "ptxas" and path.is_file():
                return path
    on_path = shutil.which("ptxas")
    if on_path is None:
        raise MissingToolError(
            "Kernels are checked with NVIDIA's assembler `ptxas`, and there is none here; install it with "
            "`pip install .[cuda]` in Metol's checkout, or put that of a CUDA toolkit on the path."
        )
    return Path(on_path)


def assemble(code: str, architecture: str, ptxas: Path) -> Mapping[str, Resources]:
    """Assemble PTX as Halide's runtime has the driver do, and return what each kernel takes, by its name.

    Args:
        code: The PTX.
        architecture: Such as ``sm_80``.
        ptxas: The assembler.

    Raises:
        KernelError: It refuses the code or the architecture, or dies.
    """
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        file = Path(folder) / "kernels.ptx"
        file.write_text(code, encoding="utf-8")
        command = [str(ptxas), "--verbose", f"--gpu-name={architecture}", f"--maxrregcount={_MAX_REGISTERS}", str(file)]
        command += ["--output-file", str(Path(folder) / "kernels.cubin")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            raise KernelError(f"`{ptxas}` cannot be run: {error}") from error
    said = done.stderr + done.stdout
    if done.returncode != 0:
        raise KernelError(_refusal(said.replace(str(file), file.name), code, architecture, done.returncode))
    return _resources(said, architecture)


def _resources(said: str, architecture: str) -> dict[str, Resources]:
    """Read what ``ptxas --verbose`` says; each kernel has a paragraph, which ends where the next begins."""
    starts = list(_KERNEL.finditer(said))
    ends = [*(start.start() for start in starts[1:]), len(said)]
    return {
        start["kernel"]: _resources_of(start["kernel"], said[start.start() : end], architecture)
        for start, end in zip(starts, ends, strict=True)
    }


def _resources_of(kernel: str, said: str, architecture: str) -> Resources:
    registers, shared = _REGISTERS.search(said), _STATIC_SHARED.search(said)
    stack = re.search(_STACK.format(re.escape(kernel)), said)
    if registers is None or stack is None:
        raise KernelError(f"ptxas tells of `{kernel}` for {architecture} in words that Metol cannot read: {said}")
    frame, stores, loads = map(int, stack.groups())
    return Resources(int(registers[1]), frame, stores, loads, 0 if shared is None else int(shared[1]))


def _refusal(said: str, code: str, architecture: str, status: int) -> str:
    """Say what ptxas says, and of which kernel where it tells the line."""
    text = " | ".join(line.strip() for line in said.splitlines() if line.strip() and " info " not in line)
    line = _ERROR_LINE.search(text)
    before = _ENTRY.findall("\n".join(code.splitlines()[: int(line[1])])) if line else []
    where = f"kernel `{before[-1]}`" if before else "kernels"
    return f"ptxas refuses the {where} for {architecture}: {text or f'it ended with exit code {status}'}"
