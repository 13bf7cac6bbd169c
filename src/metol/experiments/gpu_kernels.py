"""Kernels of every application for several GPUs, through ptxas, with no GPU at hand.

In: applications. Out: points of each GPU: how long grouping took, and what its kernels take of a block and a thread.
Source: Sioutas et al. 2020, table 3.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from metol.autoschedule import autoschedule
from metol.errors import MetolError
from metol.experiments.drawing import draw_bars, draw_legend
from metol.experiments.experiment import Outcome, Point, Setting, series_of
from metol.experiments.schedulers import SEARCH, AppExperiment, source_of
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.text_table import TextTable, geometric_mean, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GpuKernels"]

_GPUS: Final = ("rtx2080ti", "a100", "h100")
"""One of each architecture: sm_75, sm_80 and sm_90."""

_COLUMNS: Final = {
    "search (s)": SEARCH,
    "kernels": "kernels",
    "threads": "threads",
    "shared (KiB)": "shared_kib",
    "registers": "registers",
    "spills (B)": "spill_bytes",
    "occupancy": "occupancy",
    "refused": "refused",
}
"""What tables show: of threads, memory and registers the most of all kernels, of occupancy the least; nothing where
only a run can tell it of one."""


class GpuKernels(AppExperiment):
    """The suite for GPUs."""

    title = "Kernels of grouping, through ptxas"
    measurement = "GPU kernels"

    def depends_on(self, setting: Setting) -> str:
        """Nothing is run."""
        return f"for {', '.join(_GPUS)}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Schedule, compile and assemble for each GPU."""
        source = source_of(subject, setting)
        return tuple(_assemble(source, gpu, setting) for gpu in _GPUS), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return a table for each GPU."""
        return tuple(_table(gpu, outcomes) for gpu in _GPUS)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw how long grouping takes."""
        axis = figure.add_subplot()
        times = {gpu: [one.value(gpu, SEARCH) for one in outcomes] for gpu in series_of(outcomes)}
        draw_bars(axis, [one.subject for one in outcomes], times)
        axis.set(ylabel="search (s)")
        draw_legend(axis)


def _assemble(source: PipelineSource, gpu: str, setting: Setting) -> Point:
    setting.progress(f"{source.label}: {gpu}")
    options = SearchOptions(strategy="grouping", rfactor=False)
    threads = setting.options.threads
    try:
        result = autoschedule(source.build(), target="cuda", gpu=gpu, options=options, threads=threads, verify=True)
    except MetolError as error:
        return Point(gpu, {}, str(error))
    kernels = [report.kernel for report in result.kernels]
    values = {SEARCH: result.costing_seconds, "kernels": len(kernels), "refused": len(result.fallbacks)}
    if kernels:
        values |= {
            "threads": max(kernel.threads_per_block or 0 for kernel in kernels),
            "shared_kib": max(kernel.shared_bytes or 0 for kernel in kernels) / 1024,
            "registers": max(kernel.registers for kernel in kernels),
            "spill_bytes": sum(kernel.spill_store_bytes for kernel in kernels),
        }
        occupancies = [report.occupancy.share for report in result.kernels if report.occupancy]
        if len(occupancies) == len(kernels):
            values["occupancy"] = min(occupancies)
    return Point(gpu, values)


def _table(gpu: str, outcomes: Sequence[Outcome]) -> TextTable:
    lines = tuple(
        (one.subject, *(number_cell(one.value(gpu, value)) for value in _COLUMNS.values())) for one in outcomes
    )
    times = [seconds for one in outcomes if (seconds := one.value(gpu, SEARCH) or 0) > 0]
    made = sum((one.value(gpu, "kernels") or 0) > 0 for one in outcomes)
    blank = ("",) * (len(_COLUMNS) - 1)
    summary = (
        ("geometric mean", number_cell(geometric_mean(times) if times else None), *blank),
        ("assembled", f"{made} of {len(outcomes)}", *blank),
    )
    return TextTable(f"{GpuKernels.title}: {gpu}", ("app", *_COLUMNS), lines, summary if times else ())
