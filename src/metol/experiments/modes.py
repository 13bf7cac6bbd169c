"""Every way to get a schedule of an application: peers, searches, tuning, and a person.

In: applications. Out: points of each way: the run time of its schedule, and how long it took. All schedules of one
application are verified and timed in turn, in fresh processes. Source: Adams et al. 2019, figure 8 and §6.3.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from metol import autoschedule
from metol.errors import MetolError
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.relative import draw_relative, run_tables
from metol.experiments.schedulers import SEARCH, TuningExperiment, race, source_of, tune
from metol.measure import LocalRunner, PipelineSource, Scheduler, TimingPlan, ask_peer
from metol.options import SearchOptions
from metol.text_table import TextTable
from metol.train import FineTuner
from metol.tune import Problem, TunerOptions, TuningResult, autotune

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Modes"]

_PEER = "mullapudi2016"
# What its authors vary (Mullapudi et al. 2016, §5): the cache that a tile is to fit, and what a load costs.
_CACHE_BYTES = (1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 24)
_BALANCES = (1, 5, 20, 40, 100)
# Enough to choose one of them.
_QUICK = TimingPlan(round_seconds=0.1, min_rounds=2, max_rounds=3)
_FAILED = "the schedule could not be made"


class Modes(TuningExperiment):
    """Run times of all ways beside each other."""

    title = "Throughput relative to the best"
    measurement = "modes"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Make all schedules, and race them."""
        source = source_of(subject, setting)
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            made = _Made(source, setting, Path(folder))
            made.add(f"{_PEER} tuned", made.tuned_peer)
            made.add("metol sample-32", made.sampled)
            made.add("metol tune", made.tuned)
            made.add("metol retrained", made.retrained)
            contestants = [
                (_PEER, Scheduler(_PEER)),
                *made.contestants,
                ("metol greedy", Scheduler("metol", (("strategy", "greedy"),))),
                ("metol beam", Scheduler("metol")),
                ("hand", Scheduler("hand").of_pipeline(source)),
            ]
            points = race(source, contestants, setting)
        # What a file was loaded in says nothing of how long its schedule took.
        told = (replace(one, values={**one.values, **made.seconds.get(one.series, {})}) for one in points)
        found = {one.series: one for one in (*told, *made.failures)}
        return tuple(found[name] for name in _ORDER if name in found), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return run times, and throughput relative to the best."""
        return run_tables(self.title, outcomes)

    def is_right(self, outcomes: Sequence[Outcome]) -> bool:
        """A schedule that could not be made, for want of time, is not wrong."""
        points = (point for one in outcomes for point in one.points)
        return not any(
            point.note and point.series.startswith("metol") and not point.note.startswith(_FAILED) for point in points
        )

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw throughput relative to the best."""
        draw_relative(figure, outcomes, "throughput relative to the best")


_ORDER = (
    _PEER,
    f"{_PEER} tuned",
    "metol greedy",
    "metol beam",
    "metol sample-32",
    "metol tune",
    "metol retrained",
    "hand",
)


class _Made:
    """Schedules that take more than one call."""

    def __init__(self, source: PipelineSource, setting: Setting, folder: Path) -> None:
        self.contestants: list[tuple[str, Scheduler]] = []
        self.seconds: dict[str, dict[str, float]] = {}
        self.failures: list[Point] = []
        self._source = source
        self._setting = setting
        self._folder = folder
        self._result: TuningResult | None = None
        self._problem: Problem | None = None

    def add(self, series: str, make: Callable[[], Scheduler]) -> None:
        """Make one; where that fails, it is a point that says why."""
        self._setting.progress(f"{self._source.label}: {series}")
        started = time.monotonic()
        try:
            self.contestants.append((series, make()))
        except MetolError as error:
            self.failures.append(Point(series, {}, f"{_FAILED}: {error}"))
        self.seconds[series] = {SEARCH: time.monotonic() - started}

    def tuned_peer(self) -> Scheduler:
        """The best of what a peer makes with its parameters varied; different ones often make the same."""
        distinct: dict[str, Scheduler] = {}
        for cache_bytes in _CACHE_BYTES:
            for balance in _BALANCES:
                peer = Scheduler(_PEER, (("last_level_cache_size", cache_bytes), ("balance", balance)))
                answer = ask_peer(self._source, peer, self._setting.options)
                if answer.cpp:
                    distinct.setdefault(answer.cpp, peer)
        runner = LocalRunner(replace(self._setting.options, timing=_QUICK), self._setting.progress)
        rows = runner.run(self._source, list(distinct.values()))
        known = [(row.run_ms, peer) for row, peer in zip(rows, distinct.values(), strict=True) if row.run_ms]
        if not known:
            raise MetolError("none of its schedules runs")
        return min(known, key=lambda pair: pair[0])[1]

    def sampled(self) -> Scheduler:
        """The best of 32 samples."""
        threads = self._setting.options.threads
        result = autotune(self._source, mode="sample-32", threads=threads, progress=lambda _: None)
        return self._saved(result, "sampled")

    def tuned(self) -> Scheduler:
        """What tuning finds while it fits the cost model to what it measures."""
        self._problem, self._result = tune(self._source, self._setting, TunerOptions(retrainer=FineTuner()))
        return self._saved(self._result, "tuned")

    def retrained(self) -> Scheduler:
        """What the search finds with the weights that tuning ends with."""
        if self._result is None or self._problem is None:
            raise MetolError("there was no tuning")
        weights = FineTuner().weights(self._problem, self._result.history)
        if weights is None:
            raise MetolError("too few schedules were right")
        file = self._folder / "retrained.npz"
        weights.save(file)
        options = SearchOptions(weights=str(file))
        found = autoschedule(self._source.build(), threads=self._setting.options.threads, options=options)
        schedule = self._folder / "retrained.json"
        found.save(schedule)
        return Scheduler.of_file(schedule)

    def _saved(self, result: TuningResult, name: str) -> Scheduler:
        file = self._folder / f"{name}.json"
        result.save(file)
        return Scheduler.of_file(file)
