"""Which machine a time was measured on.

In: this machine, and what of it schedules run on. Out: a description for people, and a fingerprint that is the same as
long as times can be compared.
"""

import hashlib
import os
from typing import Any

import halide as hl

from metol.targets import Machine
from metol.targets.cpu import CpuMachine
from metol.targets.gpu import GpuMachine
from metol.tune.record import canonical

__all__ = ["fingerprint", "machine_identity"]

_DIGITS = 16


def machine_identity(machine: Machine | None = None) -> dict[str, Any]:
    """Return the processor, its cores and what Halide takes it for: not how much of it this process may use.

    Args:
        machine: What schedules run on. A GPU is named beside the processor, so that the times of several GPUs, and
            those of the processor, are never taken for times of one machine.
    """
    identity = {
        "cpu": CpuMachine.default().name,
        "cores": os.cpu_count(),
        "target": str(hl.get_host_target().to_string()),
    }
    return {**identity, "gpu": machine.name} if isinstance(machine, GpuMachine) else identity


def fingerprint(identity: dict[str, Any]) -> str:
    """Return 16 hexadecimal digits for a description that `machine_identity` made."""
    return hashlib.sha256(canonical(identity).encode()).hexdigest()[:_DIGITS]
