"""Several ways to do one thing beside each other: times, and what each reaches of the best.

In: outcomes whose points have a value that is better the smaller it is. Out: tables and bars.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metol.experiments.drawing import draw_bars, draw_legend_above
from metol.experiments.experiment import Outcome, series_of
from metol.experiments.schedulers import RUN
from metol.text_table import NOTHING, TextTable, geometric_mean, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_relative", "relative_table", "run_tables", "times_table"]


def times_table(
    series: Sequence[str], outcomes: Sequence[Outcome], title: str = "Run time (ms)", value: str = RUN
) -> TextTable:
    """Return the value of each series for each subject."""
    lines = tuple((one.subject, *(number_cell(one.value(name, value)) for name in series)) for one in outcomes)
    return TextTable(title, ("app", *series), lines)


def relative_table(title: str, outcomes: Sequence[Outcome], value: str = RUN) -> TextTable:
    """Return what each series reaches of the best of each subject, best / own, with geometric means."""
    series = series_of(outcomes)
    columns = {name: [_relative(one, name, value) for one in outcomes] for name in series}
    lines = tuple(
        (one.subject, *(_share(columns[name][place]) for name in series)) for place, one in enumerate(outcomes)
    )
    means = (f"{_share(_mean(values))} ({sum(value is not None for value in values)})" for values in columns.values())
    return TextTable(title, ("app", *series), lines, (("geometric mean (apps)", *means),))


def run_tables(title: str, outcomes: Sequence[Outcome]) -> tuple[TextTable, TextTable]:
    """Return the run times of all series, and what each reaches of the best."""
    return times_table(series_of(outcomes), outcomes), relative_table(title, outcomes)


def draw_relative(figure: "Figure", outcomes: Sequence[Outcome], label: str, value: str = RUN) -> None:
    """Draw what each series reaches of the best, and the means, as bars in an empty figure."""
    figure.set_size_inches(14, 5)
    axis = figure.add_subplot()
    heights = {name: [_relative(one, name, value) for one in outcomes] for name in series_of(outcomes)}
    bars = {name: [*values, _mean(values)] for name, values in heights.items()}
    draw_bars(axis, [*(one.subject for one in outcomes), "mean"], bars)
    axis.set(ylabel=label)
    draw_legend_above(figure, axis, 4)


def _relative(one: Outcome, series: str, value: str) -> float | None:
    """The best of a subject / what a series has; None where it has nothing."""
    own = one.value(series, value)
    known = [number for point in one.points if (number := point.values.get(value))]
    return min(known) / own if own else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value]
    return geometric_mean(known) if known else None


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
