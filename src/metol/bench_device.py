"""The GPU that `metol bench --gpu` is about: this machine's, an OpenCL device, or one that is merely named.

In: a name, or none. Out: a `BenchDevice`, and schedulers that know it. Sioutas et al. 2020, table 2, tell schedulers
as much of a GPU.
"""

from dataclasses import dataclass

from metol.errors import MetolError, MissingDeviceError
from metol.measure import OWN, Scheduler
from metol.targets.gpu import GpuMachine, detect_gpu

__all__ = ["BenchDevice", "find_bench_device", "wanted_device"]

# What a user is told where there is nothing to run on.
_NO_GPU = (
    "No GPU was found: there is no CUDA driver here, or none that answers. `--device opencl` takes the OpenCL device, "
    "and `--device a100` a GPU by name, with none at hand: `metol bench --search-speed` compares the searches for it, "
    "and `metol verify-random` emulates it."
)

_OPENCL = "opencl"
_OPENCL_MACHINE = "opencl-cpu"
# Work of a lane that multiplies and adds in one instruction, as data sheets count.
_OPERATIONS_PER_LANE = 2


@dataclass(frozen=True, slots=True)
class BenchDevice:
    """A GPU, and what a child process is told about it."""

    machine: GpuMachine
    """Its description."""
    name: str = ""
    """The name by which Metol finds the description; empty for the GPU of this machine."""

    @property
    def target(self) -> str:
        """The Halide target to schedule and compile for."""
        feature = self.machine.halide_feature
        return f"host-{_OPENCL}" if feature == _OPENCL else f"host-cuda-{feature}"

    @property
    def is_opencl(self) -> bool:
        """Whether it is an OpenCL device."""
        return self.machine.capability.version is None

    @property
    def is_here(self) -> bool:
        """Whether it may be run on: the GPU of this machine, or its OpenCL device."""
        return self.name in ("", _OPENCL_MACHINE)

    @property
    def operations_per_second(self) -> float:
        """32-bit operations a second at best; a multiplication with an addition counts as two."""
        machine = self.machine
        return _OPERATIONS_PER_LANE * machine.multiprocessors * machine.lanes * machine.clock_hz

    def tell(self, scheduler: Scheduler) -> Scheduler:
        """Return a scheduler that knows this GPU, as far as its kind asks for it."""
        if scheduler.name in OWN:
            return scheduler.told({"gpu": self.name} if self.name else {})
        if scheduler.name == "li2018":
            return scheduler.told({"parallelism": self.machine.multiprocessors})
        if scheduler.name != "anderson2021":
            return scheduler
        limits = self.machine.capability
        return scheduler.told(
            {
                "parallelism": self.machine.multiprocessors,
                "shared_memory_limit_kb": self.machine.shared_bytes_per_block // 1024,
                "shared_memory_sm_limit_kb": limits.shared_bytes_per_multiprocessor // 1024,
                "active_block_limit": limits.max_blocks_per_multiprocessor,
                "active_warp_limit": limits.max_warps_per_multiprocessor,
            }
        )


def find_bench_device(name: str | None, *, threads: int) -> BenchDevice | None:
    """Return the GPU of a name, ``opencl`` for the OpenCL device; without a name that of this machine, None for none.

    Raises:
        MachineFormatError: there is none of that name; the message lists all there are.
    """
    if name is None:
        machine = detect_gpu(threads=threads)
        return None if machine is None else BenchDevice(machine)
    known = _OPENCL_MACHINE if name.casefold() == _OPENCL else name
    machine = GpuMachine.preset(known, threads=threads)
    device = BenchDevice(machine, known)
    return BenchDevice(machine, _OPENCL_MACHINE) if device.is_opencl else device


def wanted_device(name: str | None, *, is_wanted: bool, threads: int) -> BenchDevice | None:
    """Return the GPU that a command line asks for with `--gpu` and `--device NAME`; None without.

    Raises:
        MetolError: there is a name alone.
        MachineFormatError: there is none of that name.
        MissingDeviceError: this machine has none.
    """
    if not is_wanted:
        if name is not None:
            raise MetolError(f"`--device {name}` says which GPU `--gpu` is about; add `--gpu`.")
        return None
    device = find_bench_device(name, threads=threads)
    if device is None:
        raise MissingDeviceError(_NO_GPU)
    return device
