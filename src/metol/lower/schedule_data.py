"""What a finished schedule consists of: which pipeline it is for, and the list of directives.

Enters: what extraction and lowering know. Leaves: an immutable value that every output (`apply`, Python, C++, JSON)
reads. That the directives make sense together is checked here, once, when it is made.
"""

import math
from dataclasses import dataclass, field

from metol.errors import ScheduleFormatError
from metol.lower.check import check_directives
from metol.lower.directive import Directive
from metol.lower.func_ref import FuncRef

__all__ = ["Estimate", "Kept", "Measured", "ScheduleData"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The size that an output, an input or a scalar parameter was assumed to have."""

    name: str
    """Base name of the Func, or name of the parameter."""
    bounds: tuple[tuple[int, int], ...] = ()
    """(min, extent) of each dimension; empty for a scalar."""
    value: int | float | bool | None = None
    """The value of a scalar parameter, None for the others."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A Func whose schedule is written by hand, and that the directives were made to go with."""

    func: int
    """Position in `Pipeline.get_func`."""
    placement: str
    """Where that schedule puts it: ``inline``, ``root`` or ``at``."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How fast a schedule was when somebody measured it."""

    run_ms: float
    """Median milliseconds of a run."""
    interval_ms: tuple[float, float] | None
    """Confidence interval of that median; None where it is not known."""
    threads: int
    """Threads that it ran with."""
    machine: str
    """Fingerprint of the machine: 16 hexadecimal digits."""
    cpu: str
    """The processor, for people."""
    is_cold: bool
    """Whether caches were emptied before each run."""
    made_at: str
    """When, as ISO 8601 in UTC."""

    def __post_init__(self) -> None:
        low, high = self.range_ms
        if not (0 < self.run_ms < math.inf and 0 <= low <= high < math.inf and self.threads > 0):
            raise ScheduleFormatError(
                f"No schedule takes {self.run_ms:g} ms ({low:g} to {high:g}) with {self.threads} threads. "
                "Correct `measured`, or leave it out."
            )

    @property
    def range_ms(self) -> tuple[float, float]:
        """The interval; where it is not known, the median alone."""
        return self.interval_ms or (self.run_ms, self.run_ms)


@dataclass(frozen=True, slots=True)
class ScheduleData:
    """A list of directives, and the pipeline, machine and sizes that they are for."""

    funcs: tuple[FuncRef, ...]
    """Every Func of the pipeline, in the order of `Pipeline.get_func`."""
    directives: tuple[Directive, ...]
    """The calls in the order to make them, all those of one Func next to each other."""
    target: str = ""
    """The Halide target that the schedule is for."""
    estimates: tuple[Estimate, ...] = ()
    """The sizes that the schedule was made for."""
    algorithm_hash: str = ""
    """16 hexadecimal digits that name the algorithm, or "" where unknown."""
    halide_version: str = ""
    """The Halide that the schedule was made with."""
    metol_version: str = ""
    """The Metol that made the schedule."""
    kept: tuple[Kept, ...] = ()
    """The Funcs that must carry their hand-written schedule before the directives are applied."""
    measured: Measured | None = field(default=None, compare=False)
    """How fast it was; two schedules that make the same calls are equal however fast they were."""

    @property
    def has_fixed_sizes(self) -> bool:
        """Whether the code is for outputs of the estimated size; at run time it refuses others that it is wrong for."""
        return any(directive.call.fixes_size for directive in self.directives)

    def __post_init__(self) -> None:
        check_directives(self.funcs, self.directives)
        positions = {keep.func for keep in self.kept}
        for directive in self.directives:
            if directive.func in positions:
                raise ScheduleFormatError(
                    f"`{directive}` schedules a Func that is to keep the schedule written by hand. "
                    "Correct it, or make the schedule anew."
                )
        if not positions <= set(range(len(self.funcs))):
            raise ScheduleFormatError(f"There is no Func {max(positions)} to keep the schedule of.")
