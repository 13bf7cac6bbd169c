"""Which cost model a search goes by: trained weights where there are any for the machine, else the analytical model.

Enters: a machine, and what the user asked for. Leave: weights, or none.
"""

import functools
from pathlib import Path

from metol.cost import Weights
from metol.targets import Machine
from metol.targets.cpu import CpuMachine

__all__ = ["ANALYTICAL", "AUTO", "choose_weights", "own_weights_path"]

AUTO = "auto"
"""This machine's own weights, else those that come with Metol for its vectors, else none."""

ANALYTICAL = "analytical"
"""No weights: the analytical model alone."""

_SHIPPED = Path(__file__).parent / "cost" / "shipped"
_NAMES = {64: "x86-64-avx512.npz", 32: "x86-64-avx2.npz"}


def choose_weights(name: str, machine: Machine) -> Weights | None:
    """Return the weights for a machine; None for the analytical model.

    Args:
        name: AUTO, ANALYTICAL, or the path of a file.
        machine: What is scheduled for.

    Raises:
        WeightsError: there is no such file, or it is something else.
    """
    if name == ANALYTICAL or (name == AUTO and not isinstance(machine, CpuMachine)):
        return None
    if name != AUTO:
        return _load(Path(name))
    assert isinstance(machine, CpuMachine)
    candidates = (own_weights_path(machine), _SHIPPED / _NAMES.get(machine.vector_bytes, "none"))
    return next((_load(path) for path in candidates if path.is_file()), None)


def own_weights_path(machine: CpuMachine) -> Path:
    """Return where the weights lie that were trained on this machine by `metol calibrate --full`."""
    return machine.cache_path().with_suffix(".weights.npz")


def _load(path: Path) -> Weights:
    # A file that is written anew is read anew.
    return _read(path, path.stat().st_mtime_ns if path.is_file() else 0)


@functools.lru_cache(maxsize=4)
def _read(path: Path, _: int) -> Weights:
    return Weights.load(path)
