"""Which cost model a search goes by: trained weights where there are any for the machine, else the analytical model.

Enters: a machine, and what the user asked for. Leave: weights, or none.
"""

import functools
from pathlib import Path

from metol import _core
from metol.cost import Weights
from metol.errors import WeightsError
from metol.targets import Machine
from metol.targets.cpu import CpuMachine, default_cache_directory

__all__ = ["ANALYTICAL", "AUTO", "choose_weights", "own_weights_path"]

AUTO = "auto"
"""The CPU's or the GPU's own weights, else those that come with Metol for the CPU's vectors, else none."""

ANALYTICAL = "analytical"
"""No weights: the analytical model alone."""

# Learned from machines with vectors of these sizes.
_SHIPPED = Path(__file__).parent / "cost" / "shipped" / "x86-64.npz"
_SHIPPED_FOR = (32, 64)


def choose_weights(name: str, machine: Machine, space: _core.Space) -> Weights | None:
    """Return the weights for a machine; None for the analytical model.

    Args:
        name: AUTO, ANALYTICAL, or the path of a file.
        machine: What is scheduled for.
        space: Whose features they are to be about. Of a named file that is left to whoever uses it.

    Raises:
        WeightsError: there is no such file, or it is something else.
    """
    if name == ANALYTICAL:
        return None
    if name != AUTO:
        return _load(Path(name))
    is_shipped = isinstance(machine, CpuMachine) and machine.vector_bytes in _SHIPPED_FOR
    candidates = [own_weights_path(machine), *([_SHIPPED] if is_shipped else [])]
    return next((weights for path in candidates if (weights := _fitting(path, space)) is not None), None)


def _fitting(path: Path, space: _core.Space) -> Weights | None:
    """Return weights that nobody named, unless there are none, or they are of another release of Metol."""
    if not path.is_file():
        return None
    try:
        weights = _load(path)
        weights.require_fit(space)
    except WeightsError:
        return None
    return weights


def own_weights_path(machine: Machine) -> Path:
    """Return where the weights lie that were trained here: by `metol calibrate --full`, or by `metol train gpu`."""
    if isinstance(machine, CpuMachine):
        return machine.cache_path().with_suffix(".weights.npz")
    return default_cache_directory() / f"gpu-{machine.fingerprint}.weights.npz"


def _load(path: Path) -> Weights:
    # A file that is written anew is read anew.
    return _read(path, path.stat().st_mtime_ns if path.is_file() else 0)


@functools.lru_cache(maxsize=4)
def _read(path: Path, _: int) -> Weights:
    return Weights.load(path)
