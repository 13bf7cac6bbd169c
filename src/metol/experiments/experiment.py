"""What an experiment is, and how one is run: subject after subject, each kept in a file as soon as it is measured.

In: an `Experiment` and its `Setting`. Out: an `Outcome` for each subject.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from metol.bench_device import BenchDevice
from metol.measure import PipelineSource, Progress, RunOptions, Scheduler
from metol.row_file import RowFile
from metol.text_table import TextTable
from metol.tune import TuningBudget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "Outcome", "OutcomeFile", "Point", "Setting", "kept_notes", "run_experiment", "series_of"]

ROW_VERSION = 1


@dataclass(frozen=True, slots=True)
class Point:
    """What was found of one subject in one way."""

    series: str
    """The way: a scheduler, a mode, a switch."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Numbers by name, the unit in the name: ``run_ms``. What is unknown is missing."""
    note: str = ""
    """Why something is missing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that was found of one subject."""

    measurement: str
    """What was measured (`Experiment.measurement`)."""
    subject: str
    """A pipeline, as tables name it, or whatever the experiment varies."""
    circumstances: str
    """What it depends on beside."""
    points: tuple[Point, ...] = ()
    """What was found, in the order of plots and tables; none where there was nothing to measure."""
    note: str = ""
    """Why there was nothing to measure."""

    def value(self, series: str, name: str) -> float | None:
        """Return one number; None where it is unknown."""
        return next((point.values.get(name) for point in self.points if point.series == series), None)

    def to_row(self) -> dict[str, Any]:
        """Return the outcome as it stands in a result file."""
        points = [{"series": one.series, "values": dict(one.values), "note": one.note} for one in self.points]
        return {
            "measurement": self.measurement,
            "subject": self.subject,
            "circumstances": self.circumstances,
            "points": points,
            "note": self.note,
        }

    @staticmethod
    def from_row(row: dict[str, Any]) -> "Outcome":
        """Read a row of a result file."""
        return Outcome(**{**row, "points": tuple(Point(**point) for point in row["points"])})


class OutcomeFile(RowFile[Outcome]):
    """Outcomes, of one experiment or of several."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ROW_VERSION, Outcome.from_row, "outcomes of experiments")


@dataclass(frozen=True, slots=True)
class Setting:
    """What an experiment is about, and how it measures."""

    sources: tuple[PipelineSource, ...]
    """The pipelines of experiments about applications."""
    schedulers: tuple[Scheduler, ...]
    """Metol, and those that it is compared with."""
    options: RunOptions
    """How to measure."""
    programs: int = 100
    """Random programs that are measured."""
    budget: TuningBudget = TuningBudget(seconds=60.0)  # noqa: RUF009 - it is frozen
    """What tuning may spend on one pipeline."""
    progress: Progress = lambda _: None
    """Told about each step."""
    device: BenchDevice | None = None
    """The GPU that experiments run on which need one."""
    keeps_rows: bool = False
    """Whether rows count that other code or another machine measured, with a note that says so."""

    @property
    def schedulers_text(self) -> str:
        """The schedulers, for what rows depend on."""
        return f"schedulers {' '.join(map(str, self.schedulers))}"

    def __str__(self) -> str:
        timing = self.options.timing
        rounds = timing.max_rounds if timing else 0
        return f"timeout {self.options.timeout_seconds:g} s, rounds {rounds}, seed {self.options.seed}"


class Experiment(ABC):
    """One of the papers' experiments, or one of ours."""

    title: ClassVar[str]
    """What it shows, in a line."""
    measurement: ClassVar[str]
    """What is measured: experiments that show the same rows in different ways share them."""
    needs_device: ClassVar[bool] = False
    """Whether it runs on a GPU."""
    takes_apps: ClassVar[bool] = False
    """Whether it is about the applications that are asked for; others have subjects of their own."""

    @abstractmethod
    def subjects(self, setting: Setting) -> Iterable[str]:
        """Return what is to be measured, one after the other; there may be no end to them."""

    @abstractmethod
    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Measure one subject: its points or, where there are none, why."""

    @abstractmethod
    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return what a person reads of it."""

    @abstractmethod
    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw what a person sees of it into an empty figure."""

    def depends_on(self, setting: Setting) -> str:
        """Say what of the setting the rows depend on."""
        return str(setting)

    def is_enough(self, outcomes: Sequence[Outcome], setting: Setting) -> bool:
        """Tell whether no further subject is to be measured."""
        return False

    def notes(self, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
        """Return what a reader of the tables must know: why something is missing."""
        whole = [f"{one.subject}: {one.note}" for one in outcomes if one.note]
        parts = [
            f"{one.subject}, {point.series}: {point.note}" for one in outcomes for point in one.points if point.note
        ]
        return (*whole, *parts)

    def is_right(self, outcomes: Sequence[Outcome]) -> bool:
        """Tell whether nothing of Metol's is wrong or failed."""
        return not any(point.note for one in outcomes for point in one.points if point.series.startswith("metol"))


def series_of(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return the series that any outcome has, in the order of their first points."""
    return tuple(dict.fromkeys(point.series for one in outcomes for point in one.points))


def kept_notes(outcomes: Sequence[Outcome], circumstances: str) -> tuple[str, ...]:
    """Say of outcomes that were kept from other code or another machine which they are, and where they are from."""
    kept: dict[str, list[str]] = {}
    for one in outcomes:
        if not one.circumstances.startswith(f"{circumstances}; "):
            kept.setdefault(one.circumstances, []).append(one.subject)
    return tuple(f"{', '.join(subjects)}: kept from another run: {where}" for where, subjects in kept.items())


def run_experiment(
    experiment: Experiment,
    setting: Setting,
    *,
    circumstances: str,
    known: Iterable[Outcome] = (),
    save: Callable[[Outcome], None] = lambda _: None,
) -> Iterator[Outcome]:
    """Measure the subjects of an experiment; yield each outcome when it is there.

    Args:
        experiment: what to measure.
        setting: how.
        circumstances: code and machine, which the rows depend on; the experiment adds what they depend on beside.
        known: outcomes of an earlier run; those of the same circumstances are yielded again, not measured. Where the
            setting keeps rows, code and machine may have been others.
        save: called with each new outcome before it is yielded.
    """
    asked = f"; {experiment.depends_on(setting)}"
    here = circumstances + asked
    done: dict[str, Outcome] = {}
    for one in known:
        if one.measurement != experiment.measurement:
            continue
        if one.circumstances == here:
            done[one.subject] = one
        elif setting.keeps_rows and one.points and one.circumstances.endswith(asked):
            done.setdefault(one.subject, one)
    outcomes: list[Outcome] = []
    for subject in experiment.subjects(setting):
        if experiment.is_enough(outcomes, setting):
            return
        outcome = done.get(subject)
        if outcome is None:
            points, note = experiment.measure(subject, setting)
            outcome = Outcome(experiment.measurement, subject, here, points, note)
            save(outcome)
        outcomes.append(outcome)
        yield outcome
