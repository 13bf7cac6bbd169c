"""GPUs: their description and the numbers that the core searches with."""

from metol.targets.gpu.compute_capability import CAPABILITIES, OPENCL, ComputeCapability, compute_capability
from metol.targets.gpu.devices import DEVICES
from metol.targets.gpu.driver import detect_gpu
from metol.targets.gpu.host_funcs import host_funcs
from metol.targets.gpu.machine import GpuMachine
from metol.targets.gpu.occupancy import Limit, Occupancy, occupancy
from metol.targets.gpu.opencl_devices import detect_opencl, has_opencl_device
from metol.targets.gpu.opencl_types import require_opencl_types
from metol.targets.gpu.parameters import gpu_parameters, lane_cycles
from metol.targets.gpu.rfactors import propose_rfactors
from metol.targets.gpu.stagings import propose_stagings

__all__ = [
    "CAPABILITIES",
    "DEVICES",
    "OPENCL",
    "ComputeCapability",
    "GpuMachine",
    "Limit",
    "Occupancy",
    "compute_capability",
    "detect_gpu",
    "detect_opencl",
    "gpu_parameters",
    "has_opencl_device",
    "host_funcs",
    "lane_cycles",
    "occupancy",
    "propose_rfactors",
    "propose_stagings",
    "require_opencl_types",
]
