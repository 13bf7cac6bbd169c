"""Schedules for another machine: every application, scheduled and compiled for ARM, on whatever machine this is.

In: applications. Out: points of each scheduler: how long it searched, how long Halide compiled, how large the object
is. Nothing is run. Source: Adams et al. 2019, §6.2.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from metol.experiments.drawing import draw_bars, draw_legend
from metol.experiments.experiment import Outcome, Point, Setting, series_of
from metol.experiments.schedulers import SEARCH, AppExperiment, source_of
from metol.measure import PipelineSource, Scheduler, Trial
from metol.text_table import TextTable, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CrossCompilation"]

TARGET = "arm-64-linux"


class CrossCompilation(AppExperiment):
    """The suite for ARM."""

    title = f"Search and compilation for {TARGET}"
    measurement = "cross-compilation"

    def depends_on(self, setting: Setting) -> str:
        """Which schedulers, too; nothing is timed."""
        timeout = f"timeout {setting.options.timeout_seconds:g} s"
        return f"{timeout}, {setting.schedulers_text}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Compile with each scheduler, in a process of its own."""
        source = source_of(subject, setting)
        return tuple(_compile(source, scheduler, setting) for scheduler in setting.schedulers), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return times and sizes."""
        series = series_of(outcomes)
        names = ("search (s)", "compile (s)", "object (KiB)")
        headers = ("app", *(f"{scheduler}: {name}" for scheduler in series for name in names))
        lines = tuple((one.subject, *(cell for name in series for cell in _cells(one, name))) for one in outcomes)
        made = [sum(one.value(name, "object_kib") is not None for one in outcomes) for name in series]
        summary = (("objects made", *(cell for count in made for cell in ("", "", f"{count} of {len(outcomes)}"))),)
        return (TextTable(self.title, headers, lines, summary),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the sizes of the objects."""
        axis = figure.add_subplot()
        series = series_of(outcomes)
        sizes = {name: [one.value(name, "object_kib") for one in outcomes] for name in series}
        draw_bars(axis, [one.subject for one in outcomes], sizes)
        axis.set(ylabel=f"object for {TARGET} (KiB)")
        draw_legend(axis)


def _compile(source: PipelineSource, scheduler: Scheduler, setting: Setting) -> Point:
    setting.progress(f"{source.label}: {scheduler}")
    options = replace(setting.options, target=TARGET, timing=None)
    with tempfile.TemporaryDirectory(prefix="metol-") as folder:
        file = Path(folder) / "pipeline.o"
        trial = Trial(source, scheduler, options)
        try:
            trial.compile(str(file))
        finally:
            trial.close()
        row = trial.measurement
        known = {SEARCH: row.schedule_seconds, "compile_s": row.compile_seconds}
        values = {name: value for name, value in known.items() if value is not None}
        if file.exists() and row.is_ok:
            values["object_kib"] = file.stat().st_size / 1024
    return Point(str(scheduler), values, row.problem)


def _cells(one: Outcome, series: str) -> tuple[str, ...]:
    return tuple(number_cell(one.value(series, name)) for name in (SEARCH, "compile_s", "object_kib"))
