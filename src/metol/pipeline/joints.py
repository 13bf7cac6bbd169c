"""Outputs of a pipeline that can be computed in the same loops.

A DAG enters. Leaves: which outputs to join, for `extract`. What two outputs read is then computed inside loops of both,
where Halide, with loops for each, has no place for it but the root.
"""

import itertools
from collections import defaultdict

from metol._core import Func, PipelineDag

__all__ = ["find_joints"]


def find_joints(dag: PipelineDag) -> tuple[tuple[int, ...], ...]:
    """Return sets of outputs of the same loops and the same estimated region that read something alike.

    Args:
        dag: A pipeline without joints.

    Returns:
        Joints for `extract`, without an output that is in two of them.
    """
    alike: dict[object, list[int]] = defaultdict(list)
    read = {edge.producer for stage in dag.stages for edge in stage.edges}
    for output in sorted(set(dag.outputs)):
        if output not in read and dag.outputs.count(output) == 1 and _is_plain(dag, output):
            alike[_shape(dag.funcs[output])].append(output)
    needs = _needs(dag)
    joints = [joint for outputs in alike.values() for joint in _related(outputs, needs) if len(joint) > 1]
    return tuple(tuple(dag.funcs[output].origin for output in joint) for joint in joints)


def _related(outputs: list[int], needs: list[set[int]]) -> list[list[int]]:
    """Outputs in sets of those that depend on something alike, or on what a third one does."""
    sets: list[list[int]] = []
    for output in outputs:
        own = [other for other in sets if any(needs[one] & needs[output] for one in other)]
        sets = [other for other in sets if other not in own]
        sets.append(sorted([*itertools.chain.from_iterable(own), output]))
    return sets


def _is_plain(dag: PipelineDag, output: int) -> bool:
    func = dag.funcs[output]
    is_defined = len(func.stages) == 1 and not dag.stages[func.stages[0]].is_undef
    return is_defined and not func.is_extern and func.dimensions > 0


def _shape(func: Func) -> object:
    region = tuple((side.min, side.extent) for side in func.estimate)
    return tuple(func.args), region, func.dense_dim, func.row_dim, func.interleaved, func.has_known_place


def _needs(dag: PipelineDag) -> list[set[int]]:
    """What each Func depends on, inputs included."""
    needs: list[set[int]] = [set() for _ in dag.funcs]
    for number, func in enumerate(dag.funcs):  # producers come first, and images need nothing
        for stage in func.stages:
            for edge in dag.stages[stage].edges:
                needs[number] |= {edge.producer} | needs[edge.producer]
        needs[number].discard(number)
    return needs
