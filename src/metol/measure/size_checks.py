"""Whether a schedule is right at every size: those at which tails, vectors and guards go wrong if anything does.

In: a saved schedule and sizes of its outputs. Out: a `SizeCheck` for each size. A schedule is compiled once and run at
all of them, on inputs between pages that cannot be touched, and compared with everything at root. A size that the
pipeline does not allow, whatever its schedule, is told apart from a failure.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any

from metol.lower import Schedule
from metol.measure import messages as m
from metol.measure.case_names import ESTIMATED, SMALL_EXTENT
from metol.measure.gate import split_factors
from metol.measure.halide_values import halide_type
from metol.measure.scheduler import Scheduler
from metol.measure.second_opinion import SecondOpinion
from metol.measure.source import PipelineSource
from metol.measure.trial import RunOptions, Trial

__all__ = ["CheckOutcome", "OutputSizes", "SizeCheck", "SizeChecker", "sizes_to_check"]

Extents = tuple[tuple[int, ...], ...]  # of each output buffer, x first

# Of the estimate, for the odd large size: large enough for every tile, and no multiple of anything once made odd.
_LARGE_SHARE = 0.75
# Of dimensions that a size says nothing about: small, so that the reference is quick, and divided by no usual factor.
_OTHER_EXTENT = 3


class CheckOutcome(str, Enum):
    """What became of one size. The values are what result files hold."""

    VERIFIED = "verified"
    NOT_ALLOWED = "not_allowed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OutputSizes:
    """One size of all outputs."""

    name: str
    """What is particular about it."""
    extents: Extents
    """Of each output buffer, x first."""

    @property
    def text(self) -> str:
        """The extents for a person, such as ``1532x2556``."""
        return ", ".join("x".join(map(str, sides)) or "scalar" for sides in self.extents)


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """What became of one size."""

    size: str
    """What is particular about it."""
    extents: str
    """The extents for a person."""
    outcome: CheckOutcome
    """Whether the result is right; what refuses a size that it promised to refuse is right, too."""
    detail: str = ""
    """Why it is not, or why the pipeline does not allow the size."""

    def to_row(self) -> dict[str, Any]:
        """Return the check as it stands in a result file."""
        return asdict(self) | {"outcome": self.outcome.value}

    @staticmethod
    def from_row(row: dict[str, Any]) -> "SizeCheck":
        """Read what `to_row` wrote."""
        return SizeCheck(**{**row, "outcome": CheckOutcome(row["outcome"])})


def sizes_to_check(pipeline: Any, schedule: Schedule, target: Any) -> tuple[OutputSizes, ...]:
    """Choose sizes for one schedule: the estimated one, tiny ones, and those around its vectors and tiles.

    Around a vector means one lane less and one more than a native vector of the output's type, along its first
    dimension; around a tile, one less and one more than what the output's own loops are split by, for each level of
    splits. Dimensions that are estimated as channels keep their extent.
    """
    from metol.measure.cases import output_shapes  # with NumPy, which not every process needs that comes by here

    shapes = output_shapes(pipeline)
    funcs = {func.output: func.index for func in schedule.funcs if func.output >= 0}
    buffers = [place for place, func in enumerate(pipeline.outputs()) for _ in func.output_buffers()]
    estimates = [shape.extents for shape in shapes]
    factors = [split_factors(schedule, funcs[place]) for place in buffers]
    lanes = [target.natural_vector_size(halide_type(shape.dtype)) for shape in shapes]

    def sizes(name: str, wanted: Sequence[Mapping[int, int]]) -> OutputSizes:
        pairs = zip(estimates, wanted, strict=True)
        return OutputSizes(name, tuple(_extents(estimate, sides) for estimate, sides in pairs))

    every = [range(len(estimate)) for estimate in estimates]
    chosen = [
        OutputSizes(ESTIMATED, tuple(estimates)),
        sizes("1x1", [dict.fromkeys(dims, 1) for dims in every]),
        sizes("3x5", [{d: 5 if d % 2 else 3 for d in dims} for dims in every]),
    ]
    levels = max((len(set(found)) for by_dim in factors for found in by_dim.values()), default=0)
    for sign, step in (("-", -1), ("+", 1)):
        chosen.append(sizes(f"vector{sign}1", [{0: max(1, count + step)} for count in lanes]))
        for level in range(levels):
            tiles = [{d: max(1, _at(found, level) + step) for d, found in by_dim.items()} for by_dim in factors]
            chosen.append(sizes(f"tile{level if level else ''}{sign}1", tiles))
    chosen.append(sizes("odd", [{d: int(e * _LARGE_SHARE) | 1 for d, e in enumerate(sides)} for sides in estimates]))
    distinct: dict[Extents, OutputSizes] = {}
    for size in chosen:
        distinct.setdefault(size.extents, size)
    return tuple(distinct.values())


def _at(factors: Sequence[int], level: int) -> int:
    """The factor of a level, from the smallest; the largest where there are fewer."""
    distinct = sorted(set(factors))
    return distinct[min(level, len(distinct) - 1)]


def _extents(estimate: Sequence[int], sides: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(e if e <= SMALL_EXTENT else sides.get(d, _OTHER_EXTENT) for d, e in enumerate(estimate))


class SizeChecker:
    """Checks schedules of one pipeline. A context manager: leaving it ends the child of the reference.

    The reference runs once at each size, however many schedules are checked there.
    """

    def __init__(self, source: PipelineSource, options: RunOptions, folder: Path) -> None:
        """Get ready.

        Args:
            source: the pipeline.
            options: how to run; the time limit is for each size anew.
            folder: an existing one, for the cases, and for whatever else the caller likes.
        """
        self._source = source
        self._options = options
        self.folder = folder
        self._reference: Trial | None = None
        self._second = SecondOpinion(source, options, folder)
        self._cases: dict[Extents, tuple[str, SizeCheck | None]] = {}

    def check(self, file: Path, sizes: Sequence[OutputSizes]) -> Iterator[SizeCheck]:
        """Compile a saved schedule once, run it at each size, and yield what became of each.

        Code that dies of a size is compiled again for the next.

        Raises:
            MetolError: the pipeline cannot be built.
        """
        scheduler = Scheduler.of_file(file)
        with contextlib.ExitStack() as stack:
            trial: Trial | None = None
            for size in sizes:
                case, verdict = self._case(size)
                if verdict is not None:
                    yield verdict
                    continue
                if trial is None or not trial.is_alive:
                    trial = Trial(self._source, scheduler, self._options)
                    stack.callback(trial.close)
                    trial.compile()
                yield self._run(trial, size, case, may_run=size.name == ESTIMATED or not scheduler.has_fixed_sizes)

    def _run(self, trial: Trial, size: OutputSizes, case: str, *, may_run: bool) -> SizeCheck:
        trial.renew_time()
        failed = SizeCheck(size.name, size.text, CheckOutcome.FAILED)
        answer = trial.check(case)
        if answer is None:
            return replace(failed, detail=trial.measurement.problem)
        if isinstance(answer, m.Failure):
            detail = f"{answer.error}: {answer.message}"
            is_right = not may_run and answer.error == "HalideError"
            return replace(failed, outcome=CheckOutcome.VERIFIED if is_right else CheckOutcome.FAILED, detail=detail)
        if not may_run:
            return replace(failed, detail="it runs at a size that it promised to refuse")
        if not answer.is_equal:
            answer = self._second.verdict(trial, case, answer)
        if not answer.is_equal:
            return replace(failed, detail=f"wrong result: {answer.text}")
        return replace(failed, outcome=CheckOutcome.VERIFIED)

    def _case(self, size: OutputSizes) -> tuple[str, SizeCheck | None]:
        """Return the folder of a case, or what became of the size where the reference does not run at it."""
        if size.extents not in self._cases:
            self._cases[size.extents] = self._make_case(size)
        folder, verdict = self._cases[size.extents]
        return folder, verdict and replace(verdict, size=size.name)

    def _make_case(self, size: OutputSizes) -> tuple[str, SizeCheck | None]:
        folder = str(self.folder / f"case_{len(self._cases)}")
        if self._reference is None or not self._reference.is_alive:
            self._reference = Trial(self._source, Scheduler("reference"), self._options)
            self._reference.compile()
        self._reference.renew_time()
        extents = [list(sides) for sides in size.extents]
        answer = self._reference.make_case(m.MakeCase(folder, size.name, extents, self._options.seed))
        if isinstance(answer, m.CasesMade) and answer.cases:
            return folder, None
        outcome, detail = CheckOutcome.FAILED, f"no reference: {self._reference.measurement.detail}"
        if isinstance(answer, m.CasesMade):
            outcome, detail = CheckOutcome.NOT_ALLOWED, answer.note
        elif isinstance(answer, m.Failure):
            detail = f"{answer.error}: {answer.message}"
            outcome = CheckOutcome.NOT_ALLOWED if answer.error == "HalideError" else CheckOutcome.FAILED
        return folder, SizeCheck(size.name, size.text, outcome, detail)

    def close(self) -> None:
        """End the children of the references."""
        self._second.close()
        if self._reference is not None:
            self._reference.close()

    def __enter__(self) -> "SizeChecker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
