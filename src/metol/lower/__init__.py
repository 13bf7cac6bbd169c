"""From a list of directives to a scheduled pipeline, Python source, C++ source or a file.

Enters: `Directive`s, which name Funcs and loops of a pipeline by position. Leaves: a `Schedule` and its four outputs.
"""

from typing import TYPE_CHECKING

from metol.lazy_names import lazy_names

if TYPE_CHECKING:
    from metol.errors import RefusedDirectiveError
    from metol.lower.cpu import cpu_directives
    from metol.lower.directive import Argument, Call, Directive, Loop, RVar, Site, Tail, Var
    from metol.lower.from_cpp import read_cpp
    from metol.lower.func_ref import FuncRef, describe_funcs, pipeline_funcs
    from metol.lower.function_name import FUNCTION_NAME, require_function_name
    from metol.lower.gpu import gpu_directives
    from metol.lower.json_format import schedule_identity
    from metol.lower.lowering_options import NO_PROMISES, LoweringOptions
    from metol.lower.mend import mend_schedule, mended_versions
    from metol.lower.rewrites import rewritten_directives
    from metol.lower.safe_schedule import plain_directives, root_directives, safe_directives
    from metol.lower.schedule import Schedule, load
    from metol.lower.schedule_data import Estimate, Kept, Measured
    from metol.lower.target import target_directives

__all__ = [
    "FUNCTION_NAME",
    "NO_PROMISES",
    "Argument",
    "Call",
    "Directive",
    "Estimate",
    "FuncRef",
    "Kept",
    "Loop",
    "LoweringOptions",
    "Measured",
    "RVar",
    "RefusedDirectiveError",
    "Schedule",
    "Site",
    "Tail",
    "Var",
    "cpu_directives",
    "describe_funcs",
    "gpu_directives",
    "load",
    "mend_schedule",
    "mended_versions",
    "pipeline_funcs",
    "plain_directives",
    "read_cpp",
    "require_function_name",
    "rewritten_directives",
    "root_directives",
    "safe_directives",
    "schedule_identity",
    "target_directives",
]

_HOMES = {
    "Argument": "metol.lower.directive",
    "Call": "metol.lower.directive",
    "Directive": "metol.lower.directive",
    "Estimate": "metol.lower.schedule_data",
    "FUNCTION_NAME": "metol.lower.function_name",
    "FuncRef": "metol.lower.func_ref",
    "Kept": "metol.lower.schedule_data",
    "Loop": "metol.lower.directive",
    "LoweringOptions": "metol.lower.lowering_options",
    "Measured": "metol.lower.schedule_data",
    "NO_PROMISES": "metol.lower.lowering_options",
    "RVar": "metol.lower.directive",
    "RefusedDirectiveError": "metol.errors",
    "Schedule": "metol.lower.schedule",
    "Site": "metol.lower.directive",
    "Tail": "metol.lower.directive",
    "Var": "metol.lower.directive",
    "cpu_directives": "metol.lower.cpu",
    "describe_funcs": "metol.lower.func_ref",
    "gpu_directives": "metol.lower.gpu",
    "load": "metol.lower.schedule",
    "mend_schedule": "metol.lower.mend",
    "mended_versions": "metol.lower.mend",
    "pipeline_funcs": "metol.lower.func_ref",
    "plain_directives": "metol.lower.safe_schedule",
    "read_cpp": "metol.lower.from_cpp",
    "require_function_name": "metol.lower.function_name",
    "rewritten_directives": "metol.lower.rewrites",
    "root_directives": "metol.lower.safe_schedule",
    "safe_directives": "metol.lower.safe_schedule",
    "schedule_identity": "metol.lower.json_format",
    "target_directives": "metol.lower.target",
}

__getattr__ = lazy_names(__name__, _HOMES)
