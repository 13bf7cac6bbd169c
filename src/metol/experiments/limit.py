"""How near schedules come to what the machine can do: bytes and operations that no schedule can do without.

In: applications. Out: points of each scheduler, and of the machine's limit: the longer of the time in which inputs and
outputs move once, and the time of the arithmetic if each point of each Stage is computed once, in full vectors, on all
threads. Both are measured: a kernel reads and writes as many bytes, and the rates of operations are those that
`metol calibrate` finds.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from metol import _core
from metol.experiments.drawing import COLOURS, draw_legend, name_groups
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.schedulers import RUN, AppExperiment, race, source_of
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.planner import Planner
from metol.targets import machine_parameters
from metol.targets.cpu import CpuMachine, measure_moving, measure_operations
from metol.text_table import NOTHING, TextTable, geometric_mean, number_cell, three_digits
from metol.work import least_points, least_work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Limit"]

_LIMIT = "limit"


class Limit(AppExperiment):
    """The share of the machine's limit that the best schedule of each application reaches."""

    title = "Run times beside what the machine can do at best"
    measurement = "limits"

    def depends_on(self, setting: Setting) -> str:
        """Which schedulers, too."""
        return f"{setting}, {setting.schedulers_text}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Count, and time the schedulers."""
        source = source_of(subject, setting)
        limit = Point(_LIMIT, _limit(source, setting.options.threads))
        contestants = [(one.column, one.of_pipeline(source)) for one in setting.schedulers]
        return (limit, *race(source, contestants, setting)), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return what must move and be computed, the limit, and the share that the best schedule reaches."""
        headers = ("app", "read (MB)", "written (MB)", "operations (M)", "moving (ms)", "computing (ms)")
        lines = tuple(_line(one) for one in outcomes)
        shares = [share for one in outcomes if (share := _share(one)) is not None]
        mean = f"{100 * geometric_mean(shares):.0f} %" if shares else NOTHING
        summary = (("geometric mean (apps)", *[""] * 7, mean),)
        return (TextTable(self.title, (*headers, "best", "its time (ms)", "share of the limit"), lines, summary),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the shares, told apart by what limits."""
        axis = figure.add_subplot()
        for place, (name, label) in enumerate((("moving_ms", "bytes"), ("computing_ms", "operations"))):
            heights = [100 * (_share(one) or 0) if _binding(one) == name else 0 for one in outcomes]
            axis.bar(range(len(outcomes)), heights, label=f"limited by {label}", color=COLOURS[place])
        name_groups(axis, [one.subject for one in outcomes])
        axis.axhline(50, color="black", linewidth=0.8, linestyle=":")
        axis.set(ylabel="share of the machine's limit (%)")
        draw_legend(axis)


def _limit(source: PipelineSource, threads: int) -> dict[str, float]:
    """Return bytes, operations, and the least time of each, by the names of values."""
    planner = Planner(source.build(), SearchOptions(weights="analytical"), threads=threads)
    assert isinstance(planner.machine, CpuMachine)
    machine, dag = _measured(planner.machine), planner.form().dag
    points = least_points(planner.form())
    parameters = machine_parameters(machine, dag)
    assert isinstance(parameters, _core.CpuParameters)
    computing = sum(
        float(points[number]) * seconds * dag.stages[number].widest_bytes / machine.vector_bytes
        for number, seconds in enumerate(parameters.register_seconds)
    )
    work = least_work(planner.form())
    moving = measure_moving(machine, work.read_bytes, work.written_bytes, threads=threads)
    return {
        "read_mb": work.read_bytes / 1e6,
        "written_mb": work.written_bytes / 1e6,
        "operations_m": work.operations / 1e6,
        "moving_ms": 1e3 * moving,
        "computing_ms": 1e3 * computing / threads,
    }


@cache
def _measured(machine: CpuMachine) -> CpuMachine:
    """The machine with measured rates of operations; searches go on with those that they have."""
    return machine if machine.is_calibrated else measure_operations(machine)


def _binding(one: Outcome) -> str:
    """Which limit is the longer one."""
    return max(("moving_ms", "computing_ms"), key=lambda name: one.value(_LIMIT, name) or 0.0)


def _best(one: Outcome) -> tuple[float, str] | None:
    """The shortest run time, and whose it is."""
    known = [(run_ms, point.series) for point in one.points if (run_ms := point.values.get(RUN)) is not None]
    return min(known, default=None)


def _share(one: Outcome) -> float | None:
    best, limit = _best(one), one.value(_LIMIT, _binding(one))
    return limit / best[0] if best and limit else None


def _line(one: Outcome) -> tuple[str, ...]:
    names = ("read_mb", "written_mb", "operations_m", "moving_ms", "computing_ms")
    cells = [number_cell(one.value(_LIMIT, name)) for name in names]
    best, share = _best(one), _share(one)
    found = (best[1], three_digits(best[0])) if best else (NOTHING, NOTHING)
    return (one.subject, *cells, *found, f"{100 * share:.0f} %" if share else NOTHING)
