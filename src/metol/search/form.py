"""A form of a pipeline: updates computed in two steps, reads that may be copied, and its search space."""

from dataclasses import dataclass

from metol import _core
from metol._core import Rfactor, Staging
from metol.pipeline import PipelineDag

__all__ = ["Form"]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a pipeline."""

    dag: PipelineDag
    """The pipeline after `rfactors` and `stagings`."""
    space: _core.Space
    """Its search space."""
    rfactors: tuple[Rfactor, ...] = ()
    """What is computed in two steps."""
    stagings: tuple[Staging, ...] = ()
    """What may be copied."""
