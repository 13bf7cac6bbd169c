"""The room that reads pipelines: a Halide Pipeline enters, an immutable DAG of Funcs, Stages and Edges leaves.

The DAG is what Adams et al. 2019, §4.1, call algorithm-specific: bounds, Jacobians and op histograms, whatever the
schedule.
"""

from metol.pipeline.aliasing import funcs_before_outputs
from metol.pipeline.dag import (
    Joint,
    LoweredPipeline,
    OpClass,
    PipelineDag,
    Rfactor,
    Staging,
    constant_value,
    copy_pipeline,
    extract,
    func_names,
    op_classes,
    placements,
    restore_output_estimates,
    reuse_device_allocations,
    strip_schedules,
)
from metol.pipeline.estimates import EstimateMap, read_estimates
from metol.pipeline.joints import find_joints
from metol.pipeline.names import base_name

__all__ = [
    "EstimateMap",
    "Joint",
    "LoweredPipeline",
    "OpClass",
    "PipelineDag",
    "Rfactor",
    "Staging",
    "base_name",
    "constant_value",
    "copy_pipeline",
    "extract",
    "find_joints",
    "func_names",
    "funcs_before_outputs",
    "op_classes",
    "placements",
    "read_estimates",
    "restore_output_estimates",
    "reuse_device_allocations",
    "strip_schedules",
]
