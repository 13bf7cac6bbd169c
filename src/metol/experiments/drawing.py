"""Plots of experiments, and the numbers in them: a PNG and a CSV file each.

In: an experiment and its outcomes. Out: files.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metol.errors import MetolError
from metol.experiments.experiment import Experiment, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "draw_bars",
    "draw_legend",
    "draw_legend_above",
    "name_groups",
    "require_matplotlib",
    "save_csv",
    "save_figure",
    "save_plot",
]

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
"""Colours that the colour-blind tell apart (M. Okabe and K. Ito, "Color Universal Design", 2008)."""

# Where there are more series than colours.
_HATCHES = ("", "////", "....")
_DOTS_PER_INCH = 110
# Of a group of bars; the rest of its place is empty.
_GROUP_SHARE = 0.84


def require_matplotlib() -> None:
    """Raise MetolError where plots cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise MetolError("Plots need matplotlib; install it with `pip install .[train]` in Metol's checkout.")


def save_plot(file: Path, experiment: Experiment, outcomes: Sequence[Outcome]) -> None:
    """Draw an experiment into a PNG file."""
    save_figure(file, lambda figure: experiment.draw(figure, outcomes))


def save_figure(file: Path, draw: "Callable[[Figure], None]") -> None:
    """Make a PNG file of what `draw` draws."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    file.parent.mkdir(parents=True, exist_ok=True)
    figure = plt.figure(figsize=(8, 4.5), layout="constrained")
    try:
        draw(figure)
        figure.savefig(file, dpi=_DOTS_PER_INCH)
    finally:
        plt.close(figure)


def save_csv(file: Path, outcomes: Sequence[Outcome]) -> None:
    """Write all points into a CSV file, one a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    names = tuple(dict.fromkeys(name for one in outcomes for point in one.points for name in point.values))
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("subject", "series", *names, "note"))
        for one in outcomes:
            for point in one.points:
                numbers = (f"{point.values[name]:.6g}" if name in point.values else "" for name in names)
                writer.writerow((one.subject, point.series, *numbers, point.note))


def draw_bars(axis: "Axes", groups: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> None:
    """Draw a group of bars for each of `groups`, with one bar of each series; what is None has no bar."""
    width = _GROUP_SHARE / max(1, len(series))
    for place, (name, heights) in enumerate(series.items()):
        offset = (place - (len(series) - 1) / 2) * width
        places = [group + offset for group in range(len(groups))]
        known: list[Any] = [0.0 if height is None else height for height in heights]
        turn, colour = divmod(place, len(COLOURS))
        hatch = _HATCHES[turn % len(_HATCHES)]
        axis.bar(places, known, width, label=name, color=COLOURS[colour], hatch=hatch, edgecolor="white", linewidth=0)
    name_groups(axis, groups)
    axis.set_xlim(-0.5, max(1, len(groups)) - 0.5)
    axis.grid(axis="y", linewidth=0.4)
    axis.set_axisbelow(True)


def draw_legend(axis: "Axes", **how: Any) -> None:
    """Name the series where there are any; `how` is for `Axes.legend`."""
    if axis.get_legend_handles_labels()[0]:
        axis.legend(**how)


def draw_legend_above(figure: "Figure", axis: "Axes", columns: int) -> None:
    """Name the series where there are any, in so many columns above the only axis of a figure."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, ncols=columns, fontsize="small", loc="outside upper center")


def name_groups(axis: "Axes", names: Sequence[str]) -> None:
    """Write a name below each place along the x axis."""
    axis.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
