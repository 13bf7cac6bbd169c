"""The roofline of a GPU, and how near the schedules of applications come to it.

In: run times on a device, and the pipelines. Out: a plot and its numbers. Source: Sioutas et al. 2020, figure 9; S.
Williams, A. Waterman and D. Patterson, "Roofline", 2009. The paper has a profiler count what each schedule does; here
operations and bytes are those that no schedule can do without, so that all of an application stand above one another
and the higher one is faster.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from metol.bench_device import BenchDevice
from metol.errors import MetolError
from metol.experiments.drawing import COLOURS, draw_legend, save_figure
from metol.measure import Measurement, PipelineSource
from metol.options import SearchOptions
from metol.planner import Planner
from metol.work import Work, least_work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["RooflinePoint", "draw_roofline", "roofline_points", "save_roofline"]

_NAME = "roofline"
_GIGA = 1e9
# The roof is drawn this many times further to both sides than there are points.
_MARGIN = 3.0
# Below the lowest point there is room for names.
_NAMES_MARGIN = 12.0
# Of the width of the plot.
_NAME_WIDTH = 0.025
_COLUMNS = ("app", "scheduler", "run_ms", "operations", "bytes", "operations_per_byte", "operations_per_s", "of_roof")


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """One schedule of one application."""

    app: str
    """The application."""
    scheduler: str
    """What scheduled it, as text."""
    run_ms: float
    """Milliseconds of a run on the device."""
    work: Work
    """What every schedule of the application does at least."""

    @property
    def operations_per_second(self) -> float:
        """Those that count, a second."""
        return 1e3 * self.work.operations / self.run_ms


def roofline_points(sources: Sequence[PipelineSource], rows: Sequence[Measurement]) -> tuple[RooflinePoint, ...]:
    """Return a point for each right schedule of each pipeline that can be described."""
    works: dict[str, Work] = {}
    for source in sources:
        try:
            works[source.label] = least_work(Planner(source.build(), SearchOptions(weights="analytical")).form())
        except MetolError:
            continue
    return tuple(
        RooflinePoint(row.app, row.scheduler, row.run_ms, works[row.app])
        for row in rows
        if row.is_ok and row.run_ms and row.app in works and works[row.app].operations > 0
    )


def save_roofline(folder: Path, device: BenchDevice, points: Sequence[RooflinePoint]) -> tuple[Path, Path]:
    """Write ``roofline.png`` and ``roofline.csv`` into a folder, and return the files."""
    picture, table = folder / f"{_NAME}.png", folder / f"{_NAME}.csv"
    save_figure(picture, lambda figure: draw_roofline(figure, device, points))
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for point in points:
            moved = point.work.read_bytes + point.work.written_bytes
            numbers = (point.run_ms, point.work.operations, moved, point.work.intensity, point.operations_per_second)
            share = point.operations_per_second / _roof(device, point.work.intensity)
            writer.writerow((point.app, point.scheduler, *(f"{number:.6g}" for number in (*numbers, share))))
    return picture, table


def draw_roofline(figure: "Figure", device: BenchDevice, points: Sequence[RooflinePoint]) -> None:
    """Draw the roof of a device, and a point for each schedule below it."""
    axis = figure.add_subplot()
    ridge = device.operations_per_second / device.machine.memory_bytes_per_second
    intensities = [ridge, *(point.work.intensity for point in points)]
    ends = (min(intensities) / _MARGIN, max(intensities) * _MARGIN)
    along = (ends[0], ridge, ends[1])
    axis.plot(along, [_roof(device, intensity) / _GIGA for intensity in along], color="black", linewidth=1)
    for place, scheduler in enumerate(dict.fromkeys(point.scheduler for point in points)):
        own = [point for point in points if point.scheduler == scheduler]
        axis.scatter(
            [point.work.intensity for point in own],
            [point.operations_per_second / _GIGA for point in own],
            s=18,
            label=scheduler,
            color=COLOURS[place % len(COLOURS)],
        )
    _name_apps(axis, points, ends)
    rates = [device.operations_per_second, *(point.operations_per_second for point in points)]
    axis.set(
        xlim=ends,
        ylim=(min(rates) / _NAMES_MARGIN / _GIGA, max(rates) * _MARGIN / _GIGA),
        xscale="log",
        yscale="log",
        xlabel="operations per byte that the algorithm cannot do without",
        ylabel="of these, billions a second",
        title=device.machine.name,
    )
    axis.grid(linewidth=0.3)
    axis.set_axisbelow(True)
    draw_legend(axis, fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1))


def _roof(device: BenchDevice, intensity: float) -> float:
    """Operations a second at best, with so many of them to a byte."""
    return min(device.operations_per_second, intensity * device.machine.memory_bytes_per_second)


def _name_apps(axis: "Axes", points: Sequence[RooflinePoint], ends: tuple[float, float]) -> None:
    """Write the names of the applications along the bottom, apart from each other, each with a line to its points."""
    slowest = {point.app: point for point in sorted(points, key=lambda point: -point.operations_per_second)}
    ordered = sorted(slowest.values(), key=lambda point: point.work.intensity)
    decades = math.log(ends[1] / ends[0])
    places = _apart([math.log(point.work.intensity / ends[0]) / decades for point in ordered])
    for point, place in zip(ordered, places, strict=True):
        axis.annotate(
            point.app,
            (point.work.intensity, point.operations_per_second / _GIGA),
            xytext=(place, 0.02),
            textcoords="axes fraction",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize="x-small",
            arrowprops={"arrowstyle": "-", "color": "0.75", "linewidth": 0.6},
        )


def _apart(places: Sequence[float]) -> list[float]:
    """Move ascending places apart where two would overlap, to the right as long as there is room, then to the left."""
    moved: list[float] = []
    for place in places:
        moved.append(max([place, *(before + _NAME_WIDTH for before in moved[-1:])]))
    for number in reversed(range(len(moved))):
        moved[number] = min(moved[number], 1 - _NAME_WIDTH * (len(moved) - number))
    return moved
