"""Metol turns a Halide algorithm into a fast, verified schedule.

`metol.autoschedule(pipeline)` finds and applies one; `metol.load(path).apply(pipeline)` applies one that was saved.
Names are imported when first used, so that `import metol` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metol.autoschedule import Result, autoschedule
    from metol.errors import MetolError
    from metol.lower import Schedule, load
    from metol.options import SearchOptions
    from metol.targets.cpu import CpuMachine
    from metol.targets.gpu import GpuMachine

__all__ = ["CpuMachine", "GpuMachine", "MetolError", "Result", "Schedule", "SearchOptions", "autoschedule", "load"]

_HOMES = {
    "CpuMachine": "metol.targets.cpu",
    "GpuMachine": "metol.targets.gpu",
    "MetolError": "metol.errors",
    "Result": "metol.autoschedule",
    "Schedule": "metol.lower",
    "SearchOptions": "metol.options",
    "autoschedule": "metol.autoschedule",
    "load": "metol.lower",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, and with it all others of its module."""
    if name not in _HOMES:
        raise AttributeError(f"module `metol` has no attribute `{name}`")
    home = import_module(_HOMES[name])
    # All at once: importing `metol.autoschedule` has put the module where the function of that name belongs.
    globals().update({other: getattr(home, other) for other in _HOMES if _HOMES[other] == _HOMES[name]})
    return globals()[name]
