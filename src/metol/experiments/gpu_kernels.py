"""Kernels of every application for several GPUs, through ptxas, emulated, and on OpenCL, with no GPU at hand.

In: applications. Out: points of each strategy and GPU: how long the search took, what its kernels take of a block and a
thread, and whether what they compute is right, on the emulated GPU or the OpenCL device of this machine. Sources:
Sioutas et al. 2020, table 3; Anderson et al. 2021, table 4.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from metol.autoschedule import autoschedule
from metol.errors import MetolError
from metol.experiments.drawing import draw_bars, draw_legend
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.schedulers import SEARCH, AppExperiment, source_of
from metol.kernel_report import KernelReport, launched_of
from metol.measure import PipelineSource
from metol.options import SearchOptions
from metol.text_table import TextTable, geometric_mean, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GpuKernels"]

_STRATEGIES: Final = ("grouping", "batch")
"""That of Sioutas et al. 2020, and that of Anderson et al. 2021."""

_GPUS: Final = ("rtx2080ti", "a100", "h100")
"""One of each architecture: sm_75, sm_80 and sm_90."""

_OPENCL: Final = "opencl-cpu"
"""Where kernels are run."""

_WAYS: Final = tuple((strategy, gpu) for strategy in _STRATEGIES for gpu in (*_GPUS, _OPENCL))

_DRAWN: Final = "a100"
"""The plot shows the searches for one GPU; for the others they take about as long."""

_COLUMNS: Final = {
    "search (s)": SEARCH,
    "kernels": "kernels",
    "threads": "threads",
    "shared (KiB)": "shared_kib",
    "registers": "registers",
    "spills (B)": "spill_bytes",
    "occupancy": "occupancy",
    "right": "right",
    "refused": "refused",
}
"""What tables show: of threads, memory and registers the most of all kernels, of occupancy the least; nothing where
only a run can tell it of one."""

_RUN_COLUMNS: Final = {"search (s)": SEARCH, "right": "right", "refused": "refused"}
"""What they show of the OpenCL device."""


class GpuKernels(AppExperiment):
    """The suite for GPUs."""

    title = "Kernels"
    measurement = "GPU kernels"

    def depends_on(self, setting: Setting) -> str:
        """Nothing is timed."""
        return f"by {', '.join(_STRATEGIES)} for {', '.join((*_GPUS, _OPENCL))}"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Schedule by each strategy, assemble and run for each GPU, and run on the OpenCL device."""
        source = source_of(subject, setting)
        return tuple(_point(source, *way, setting) for way in _WAYS), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return a table for each strategy and GPU."""
        return tuple(_table(_series(*way), outcomes) for way in _WAYS)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw how long the searches for one GPU take."""
        axis = figure.add_subplot()
        drawn = {strategy: _series(strategy, _DRAWN) for strategy in _STRATEGIES}
        times = {strategy: [one.value(series, SEARCH) for one in outcomes] for strategy, series in drawn.items()}
        draw_bars(axis, [one.subject for one in outcomes], times)
        axis.set(ylabel=f"search for {_DRAWN} (s)")
        draw_legend(axis)


def _series(strategy: str, gpu: str) -> str:
    return f"{strategy}, {gpu}"


def _point(source: PipelineSource, strategy: str, gpu: str, setting: Setting) -> Point:
    series = _series(strategy, gpu)
    setting.progress(f"{source.label}: {series}")
    options = SearchOptions(strategy=strategy, rfactor=strategy != "grouping")
    target = "opencl" if gpu == _OPENCL else "cuda"
    threads = setting.options.threads
    try:
        result = autoschedule(source.build(), target=target, gpu=gpu, options=options, threads=threads, verify=True)
    except MetolError as error:
        return Point(series, {}, str(error))
    values = {SEARCH: result.costing_seconds, "refused": len(result.fallbacks), **_taken(launched_of(result.kernels))}
    values["right"] = float(result.is_compared)  # what is wrong is refused
    return Point(series, values, "; ".join(result.fallbacks))


def _taken(reports: Sequence[KernelReport]) -> dict[str, float]:
    """What the kernels of a schedule take; nothing where none was assembled."""
    if not reports:
        return {}
    kernels = [report.kernel for report in reports]
    values = {
        "kernels": len(kernels),
        "threads": max(kernel.threads_per_block or 0 for kernel in kernels),
        "shared_kib": max(kernel.shared_bytes or 0 for kernel in kernels) / 1024,
        "registers": max(kernel.registers for kernel in kernels),
        "spill_bytes": sum(kernel.spill_store_bytes for kernel in kernels),
    }
    occupancies = [report.occupancy.share for report in reports if report.occupancy]
    return values | ({"occupancy": min(occupancies)} if len(occupancies) == len(kernels) else {})


def _table(series: str, outcomes: Sequence[Outcome]) -> TextTable:
    is_run = series.endswith(_OPENCL)
    columns = _RUN_COLUMNS if is_run else _COLUMNS
    lines = tuple(
        (one.subject, *(number_cell(one.value(series, value)) for value in columns.values())) for one in outcomes
    )
    times = [seconds for one in outcomes if (seconds := one.value(series, SEARCH) or 0) > 0]
    made, right = (sum((one.value(series, what) or 0) > 0 for one in outcomes) for what in ("kernels", "right"))
    blank = ("",) * (len(columns) - 1)
    summary = (
        ("geometric mean", number_cell(geometric_mean(times) if times else None), *blank),
        *(() if is_run else (("assembled", f"{made} of {len(outcomes)}", *blank),)),
        ("run and right", f"{right} of {len(outcomes)}", *blank),
    )
    how = "run on OpenCL" if is_run else "through ptxas, and emulated"
    return TextTable(f"{GpuKernels.title}, {how}: {series}", ("app", *columns), lines, summary if times else ())
