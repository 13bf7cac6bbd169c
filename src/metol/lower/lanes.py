"""Which way the lanes of a vector go through what they read.

In: a Stage, the loop that its vectors lie along, which Funcs are inlined into it, and how each lies in memory. Out:
whether any of its loads has lanes one below the other.
"""

from collections.abc import Callable, Container

from metol import _core
from metol.pipeline import PipelineDag

__all__ = ["descends", "inlined_loop"]


def inlined_loop(dag: PipelineDag, func: int, dimension: int) -> tuple[_core.Stage, int]:
    """Return the definition of an inlined Func, and the position of the loop that walks a dimension of it."""
    definition = dag.stages[dag.funcs[func].stages[0]]
    (loop,) = (i for i, dim in enumerate(definition.loops) if dim.pure_dim == dimension)
    return definition, loop


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

    def reads_downwards(producer: int, dimension: int, row: _core.JacobianRow) -> bool:
        if not row.is_known[loop] or abs(row.numerator[loop]) != row.denominator[loop]:
            return False
        turned = (row.numerator[loop] < 0) != backwards
        if producer not in inlined:
            return turned and dimension == dense_dim(producer)
        return descends(dag, *inlined_loop(dag, producer, dimension), inlined, dense_dim, backwards=turned)

    # Of its own Func an update reads no lane but its own.
    return any(
        reads_downwards(edge.producer, dimension, row)
        for edge in stage.edges
        for access in edge.accesses
        for dimension, row in enumerate(access.jacobian)
    )
