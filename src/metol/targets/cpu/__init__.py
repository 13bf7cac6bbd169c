"""CPUs: their description, its calibration, and the numbers that the core searches with."""

from metol.targets.cpu.calibrate import calibrate, measure_moving, measure_operations
from metol.targets.cpu.machine import CpuMachine, MachineRow, default_cache_directory, vector_isa
from metol.targets.cpu.parameters import cpu_parameters
from metol.targets.cpu.rfactors import propose_rfactors
from metol.targets.cpu.stagings import propose_stagings

__all__ = [
    "CpuMachine",
    "MachineRow",
    "calibrate",
    "cpu_parameters",
    "default_cache_directory",
    "measure_moving",
    "measure_operations",
    "propose_rfactors",
    "propose_stagings",
    "vector_isa",
]
