"""A form of a pipeline: outputs in the same loops, updates in two steps, reads that may be copied; its search space."""

from dataclasses import dataclass

import numpy as np

from metol import _core
from metol._core import Rfactor, Staging
from metol.pipeline import Joint, PipelineDag

__all__ = ["Form", "draw_place"]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a pipeline."""

    dag: PipelineDag
    """The pipeline after `joints`, `rfactors` and `stagings`."""
    space: _core.Space
    """Its search space."""
    rfactors: tuple[Rfactor, ...] = ()
    """What is computed in two steps."""
    stagings: tuple[Staging, ...] = ()
    """What may be copied."""
    joints: tuple[Joint, ...] = ()
    """Outputs that are computed in the same loops."""


def draw_place(count: int, first_share: float, rng: np.random.Generator) -> int:
    """Draw one of `count` forms: the first with this share, and any of the others alike."""
    if count == 1 or rng.random() < first_share:
        return 0
    return int(rng.integers(1, count))
