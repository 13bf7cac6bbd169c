"""GPUs by name: what their data sheets say.

In: nothing. Out: a table. What follows from the compute capability is in compute_capability.py.
"""

from dataclasses import dataclass
from typing import Final

from metol.errors import MachineFormatError
from metol.targets.gpu.compute_capability import OPENCL, ComputeCapability, compute_capability

__all__ = ["DEVICES", "LAUNCH_SECONDS", "Device", "find_device"]

LAUNCH_SECONDS: Final = 3e-6
"""From one kernel to the next, on any GPU: what is commonly seen of launches that wait in a queue."""

_KIB: Final = 2**10
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Device:
    """One line of the table."""

    title: str
    """What its maker calls it."""
    capability: ComputeCapability
    """The limits and rates of one multiprocessor."""
    multiprocessors: int | None
    """Streaming multiprocessors; None where they are the cores of the CPU that this process may run on."""
    clock_hz: float
    """Boost clock."""
    memory_bytes_per_second: float
    """Between memory and the last cache, as the data sheet has it."""
    l2_bytes: int
    """The last cache."""
    launch_seconds: float = LAUNCH_SECONDS
    """From one kernel to the next."""


# fmt: off
DEVICES: Final = {
    "gtx750ti":      Device("NVIDIA GeForce GTX 750 Ti", compute_capability(5, 0), 5, 1.085e9, 86.4e9, 2 * _MIB),
    "gtx980":        Device("NVIDIA GeForce GTX 980", compute_capability(5, 2), 16, 1.216e9, 224e9, 2 * _MIB),
    "nano":          Device("NVIDIA Jetson Nano", compute_capability(5, 3), 1, 0.9216e9, 25.6e9, 256 * _KIB),
    "p100":          Device("NVIDIA P100 SXM2", compute_capability(6, 0), 56, 1.48e9, 732e9, 4 * _MIB),
    "gtx1080ti":     Device("NVIDIA GeForce GTX 1080 Ti", compute_capability(6, 1), 28, 1.582e9, 484e9, 2816 * _KIB),
    "tx2":           Device("NVIDIA Jetson TX2", compute_capability(6, 2), 2, 1.3e9, 59.7e9, 512 * _KIB),
    "v100":          Device("NVIDIA V100 SXM2", compute_capability(7, 0), 80, 1.53e9, 900e9, 6 * _MIB),
    "xavier":        Device("NVIDIA Jetson AGX Xavier", compute_capability(7, 2), 8, 1.377e9, 136.5e9, 512 * _KIB),
    "t4":            Device("NVIDIA T4", compute_capability(7, 5), 40, 1.59e9, 320e9, 4 * _MIB),
    "rtx2070":       Device("NVIDIA GeForce RTX 2070", compute_capability(7, 5), 36, 1.62e9, 448e9, 4 * _MIB),
    "rtx2080ti":     Device("NVIDIA GeForce RTX 2080 Ti", compute_capability(7, 5), 68, 1.545e9, 616e9, 5632 * _KIB),
    "a100":          Device("NVIDIA A100 40 GB", compute_capability(8, 0), 108, 1.41e9, 1555e9, 40 * _MIB),
    "rtx3060laptop": Device("NVIDIA GeForce RTX 3060 Laptop", compute_capability(8, 6), 30, 1.425e9, 336e9, 3 * _MIB),
    "rtx3090":       Device("NVIDIA GeForce RTX 3090", compute_capability(8, 6), 82, 1.695e9, 936e9, 6 * _MIB),
    "orin":          Device("NVIDIA Jetson AGX Orin 64 GB", compute_capability(8, 7), 16, 1.3e9, 204.8e9, 4 * _MIB),
    "rtx4090":       Device("NVIDIA GeForce RTX 4090", compute_capability(8, 9), 128, 2.52e9, 1008e9, 72 * _MIB),
    "h100":          Device("NVIDIA H100 SXM", compute_capability(9, 0), 132, 1.98e9, 3352e9, 50 * _MIB),
    "h200":          Device("NVIDIA H200 SXM", compute_capability(9, 0), 132, 1.98e9, 4800e9, 60 * _MIB),
    "opencl-cpu":    Device("OpenCL on a CPU", OPENCL, None, 3e9, 1e10, 8 * _MIB, 5e-5),
}
# fmt: on
"""By the name that people type. ``rtx2080ti`` and ``xavier`` are those of Sioutas et al. 2020, table 2."""


def find_device(name: str) -> Device:
    """Return the device of a name, of which case, hyphens, underscores and spaces do not count.

    Raises:
        MachineFormatError: There is none; the message lists all there are.
    """
    wanted = _plain(name)
    for known, device in DEVICES.items():
        if _plain(known) == wanted:
            return device
    raise MachineFormatError(
        f"A GPU is named as in Metol's table, and `{name}` is not there; use one of {', '.join(DEVICES)}, or describe "
        "yours by a `metol.GpuMachine`."
    )


def _plain(name: str) -> str:
    return "".join(name.split()).replace("-", "").replace("_", "").casefold()
