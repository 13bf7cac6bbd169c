"""Which Funcs a GPU cannot run, so that the CPU beside it does.

In: a GPU and a pipeline. Out: Funcs. Halide 21 calls functions in OpenCL code that nothing defines where bits are
counted, and makes wrong code there of `~` of truth values and of remainders of floats; in CUDA all are right. What an
extern stage reads is not copied to the host before the C function is called, on either; nor is what it computes copied
to the GPU where it is an output.
"""

from metol.pipeline import PipelineDag
from metol.targets.gpu.machine import GpuMachine

__all__ = ["host_funcs"]


def host_funcs(machine: GpuMachine, dag: PipelineDag) -> frozenset[int]:
    """Return the Funcs that stay on the host, those included that can only have another such inlined.

    Args:
        machine: The GPU.
        dag: The pipeline.
    """
    is_opencl = machine.capability.version is None
    found = {stage.func for stage in dag.stages if is_opencl and stage.is_unfit_for_opencl}
    read = {edge.producer for stage in dag.stages if stage.is_extern for edge in stage.edges}
    found |= {func for func in read if not dag.funcs[func].is_input and not dag.funcs[func].is_extern}
    made = {index for index, func in enumerate(dag.funcs) if func.is_extern and func.is_output}
    found |= {stage.func for stage in dag.stages if any(edge.producer in made for edge in stage.edges)}
    waiting = list(found)
    while waiting:
        func = waiting.pop()
        if not dag.funcs[func].must_inline:
            continue
        readers = {stage.func for stage in dag.stages if any(edge.producer == func for edge in stage.edges)}
        waiting += readers - found
        found |= readers
    return frozenset(found)
