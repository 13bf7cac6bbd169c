"""Programs that nobody wrote, and no weights were fitted to: Metol beside its peers, and beside its own predictions.

In: how many programs, and from which seed on. Out: points of each scheduler, Metol's with the run time that it
predicts. The schedules of one program are verified and timed in turn. Source: Adams et al. 2019, §6.2, figures 6 and 7.
"""

import math
import statistics
import tempfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from metol.experiments.drawing import COLOURS, draw_legend
from metol.experiments.experiment import Experiment, Outcome, Point, Setting, series_of
from metol.experiments.schedulers import RUN, SEARCH, race
from metol.measure import PipelineSource, Scheduler
from metol.text_table import NOTHING, TextTable, geometric_mean, three_digits
from metol.train import CollectPlan
from metol.variants import schedule_variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIRST_SEED", "Predictions", "SpeedUps"]

FIRST_SEED = 100_000
"""Programs from here on are not trained on: `metol train generate` begins at 0."""

_METOL = "metol"
_GREEDY = "metol:strategy=greedy"
_PREDICTED = "predicted_ms"


class _RandomPrograms(Experiment):
    """What both figures show; programs predicted to be much faster than 0.1 ms or slower than 100 do not count."""

    measurement = "random programs"

    def __init__(self, plan: CollectPlan | None = None) -> None:
        self._plan = plan or CollectPlan()

    def subjects(self, setting: Setting) -> Iterator[str]:
        """Programs by their seeds, without end."""
        seed = FIRST_SEED + setting.options.seed
        while True:
            yield str(self._plan.source(seed))
            seed += 1

    def is_enough(self, outcomes: Sequence[Outcome], setting: Setting) -> bool:
        """As many as are wanted were measured."""
        return sum(bool(one.points) for one in outcomes) >= setting.programs

    def depends_on(self, setting: Setting) -> str:
        """Which schedulers, too."""
        return f"{setting}, {setting.schedulers_text}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Schedule a program, and time it beside the greedy search and the peers."""
        source = PipelineSource.parse(subject)
        setting.progress(f"{source.label}: searching")
        variant = schedule_variant(source, None, setting.options.threads)
        if variant.result is None:
            return (Point(_METOL, note=variant.refusal),), ""
        predicted_ms = 1e3 * variant.result.predicted_seconds
        if not self._plan.suits(predicted_ms):
            return (), f"predicted to take {predicted_ms:.3g} ms"
        others = [Scheduler.parse(_GREEDY), *(one for one in setting.schedulers if str(one) != _METOL)]
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            own = Scheduler.of_file(variant.save(Path(folder)))
            mine, *rest = race(source, [(_METOL, own), *((str(one), one) for one in others)], setting)
        values = {**mine.values, _PREDICTED: predicted_ms, SEARCH: variant.result.search_seconds}
        return (replace(mine, values=values), *rest), ""

    def notes(self, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
        """What went wrong, by kind, and each schedule of Metol's that did."""
        kinds: Counter[str] = Counter()
        own: list[str] = []
        for one in outcomes:
            for point in one.points:
                if point.note and point.series.startswith(_METOL):
                    own.append(f"{one.subject}, {point.series}: {point.note}")
                elif point.note:
                    kinds[f"{point.series}: {point.note.partition(':')[0]}"] += 1
        times = [point.values.get(RUN, 0.0) for one in outcomes for point in one.points]
        slowest = [f"the slowest schedule takes {three_digits(max(times))} ms"] if times else []
        return (*own, *(f"{kind}: {count} programs" for kind, count in sorted(kinds.items())), *slowest)

    @abstractmethod
    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Either figure's own."""


class SpeedUps(_RandomPrograms):
    """Figure 6: how many times faster Metol's schedules are than others."""

    title = "How many times faster Metol's schedules of random programs run"

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return how Metol compares with each of the others over all programs that were measured."""
        measured = [one for one in outcomes if one.points]
        fails = sum(one.value(_METOL, RUN) is None for one in measured)
        headers = ("metol beside", "programs of both", "geometric mean", "faster in", "least", "median", "most")
        lines = tuple(_line(other, measured) for other in _others(measured))
        summary = ((_METOL, str(len(measured) - fails), *[""] * 5, str(fails)),)
        return (TextTable(self.title, (*headers, "it fails"), lines, summary),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the speed-ups over each of the others, in ascending order."""
        axis = figure.add_subplot()
        for place, other in enumerate(_others(outcomes)):
            gains = _gains(other, outcomes)
            label = f"over {other} ({geometric_mean(gains):.2f}×)" if gains else f"over {other} (–)"
            axis.plot(range(1, len(gains) + 1), gains, ".-", label=label, color=COLOURS[place], linewidth=0.8)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(xlabel="random programs, sorted for each line", ylabel="times faster metol is", yscale="log")
        draw_legend(axis)


class Predictions(_RandomPrograms):
    """Figure 7: what Metol predicts of its own schedules, and how long they take."""

    title = "Predicted and measured run times of Metol's schedules of random programs"

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return how well predictions agree with measurements."""
        pairs = _predictions(outcomes)
        headers = ("programs", "R² of log time", "median error", "within a factor of 2", "predicted / measured")
        if len(pairs) < 2:
            return (TextTable(self.title, headers, ((str(len(pairs)), *[NOTHING] * 4),)),)
        errors = [math.log(predicted / run) for predicted, run in pairs]
        logs = [math.log(run) for _, run in pairs]
        spread = sum((log - statistics.fmean(logs)) ** 2 for log in logs)
        within = sum(abs(error) <= math.log(2) for error in errors) / len(pairs)
        line = (
            str(len(pairs)),
            f"{1 - sum(error**2 for error in errors) / spread:.3f}",
            f"{100 * statistics.median(math.expm1(abs(error)) for error in errors):.0f} %",
            f"{100 * within:.0f} %",
            f"{math.exp(statistics.fmean(errors)):.2f}",
        )
        return (TextTable(self.title, headers, (line,)),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw predicted against measured times."""
        axis = figure.add_subplot(aspect="equal")
        pairs = _predictions(outcomes)
        axis.loglog([run for _, run in pairs], [predicted for predicted, _ in pairs], ".", color=COLOURS[0])
        every = [ms for pair in pairs for ms in pair] or [1.0]
        limits = (0.7 * min(every), 1.4 * max(every))
        axis.loglog(limits, limits, color="black", linewidth=0.8)
        axis.set(xlabel="measured (ms)", ylabel="predicted (ms)", xlim=limits, ylim=limits)


def _others(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    return tuple(name for name in series_of(outcomes) if name != _METOL)


def _gains(other: str, outcomes: Sequence[Outcome]) -> list[float]:
    """How many times faster Metol's schedule is than another, of the programs of both, in ascending order."""
    times = ((one.value(_METOL, RUN), one.value(other, RUN)) for one in outcomes)
    return sorted(theirs / mine for mine, theirs in times if mine and theirs)


def _predictions(outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
    pairs = ((one.value(_METOL, _PREDICTED), one.value(_METOL, RUN)) for one in outcomes)
    return [(predicted, run) for predicted, run in pairs if predicted and run]


def _line(other: str, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    gains = _gains(other, outcomes)
    fails = str(sum(one.value(other, RUN) is None for one in outcomes))
    if not gains:
        return (other, "0", *[NOTHING] * 5, fails)
    faster = f"{100 * sum(gain > 1 for gain in gains) / len(gains):.0f} %"
    spread = (f"{gain:.2f}×" for gain in (gains[0], gains[len(gains) // 2], gains[-1]))
    return (other, str(len(gains)), f"{geometric_mean(gains):.2f}×", faster, *spread, fails)
