"""The application suites: pipelines with estimates and no schedule, by name.

What leaves is an `App` (algorithm, inputs, NumPy reference, tolerance) at the sizes of Adams et al. 2019, §6.1.
The modules of the apps, and with them Halide, are imported only when an app is asked for.
"""

import importlib

from metol.errors import UnknownAppError

from .app import SIZES, App, Inputs, Shape, Tolerance

__all__ = ["SIZES", "App", "Inputs", "Shape", "Tolerance", "get", "names", "network", "variants"]

_SUITE = {
    "harris": "harris:APP",
    "unsharp": "unsharp:APP",
    "stencil_chain": "stencil_chain:APP",
    "bilateral_grid": "bilateral_grid:APP",
    "hist": "hist:APP",
    "matmul": "matmul:APP",
    "local_laplacian": "local_laplacian:APP",
    "blur": "blur:APP",
    "interpolate": "interpolate:APP",
    "iir_blur": "iir_blur:APP",
    "max_filter": "max_filter:APP",
    "nl_means": "nl_means:APP",
    "conv_layer": "conv_layer:APP",
}
_FULL_SUITE = _SUITE | {
    "camera_pipe": "camera_pipe:APP",
    "lens_blur": "lens_blur:APP",
    "bgu": "bgu:APP",
    "depthwise_separable_conv": "depthwise_separable_conv:APP",
    "learned_demosaic": "learned_demosaic:APP",
}
_SUITES = {"core": _SUITE, "full": _FULL_SUITE}
_VARIANTS = {"matmul_f64": "matmul:APP_F64", "conv_relu": "conv_layer:APP_RELU"}
_NETWORK = tuple(
    f"resnet50_{part}"
    for part in ("stem", *(f"conv{stage}{first}" for stage in range(2, 6) for first in ("_first", "")), "head")
)


def names(suite: str = "core") -> tuple[str, ...]:
    """Return the names of a suite, one per application.

    Args:
        suite: `core`, the thirteen that tables are about where nothing else is said, or `full`, all of them.

    Raises:
        UnknownAppError: no suite has this name.
    """
    if suite not in _SUITES:
        raise UnknownAppError(f"No suite is called `{suite}`; choose one of {', '.join(_SUITES)}.")
    return tuple(_SUITES[suite])


def variants() -> tuple[str, ...]:
    """Return the names of the apps that `get` knows beside the suites: the same algorithm on another type or size."""
    return tuple(_VARIANTS)


def network() -> tuple[str, ...]:
    """Return the names of the parts of ResNet-50, which `get` knows, too."""
    return _NETWORK


def get(name: str) -> App:
    """Import and return one app of a suite, one variant, or one part of a network.

    Raises:
        UnknownAppError: no app has this name.
    """
    if name in _NETWORK:
        part: App = importlib.import_module(".resnet50", __package__).PARTS[name]
        return part
    location = (_FULL_SUITE | _VARIANTS).get(name)
    if location is None:
        known = ", ".join((*_FULL_SUITE, *_VARIANTS, *_NETWORK))
        raise UnknownAppError(f"No application is called `{name}`; choose one of {known}.")
    module, attribute = location.split(":")
    app: App = getattr(importlib.import_module(f".{module}", __package__), attribute)
    return app
