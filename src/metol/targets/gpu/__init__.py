"""GPUs: their description and the numbers that the core searches with."""

from metol.targets.gpu.machine import GpuMachine
from metol.targets.gpu.parameters import gpu_parameters

__all__ = ["GpuMachine", "gpu_parameters"]
