"""Trees beside other searches: the least predicted cost that each finds, and the run time of what it found.

In: applications, and a time that every search has. Out: points of each search: the lowest cost of three seeds, and the
run time of that loop nest; of those that measure, the fastest that they measured. Source: ProTuner 2020, §5.1 and §5.2,
Table 1, figures 7 and 8. The paper gives a tree so many seconds a decision; here each search has one total, of which
those with less time a decision have the same share as in the paper.
"""

import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from metol import _core
from metol.candidates import Nest
from metol.errors import MetolError
from metol.experiments.experiment import Outcome, Point, Setting, series_of
from metol.experiments.relative import draw_relative, relative_table, run_tables, times_table
from metol.experiments.schedulers import SEARCH, AppExperiment, race, source_of
from metol.lower import Schedule
from metol.measure import PipelineSource, RacePlan, Scheduler
from metol.options import SearchOptions
from metol.planner import Planner
from metol.search import BeamSearch, Budget, MonteCarlo, SearchResult, Strategy, rare_dropout
from metol.text_table import TextTable
from metol.tune import Problem, TunerOptions, TuningBudget, TuningFailure, TuningSettings, tune_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAPER_TREES", "TreeCosts", "TreeTimes"]

COST = "cost_ms"
_SEEDS = 3
# Random loop nests that are measured together.
_BATCH = 8
# Batches that trees measure in their time, about: of this many decisions each has its share of the time.
_TURNS = 16

PAPER_TREES: Final = MonteCarlo(
    guidance="time",
    widening=1,
    widening_power=1,
    shares_equal=False,
    simulation="random",
    beam_width=0,
    descends=False,
    walk_share=1,
)
"""Trees as the paper has them: average costs guide, all children come before any has a second visit, none share, and
simulations are random."""

_TABLE_1: Final = MappingProxyType(
    {
        "mcts_30s": (PAPER_TREES, 1.0),
        "mcts_10s": (PAPER_TREES, 1 / 3),
        "mcts_1s": (PAPER_TREES, 1 / 30),
        "mcts_Cp10_30s": (replace(PAPER_TREES, ucb="product-10"), 1.0),
        "mcts_sqrt2_30s": (replace(PAPER_TREES, ucb="sum"), 1.0),
        "metol mcts": (MonteCarlo(), 1.0),
    }
)
"""Trees, and their share of the time: Table 1 of the paper, and ours."""

_MEASURED: Final = MappingProxyType({"mcts_cost+real_30s": 1.0, "mcts_cost+real_1s": 1 / 30})
"""Trees that are measured, and their share of the time between two measurements."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The outcome of one search."""

    schedule: Schedule
    cost_seconds: float
    seconds: float


class TreeCosts(AppExperiment):
    """The least cost that each search finds."""

    title = "Least predicted cost of all / that each search found"
    measurement = "trees"

    def depends_on(self, setting: Setting) -> str:
        """How long each search may take, too."""
        return f"{setting}, searching for {setting.budget}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search in all ways, and race what was found."""
        source = source_of(subject, setting)
        searches = _Searches(source, setting)
        found: dict[str, _Found] = {}
        failures = []
        for series, search in searches.all().items():
            setting.progress(f"{source.label}: {series}")
            try:
                found[series] = search()
            except MetolError as error:
                failures.append(Point(series, {}, str(error)))
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            contestants = []
            for number, (series, one) in enumerate(found.items()):
                file = Path(folder) / f"found_{number}.json"
                one.schedule.save(file)
                contestants.append((series, Scheduler.of_file(file)))
            raced = race(source, contestants, setting)
        points = [
            replace(point, values={**point.values, COST: 1e3 * one.cost_seconds, SEARCH: one.seconds})
            for point, one in zip(raced, found.values(), strict=True)
        ]
        return (*points, *failures), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return costs, and costs relative to the least."""
        costs = times_table(series_of(outcomes), outcomes, "Predicted cost (ms)", COST)
        return costs, relative_table(self.title, outcomes, COST)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw costs relative to the least."""
        draw_relative(figure, outcomes, "least cost / cost", COST)


class TreeTimes(TreeCosts):
    """The run time of what each search found."""

    title = "Least run time of all / that of what each search found"

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return run times, and run times relative to the least."""
        return run_tables(self.title, outcomes)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw run times relative to the least."""
        draw_relative(figure, outcomes, "least run time / run time")


class _Searches:
    """All ways to search one pipeline, as it is: none of them computes updates in two steps, or copies."""

    def __init__(self, source: PipelineSource, setting: Setting) -> None:
        self._source = source
        self._threads = setting.options.threads
        self._seconds = setting.budget.seconds or 60.0
        self._options = SearchOptions(rfactor=False, staging=False, budget_seconds=self._seconds)
        self._run_options = replace(setting.options, timing=None)
        self._planner = Planner(source.build(), self._options, threads=self._threads)

    def all(self) -> Mapping[str, Callable[[], _Found]]:
        """Return the searches by what they are called."""
        default = [replace(self._options, seed=seed).make() for seed in range(_SEEDS)]
        return {
            "random": self.random,
            "greedy": partial(self._best_of, [BeamSearch(width=1)]),
            "beam": partial(self._best_of, [_Beams(seed) for seed in range(_SEEDS)]),
            **{
                name: partial(self._best_of, [replace(plan, seed=seed) for seed in range(_SEEDS)], share)
                for name, (plan, share) in _TABLE_1.items()
            },
            **{name: partial(self.measured, share) for name, share in _MEASURED.items()},
            "metol": partial(self._best_of, default),
        }

    def random(self) -> _Found:
        """Random loop nests, measured until as much time is over as the seeds of another search have together."""
        planner, form = self._planner, self._planner.form()
        started, best, best_ms = time.monotonic(), None, math.inf
        with (
            Problem(self._source, options=self._options, threads=self._threads) as problem,
            contextlib.closing(problem.workbench(self._run_options, RacePlan())) as workbench,
        ):
            workbench.prepare()
            for first in range(0, 1 << 30, _BATCH):
                if best is not None and time.monotonic() - started > _SEEDS * self._seconds:
                    break
                leaves = form.space.rollout(form.space.root(), range(first, first + _BATCH))
                states = [leaves.take([place]) for place in range(len(leaves))]
                drawn = [(state, planner.schedule_of(form, state, planner.nest_of(form, state))) for state in states]
                batch = [(state, schedule) for state, schedule in drawn if schedule is not None]
                for (state, schedule), outcome in zip(
                    batch, workbench.measure([schedule for _, schedule in batch]), strict=True
                ):
                    if outcome.score_ms is not None and outcome.score_ms < best_ms:
                        best, best_ms = (state, schedule), outcome.score_ms
        assert best is not None
        return _Found(best[1], self._cost(best[0]), time.monotonic() - started)

    def measured(self, share: float) -> _Found:
        """Trees whose next root the clock chooses, for as long as the seeds of another search have together."""
        started = time.monotonic()
        tuner = TunerOptions(peers=(), trees=PAPER_TREES, tree_seconds=share * self._seconds / _TURNS)
        options = replace(self._options, strategy="greedy", refine=False)
        with Problem(self._source, options=options, threads=self._threads) as problem:
            (result,) = tune_all([problem], TuningBudget(_SEEDS * self._seconds), TuningSettings(tuner=tuner))
        if isinstance(result, TuningFailure):
            raise MetolError(result.reason)
        cost = math.nan
        if result.best.nest:
            cost = self._cost(self._planner.state_of(Nest.from_json(result.best.nest))[1])
        return _Found(result.schedule, cost, time.monotonic() - started)

    def _best_of(self, strategies: Sequence[Strategy], share: float = 1.0) -> _Found:
        started, form = time.monotonic(), self._planner.form()
        found = [
            strategy.search(form.space, self._planner.model, Budget.start(share * self._seconds))
            for strategy in strategies
        ]
        best = min(found, key=lambda one: one.cost_seconds)
        schedule = self._planner.schedule_of(form, best.state, self._planner.nest_of(form, best.state))
        if schedule is None:
            raise MetolError("Its loop nest cannot be written as directives.")
        return _Found(schedule, best.cost_seconds, time.monotonic() - started)

    def _cost(self, state: _core.States) -> float:
        return float(self._planner.form().space.cost(state, self._planner.model)[0])


@dataclass(frozen=True, slots=True)
class _Beams:
    """Beams until the time is over: the first as it is, the others with dropout."""

    seed: int

    def search(self, space: _core.Space, model: _core.CostModel, budget: Budget) -> SearchResult:
        """Return the best of all."""
        dropout = rare_dropout(space.decision_count)
        rng = np.random.default_rng(self.seed)
        best = BeamSearch(seed=self.seed, dropout=dropout if self.seed else 0.0).search(space, model, budget)
        while not budget.is_spent():
            beam = BeamSearch(seed=int(rng.integers(1 << 31)), dropout=dropout)
            best = min(best, beam.search(space, model, budget), key=lambda found: found.cost_seconds)
        return best
