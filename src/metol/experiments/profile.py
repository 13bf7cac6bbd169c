"""Predicted and measured times of each Func: where the cost model errs.

In: applications. Out: a point for each Func that Metol's schedule computes, with the time that the cost model predicts
of it and of what is inlined into it, and the time that it takes by Halide's profiler.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from metol import _core
from metol.errors import MetolError
from metol.experiments.drawing import COLOURS
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.schedulers import AppExperiment, source_of
from metol.measure import LocalRunner, Scheduler
from metol.options import SearchOptions
from metol.pipeline import base_name
from metol.planner import Planner
from metol.search import Form
from metol.text_table import TextTable, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FuncProfile"]

_SECONDS = 2.0
# Funcs that take less of the time of their pipeline, predicted and measured, are not shown.
_LEAST_SHARE = 0.02
_PREDICTED, _MEASURED = "predicted_ms", "measured_ms"


class FuncProfile(AppExperiment):
    """Predicted and measured times of each Func."""

    title = "Predicted and measured times of the Funcs of each application"
    measurement = "profiles of Funcs"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search, predict Func by Func, and run beside the profiler."""
        source = source_of(subject, setting)
        planner = Planner(source.build(), SearchOptions(), threads=setting.options.threads)
        found = planner.search()
        if found.form is None or found.result is None:
            raise MetolError(f"Nothing was searched for {subject}: {'; '.join(found.refusals)}")
        state = found.result.state
        schedule = planner.schedule_of(found.form, state, planner.nest_of(found.form, state))
        if schedule is None:
            return (), "its loop nest cannot be written as directives"
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            file = Path(folder) / "found.json"
            schedule.save(file)
            runner = LocalRunner(setting.options, setting.progress)
            row, measured = runner.profile(source, Scheduler.of_file(file), _SECONDS)
        predicted = _predict(planner, found.form, state)
        if not measured:
            return (), row.problem or "the profiler said nothing"
        return tuple(
            Point(name, {_PREDICTED: 1e3 * seconds, _MEASURED: measured.get(name, 0.0)})
            for name, seconds in predicted.items()
        ), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return the Funcs that matter, the most expensive first."""
        headers = ("app", "Func", "predicted (ms)", "measured (ms)", "measured / predicted")
        lines = tuple(
            (one.subject, point.series, *map(number_cell, (*_times(point), _ratio(point))))
            for one in outcomes
            for point in sorted(_large(one), key=lambda point: -max(_times(point)))
        )
        return (TextTable(self.title, headers, lines),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw measured against predicted times."""
        axis = figure.add_subplot()
        known = [_times(point) for one in outcomes for point in _large(one) if min(_times(point)) > 0]
        axis.plot([x for x, _ in known], [y for _, y in known], ".", color=COLOURS[0])
        if known:
            ends = [min(map(min, known)), max(map(max, known))]
            axis.loglog(ends, ends, color="black", linewidth=0.8)
        axis.set(xlabel="predicted (ms)", ylabel="measured (ms)")


def _times(point: Point) -> tuple[float, float]:
    return point.values.get(_PREDICTED, 0.0), point.values.get(_MEASURED, 0.0)


def _ratio(point: Point) -> float | None:
    predicted, measured = _times(point)
    return measured / predicted if predicted > 0 else None


def _large(one: Outcome) -> list[Point]:
    totals = [sum(values) for values in zip(*map(_times, one.points), strict=True)]
    return [
        point
        for point in one.points
        if any(own >= _LEAST_SHARE * total for own, total in zip(_times(point), totals, strict=True))
    ]


def _predict(planner: Planner, form: Form, state: _core.States) -> dict[str, float]:
    """Return the seconds of each Func that is computed; what is inlined counts where it is read, in even shares."""
    dag, inlined = form.dag, _core.Placement.INLINE
    placements = {schedule.func: schedule.placement for schedule in state.describe()}
    seconds = dict.fromkeys(range(len(dag.funcs)), 0.0)
    for stage, cost in zip(dag.stages, form.space.stage_costs(state, planner.model), strict=True):
        seconds[stage.func] += float(cost)
    # Consumers come after their producers.
    for func in range(len(dag.funcs)):
        if placements.get(func) != inlined:
            continue
        readers = [stage.func for stage in dag.stages if any(edge.producer == func for edge in stage.edges)]
        for reader in readers:
            seconds[reader] += seconds[func] / len(readers)
        seconds[func] = 0.0
    names = {func: base_name(dag.funcs[func].name) for func in placements}
    return {names[func]: seconds[func] for func in placements if placements[func] != inlined and seconds[func] > 0}
