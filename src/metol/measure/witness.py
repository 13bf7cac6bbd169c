"""The plainest schedule for a target: what its device makes of a pipeline, whatever Metol makes of it.

A pipeline enters, and leaves with each Func at root: on a GPU with a kernel for each Stage, on a CPU in vectors. It
rounds floats, and calls functions of them, as the device of other schedules does, and shares with them nothing of
`lower`: each loop that is split has a guard, so that a tail that is wrong there is not wrong here.
"""

from typing import Any

import halide as hl

from metol import _core
from metol.errors import MetolError
from metol.measure.at_root import schedule_at_root
from metol.pipeline import extract

__all__ = ["schedule_as_witness"]

# A block of so many threads runs on every device, and is large enough for none to be slow.
_BLOCK = 64
# A grid has three dimensions; one is that of the blocks along the first loop.
_OTHER_BLOCK_DIMS = 2


def schedule_as_witness(pipeline: Any, target: Any) -> None:
    """Compute every Func at root, in the plainest way that makes use of a target.

    Raises:
        MetolError: Nothing is known of the pipeline, or not all of it can run on the device of the target.
    """
    schedule_at_root(pipeline)
    dag = extract(pipeline)
    is_opencl = target.has_feature(hl.TargetFeature.OpenCL)
    if any(stage.is_extern or (is_opencl and stage.is_unfit_for_opencl) for stage in dag.stages):
        raise MetolError("Some of the pipeline runs on the host alone, so that there is no plainest schedule.")
    schedule = _as_kernel if target.has_gpu_feature() else _in_vectors
    for position, func in enumerate(dag.funcs):
        if not (func.is_input or func.must_inline):
            for stage in (dag.stages[number] for number in func.stages):
                schedule(pipeline.get_func(position), stage, target)


def _as_kernel(func: Any, stage: _core.Stage, target: Any) -> None:
    """Give each point a thread, and what has none a device to itself.

    ``for y: for x`` --> ``gpu_block y: gpu_block x_outer: gpu_thread x_inner``
    """
    call = func if stage.index == 0 else func.update(stage.index - 1)
    first, *others = _pure_loops(func, stage) or [None]
    if first is None:
        call.gpu_single_thread()
        return
    outer, inner = hl.Var(f"{first.name()}_outer"), hl.Var(f"{first.name()}_inner")
    call.split(first, outer, inner, _BLOCK, hl.TailStrategy.GuardWithIf)
    call.reorder(*_rvars(func, stage), inner, outer, *others)
    call.gpu_threads(inner)
    call.gpu_blocks(outer, *others[:_OTHER_BLOCK_DIMS])


def _in_vectors(func: Any, stage: _core.Stage, target: Any) -> None:
    """Compute neighbours in one vector: ``for x: for r`` --> ``for x_outer: for r: vectorized x_inner``."""
    call = func if stage.index == 0 else func.update(stage.index - 1)
    loops = _pure_loops(func, stage)
    first = next((place for place, loop in enumerate(stage.loops) if not loop.is_rvar), None)
    if first is None or stage.bare_loops[first]:
        return
    outer, inner = hl.Var(f"{loops[0].name()}_outer"), hl.Var(f"{loops[0].name()}_inner")
    lanes = min(target.natural_vector_size(value) for value in func.types())
    call.split(loops[0], outer, inner, lanes, hl.TailStrategy.GuardWithIf)
    call.reorder(inner, *_rvars(func, stage), outer, *loops[1:])
    call.vectorize(inner)


def _pure_loops(func: Any, stage: _core.Stage) -> list[Any]:
    variables = {variable.name(): variable for variable in func.args()}
    return [variables[loop.name] for loop in stage.loops if not loop.is_rvar]


def _rvars(func: Any, stage: _core.Stage) -> list[Any]:
    return list(func.rvars(stage.index - 1)) if stage.index else []
