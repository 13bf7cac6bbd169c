"""Which types a target with OpenCL lacks: Halide makes code for them where the target has a feature, and refuses else.

In: a pipeline and a target. Out: nothing, or an error that names the Func and the feature.
"""

from typing import Any, Final

import halide as hl

from metol.errors import UnsupportedTargetError

__all__ = ["require_opencl_types"]

_FEATURES: Final = {64: ("cl_doubles", hl.TargetFeature.CLDoubles), 16: ("cl_half", hl.TargetFeature.CLHalf)}
"""By the bits of a floating-point type."""


def require_opencl_types(pipeline: hl.Pipeline, count: int, target: Any) -> None:
    """Make sure that a target has what OpenCL code needs for the types of a pipeline.

    Args:
        pipeline: The pipeline.
        count: Its Funcs, inputs among them.
        target: An hl.Target.

    Raises:
        UnsupportedTargetError: A Func has a type that it lacks a feature for.
    """
    if not target.has_feature(hl.TargetFeature.OpenCL):
        return
    for func in (pipeline.get_func(number) for number in range(count)):
        for kind in func.types() if func.defined() else ():
            name, feature = _FEATURES.get(kind.bits() if kind.is_float() else 0, ("", None))
            if name and not target.has_feature(feature):
                raise UnsupportedTargetError(
                    f"`{func.name().split('$')[0].removesuffix('_im')}` has values of type {kind}, for which OpenCL "
                    f"code needs the feature `{name}`. Add it to the target, as in `opencl-{name}`, if the device has "
                    "it, or use another target."
                )
