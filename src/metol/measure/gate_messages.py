"""What a parent asks a child process that judges schedules: `OpenGate`, then any number of `Foresee` and `Judge`."""

from dataclasses import dataclass

from metol.measure.message import Message

__all__ = ["Foresee", "Judge", "Judgement", "OpenGate"]


@dataclass(frozen=True, slots=True)
class OpenGate(Message):
    """Get ready to judge schedules of a pipeline; the first request to a child that does nothing else."""

    file: str
    """What `save_pipeline` wrote."""
    target: str
    """A Halide target."""
    sizes: str
    """`BufferSizes` as JSON."""
    limits: str = ""
    """`BlockLimits` of the GPU as JSON; empty for a CPU."""


@dataclass(frozen=True, slots=True)
class Foresee(Message):
    """Begin with what `Judge` will ask, if it asks about this schedule; in place of what was foreseen before."""

    schedule: str
    """The saved schedule, as JSON."""


@dataclass(frozen=True, slots=True)
class Judge(Message):
    """Lower a schedule, without compiling it, and look at the regions that it asks for."""

    schedule: str
    """The saved schedule, as JSON."""


@dataclass(frozen=True, slots=True)
class Judgement(Message):
    """The answer to `Judge`."""

    refusal: str
    """Why the schedule must not be used; empty where it may."""
