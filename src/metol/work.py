"""What a pipeline cannot do without: points computed once, their operations, inputs and outputs moved once.

In: a form of a pipeline, for the CPU. Out: counts, whatever the schedule.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metol.pipeline import op_classes
from metol.search import Form

if TYPE_CHECKING:
    from metol.pipeline import PipelineDag

__all__ = ["Work", "least_points", "least_work"]

# Classes that are no operations on values: they are loads and stores, or what registers hold anyway.
_NO_OPERATIONS = ("Constant", "LoopVariable", "Parameter", "Address", "Store", "Scatter")


@dataclass(frozen=True, slots=True)
class Work:
    """The least that any schedule computes and moves."""

    operations: float
    """Operations on values, scalar ones, with each point of each Stage computed once."""
    read_bytes: int
    """Bytes of all inputs."""
    written_bytes: int
    """Bytes of all outputs."""

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.operations / (self.read_bytes + self.written_bytes)


def least_points(form: Form) -> npt.NDArray[np.float64]:
    """Return the points of each Stage that some other needs, [stages]; for a form on a CPU."""
    space = form.space
    (rows,) = space.featurize(space.rollout(space.root(), [0]))
    points: npt.NDArray[np.float64] = rows[:, tuple(space.feature_table()).index("points_computed_minimum")].astype(
        np.float64
    )
    return points


def least_work(form: Form) -> Work:
    """Count the operations and the bytes of a form on a CPU."""
    points = least_points(form)
    operations = sum(
        float(points[number]) * count
        for number, stage in enumerate(form.dag.stages)
        for op, count in zip(op_classes(), stage.op_histogram, strict=True)
        if not (op.name.startswith("Load") or op.name in _NO_OPERATIONS)
    )
    return Work(operations, *_bytes(form.dag))


def _bytes(dag: "PipelineDag") -> tuple[int, int]:
    """Bytes of all inputs, and of all outputs."""
    sizes = [
        func.bytes_per_point * math.prod(interval.max - interval.min + 1 for interval in func.root_region)
        for func in dag.funcs
    ]
    read = sum(size for size, func in zip(sizes, dag.funcs, strict=True) if func.is_input)
    return read, sum(sizes[output] for output in dag.outputs)
