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
    return frozenset(func for stage in late for func in _producers(dag, stage) if _needs_an_input(dag, func, set()))


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


def _needs_an_input(dag: PipelineDag, position: int, seen: set[int]) -> bool:
    """Does a Func, or anything that is computed for it, read an input?"""
    seen.add(position)
    edges = (edge.producer for stage in dag.funcs[position].stages for edge in dag.stages[stage].edges)
    return dag.funcs[position].is_input or any(_needs_an_input(dag, p, seen) for p in edges if p not in seen)
