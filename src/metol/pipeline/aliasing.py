"""What an output that lies over an input would take away from those who read that input later.

Enters: the DAG of a pipeline whose author said that an output may be the same memory as an input. Leaves: the Funcs
that must be computed, at root, before any output is written.
"""

from metol import _core
from metol.pipeline.dag import PipelineDag

__all__ = ["funcs_before_outputs"]


def funcs_before_outputs(dag: PipelineDag) -> frozenset[int]:
    """Return the Funcs that are to be computed at root, so that what they read of an input has not been overwritten.

    The first definition of a pipeline's only output reads each point before it writes it, wherever its producers are
    computed. Its updates, and the definitions of several outputs, come when an output has been written: what they read
    must know the inputs' values by then. What they read of an input themselves, no schedule can save.
    """
    outputs = [func for func in dag.funcs if func.is_output]
    first = 1 if len(outputs) == 1 else 0
    late = [dag.stages[stage] for output in outputs for stage in output.stages[first:]]
    return frozenset(func for stage in late for func in _producers(dag, stage)) & _funcs_on_inputs(dag)


def _producers(dag: PipelineDag, stage: _core.Stage) -> set[int]:
    """The Funcs that are computed for a Stage and can be at root.

    What Halide compiles inline alone is part of the Stage, and so is a copy for it.
    """
    found: set[int] = set()
    for edge in stage.edges:
        func = dag.funcs[edge.producer]
        if func.must_inline or func.is_wrapper:
            found |= _producers(dag, dag.stages[func.stages[0]])
        elif not func.is_input and not func.is_output:
            found.add(edge.producer)
    return found


def _funcs_on_inputs(dag: PipelineDag) -> set[int]:
    """The Funcs that are inputs, or for which anything that reads one is computed."""
    found: set[int] = set()
    for position, func in enumerate(dag.funcs):  # producers first
        edges = (edge for stage in func.stages for edge in dag.stages[stage].edges)
        if func.is_input or any(edge.producer in found for edge in edges):
            found.add(position)
    return found
