"""Predicted beside measured run times of one batch of schedules for a GPU, before the model is retrained and after.

In: applications, and a GPU. Out: a point for each schedule of a batch: what the model predicts as it comes, what it
predicts when it knows other schedules of the application, and the run time. Source: Anderson et al. 2021, §6.4 and
figure 8.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from metol import _core
from metol.errors import MetolError
from metol.experiments.drawing import COLOURS, draw_legend
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.on_device import DeviceExperiment, OnDevice
from metol.experiments.schedulers import RUN, source_of
from metol.measure import RacePlan, TimingPlan
from metol.options import SearchOptions
from metol.text_table import NOTHING, TextTable, geometric_mean, number_cell
from metol.train import FineTuner, rank_correlation_of
from metol.tune import Problem, TunerOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BatchPredictions"]

_BATCH: Final = SearchOptions(strategy="batch")
_BEFORE, _AFTER = "predicted_ms", "retrained_ms"
_QUICK: Final = RacePlan(stages=(2,), timing=TimingPlan(round_seconds=0.05))
"""Enough to rank schedules."""
_COLUMNS: Final = 6


class BatchPredictions(DeviceExperiment):
    """Figure 8."""

    title = "Predicted and measured run times of a batch of schedules for a GPU"
    measurement = "predictions of a batch"

    def depends_on(self, setting: Setting) -> str:
        """How long samples are drawn for the retrained model, too."""
        return f"{super().depends_on(setting)}, drawing samples for {setting.budget}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Make a batch, draw other samples and fit the model to them, predict, and measure the batch."""
        with OnDevice.of(source_of(subject, setting), setting) as app, app.problem(_BATCH) as problem:
            planner = problem.planner
            found = planner.search()
            if found.form is None or found.result is None:
                return (), "; ".join(found.refusals)
            states = (found.result.state, *found.result.alternatives)
            made = [planner.schedule_of(found.form, one, planner.nest_of(found.form, one)) for one in states]
            pairs = [(state, schedule) for state, schedule in zip(states, made, strict=True) if schedule is not None]
            models = {_BEFORE: planner.model}
            try:
                models[_AFTER] = _retrained(app, problem)
                note = ""
            except MetolError as error:
                note = f"the model was not retrained: {error}"
            rows = app.measure(problem, [schedule for _, schedule in pairs], _QUICK)
            space = found.form.space
            points = []
            for number, ((state, _), row) in enumerate(zip(pairs, rows, strict=True)):
                values = {name: 1e3 * float(space.cost(state, model)[0]) for name, model in models.items()}
                if row.is_ok and row.run_ms:
                    values[RUN] = row.run_ms
                points.append(Point(f"metol {number}", values, "" if RUN in values else row.problem))
            return tuple(points), note

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return how well the model ranks, and how much slower what it ranks first is than the fastest."""
        headers = (
            "app",
            "schedules",
            "rank correlation",
            "retrained",
            "first / fastest",
            "retrained",
            "average / fastest",
        )
        rows = [_numbers(one) for one in outcomes]
        lines = tuple((one.subject, *map(number_cell, row)) for one, row in zip(outcomes, rows, strict=True))
        means = tuple(_mean([row[column] for row in rows]) for column in range(3, len(headers) - 1))
        summary = (("geometric mean", *[""] * 3, *means),)
        return (TextTable(self.title, headers, lines, summary),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw a panel an application: predictions along x, run times along y."""
        count = max(1, len(outcomes))
        columns = min(_COLUMNS, count)
        rows = math.ceil(count / columns)
        figure.set_size_inches(2.6 * columns, 2.4 * rows)
        axes = np.atleast_1d(np.array(figure.subplots(rows, columns, squeeze=False))).ravel()
        for axis in axes[len(outcomes) :]:
            axis.set_axis_off()
        for axis, one in zip(axes, outcomes, strict=False):
            for colour, (value, label) in zip(COLOURS, ((_BEFORE, "as it comes"), (_AFTER, "retrained")), strict=False):
                known = _pairs(one, value)
                if known:
                    axis.loglog(*zip(*known, strict=True), ".", color=colour, label=label, markersize=3)
            axis.set_title(one.subject, fontsize="small")
            axis.tick_params(labelsize="x-small")
        axes[0].set(xlabel="predicted (ms)", ylabel="measured (ms)")
        draw_legend(axes[0], fontsize="x-small")


def _retrained(app: OnDevice, problem: Problem) -> _core.CostModel:
    """Return a model that was fitted to samples which are drawn for as long as the setting allows."""
    app.setting.progress(f"{app.source.label}: samples for the model")
    result = app.tune(problem, TunerOptions(sample_share=1.0, peers=()))
    return FineTuner().retrain(problem, result.history)


def _pairs(one: Outcome, value: str) -> list[tuple[float, float]]:
    known = ((point.values.get(value), point.values.get(RUN)) for point in one.points)
    return [(predicted, run) for predicted, run in known if predicted and run]


def _numbers(one: Outcome) -> tuple[float | None, ...]:
    """Schedules; rank correlations; what is ranked first, and the average, over the fastest."""
    pairs = {value: _pairs(one, value) for value in (_BEFORE, _AFTER)}
    times = [run for _, run in pairs[_BEFORE]]
    ranks = [_ranked(known) if len(known) > 1 else None for known in pairs.values()]
    firsts = [min(known)[1] / min(run for _, run in known) if known else None for known in pairs.values()]
    average = geometric_mean(times) / min(times) if times else None
    return (float(len(times)), *ranks, *firsts, average)


def _ranked(pairs: Sequence[tuple[float, float]]) -> float:
    predicted, measured = np.array(pairs).T
    return rank_correlation_of(predicted, measured)


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value]
    return number_cell(geometric_mean(known)) if known else NOTHING
