"""Run times on a GPU: one shot, the best of five, and tuning beside grouping, and what sampling and freezing bring.

In: applications, and a GPU. Out: points of each way: the run time of what it found. Source: Anderson et al. 2021, §6,
figures 6 and 7. There are no schedules by hand here; Halide's own Anderson2021 stands beside ours instead.
"""

import statistics
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final

from metol.errors import MetolError
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.on_device import DeviceExperiment, OnDevice
from metol.experiments.relative import draw_relative, run_tables
from metol.experiments.schedulers import RUN, source_of
from metol.measure import Scheduler
from metol.options import SearchOptions
from metol.text_table import TextTable
from metol.train import FineTuner
from metol.tune import TunerOptions, TuningSettings, settings_of_mode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SearchFilters", "Throughput"]

_TOP: Final = 5
_TRIALS: Final = 3
"""Searches with seeds of their own, of which tables have the median; the paper has 100."""
_BATCH: Final = SearchOptions(strategy="batch")
_ROUNDS: Final = "20x80"
_GROUPING: Final = SearchOptions(strategy="grouping")
_PEER: Final = "anderson2021"
_ONE_SHOT, _TOP_5 = "metol one shot", f"metol top {_TOP}"


class Throughput(DeviceExperiment):
    """Figure 6: all ways to get a schedule beside each other."""

    title = "Throughput on a GPU relative to the best"
    measurement = "throughput on a GPU"

    def depends_on(self, setting: Setting) -> str:
        """How long tuning may take, too."""
        return f"{super().depends_on(setting)}, tuning for {setting.budget}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search and tune in all ways, and race what was found."""
        with OnDevice.of(source_of(subject, setting), setting) as app:
            found = _Found(app)
            found.add("metol grouping", _GROUPING, top=0)
            found.add(_ONE_SHOT, _BATCH, top=0)
            found.add(_TOP_5, _BATCH, top=_TOP)
            found.add_tuned("metol tuned")
            return found.points({_PEER: Scheduler(_PEER)}), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return run times, and throughput relative to the best."""
        return run_tables(self.title, outcomes)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw throughput relative to the best."""
        draw_relative(figure, outcomes, "throughput relative to the best")


class SearchFilters(DeviceExperiment):
    """Figure 7: one shot and the best of five with sampling and freezing, and without."""

    title = "Throughput on a GPU with sampling and freezing on and off, relative to the best"
    measurement = "throughput of filtered searches"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search with several seeds in all ways, and race what was found: medians over the seeds."""
        points = []
        with OnDevice.of(source_of(subject, setting), setting) as app:
            found = _Found(app)
            ways: dict[str, list[str]] = {}
            for sampling, freezing in product((True, False), repeat=2):
                on = [name for name, is_on in (("sampling", sampling), ("freezing", freezing)) if is_on]
                for kind, top in ((_ONE_SHOT, 0), (_TOP_5, _TOP)):
                    way = f"{kind}, {' + '.join(on) or 'neither'}"
                    for seed in range(_TRIALS):
                        options = SearchOptions(strategy="batch", sampling=sampling, freezing=freezing, seed=seed)
                        ways.setdefault(way, []).append(f"{way} #{seed}")
                        found.add(ways[way][-1], options, top=top)
            raced = {point.series: point for point in found.points()}
        for way, trials in ways.items():
            times = [raced[trial].values[RUN] for trial in trials if RUN in raced[trial].values]
            notes = dict.fromkeys(raced[trial].note for trial in trials if raced[trial].note)
            points.append(Point(way, {RUN: statistics.median(times)} if times else {}, "; ".join(notes)))
        return tuple(points), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return run times, and throughput relative to the best."""
        return run_tables(self.title, outcomes)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw throughput relative to the best."""
        draw_relative(figure, outcomes, "throughput relative to the best")


class _Found:
    """Schedules of several ways; the same one of two ways is raced once."""

    def __init__(self, app: OnDevice) -> None:
        self._app = app
        self._distinct: dict[str, Scheduler] = {}
        self._texts: dict[str, list[str]] = {}
        self._failures: dict[str, Point] = {}

    def add(self, series: str, options: SearchOptions, *, top: int) -> None:
        """Search: for one schedule, or for so many of which the fastest counts."""
        self._app.setting.progress(f"{self._app.source.label}: {series}")
        try:
            made = self._app.best(options, top) if top else (self._app.one_shot(options),)
            if not made:
                raise MetolError("nothing was found")
        except MetolError as error:
            self._failures[series] = Point(series, {}, str(error))
            return
        self._texts[series] = [schedule.to_json() for schedule in made]
        for text, schedule in zip(self._texts[series], made, strict=True):
            if text not in self._distinct:
                self._distinct[text] = self._app.file_of(schedule)

    def add_tuned(self, series: str) -> None:
        """Tune in rounds, after each of which the cost model is fitted anew."""
        self._app.setting.progress(f"{self._app.source.label}: {series}")
        tuning = TuningSettings(tuner=TunerOptions(retrainer=FineTuner(is_fresh=True)))
        options, tuning = settings_of_mode(_ROUNDS, _BATCH, tuning)
        try:
            schedule = self._app.tuned(options, tuning.tuner).schedule
        except MetolError as error:
            self._failures[series] = Point(series, {}, str(error))
            return
        self._texts[series] = [schedule.to_json()]
        self._distinct.setdefault(self._texts[series][0], self._app.file_of(schedule))

    def points(self, others: Mapping[str, Scheduler] | None = None) -> tuple[Point, ...]:
        """Race all together; of a way with several schedules the fastest that is right counts."""
        raced = self._app.race({**{f"metol {text}": one for text, one in self._distinct.items()}, **(others or {})})
        points = dict(self._failures)
        for series, texts in self._texts.items():
            own = [raced[f"metol {text}"] for text in texts]
            best = min(own, key=lambda point: point.values.get(RUN, float("inf")))
            note = "" if RUN in best.values else best.note
            points[series] = Point(series, best.values, note)
        for series in others or {}:
            points[series] = raced[series]
        return tuple(points.values())
