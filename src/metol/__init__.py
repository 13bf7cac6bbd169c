"""Metol turns a Halide algorithm into a fast, verified schedule.

`metol.autoschedule(pipeline)` finds and applies one; `metol.autotune(pipeline)` measures until it knows the fastest;
`metol.load(path).apply(pipeline)` applies one that was saved.
Names are imported when first used, so that `import metol` is quick.
"""

from typing import TYPE_CHECKING

from metol.lazy_names import lazy_names

if TYPE_CHECKING:
    from metol.autoschedule import Result, autoschedule
    from metol.errors import MetolError
    from metol.lower import Schedule, load
    from metol.options import SearchOptions
    from metol.targets.cpu import CpuMachine
    from metol.targets.gpu import GpuMachine
    from metol.tune import TuningResult, autotune

__all__ = [
    "CpuMachine",
    "GpuMachine",
    "MetolError",
    "Result",
    "Schedule",
    "SearchOptions",
    "TuningResult",
    "autoschedule",
    "autotune",
    "load",
]

_HOMES = {
    "CpuMachine": "metol.targets.cpu",
    "GpuMachine": "metol.targets.gpu",
    "MetolError": "metol.errors",
    "Result": "metol.autoschedule",
    "Schedule": "metol.lower",
    "SearchOptions": "metol.options",
    "TuningResult": "metol.tune",
    "autoschedule": "metol.autoschedule",
    "autotune": "metol.tune",
    "load": "metol.lower",
}

__getattr__ = lazy_names(__name__, _HOMES)
