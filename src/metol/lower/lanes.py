"""Which way the lanes of a vector go through what they read.

In: a Stage, the loop that its vectors lie along, which Funcs are inlined into it, and how each lies in memory. Out:
whether any of its loads has lanes one below the other.
"""

from collections.abc import Callable, Container

from metol import _core
from metol.pipeline import PipelineDag

__all__ = ["descends"]


def descends(
    dag: PipelineDag,
    stage: _core.Stage,
    loop: int,
    inlined: Container[int],
    dense_dim: Callable[[int], int],
    *,
    backwards: bool = False,
) -> bool:
    """Does a Stage read anything one place further down in memory for each turn of a loop, as of `f[99 - x]`?

    Args:
        dag: The pipeline.
        stage: The Stage.
        loop: Position of the loop in it.
        inlined: The Funcs that are part of what reads them.
        dense_dim: The dimension of a Func whose neighbours are neighbours in memory.
        backwards: Whether the Stage itself is evaluated from the end of the loop on.
    """
    # Of its own Func an update reads no lane but its own.
    reads = [(edge.producer, access) for edge in stage.edges for access in edge.accesses]
    for producer, access in reads:
        for dimension, row in enumerate(access.jacobian):
            if not row.is_known[loop] or abs(row.numerator[loop]) != row.denominator[loop]:
                continue
            turned = (row.numerator[loop] < 0) != backwards
            if producer not in inlined:
                if turned and dimension == dense_dim(producer):
                    return True
                continue
            definition = dag.stages[dag.funcs[producer].stages[0]]
            (through,) = (i for i, inner in enumerate(definition.loops) if inner.pure_dim == dimension)
            if descends(dag, definition, through, inlined, dense_dim, backwards=turned):
                return True
    return False
