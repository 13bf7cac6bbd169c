"""How long it takes to get a schedule for a GPU: grouping, batches of searches, and Halide's own Anderson2021.

In: applications. Out: points of each way: the time of its search, and that with code generation, where kernels that
spill registers give way to those of the next best. Nothing is run. Source: Anderson et al. 2021, table 4 and §6.1.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from metol.autoschedule import autoschedule
from metol.bench_device import find_bench_device
from metol.errors import MetolError
from metol.experiments.anderson_paper import COMPILE_SECONDS, CompileSeconds
from metol.experiments.anderson_searches import AS_PUBLISHED, GPU, PAPER, beside, search_point
from metol.experiments.drawing import draw_bars, draw_legend
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.schedulers import SEARCH, AppExperiment, source_of
from metol.kernel_report import launched_of
from metol.measure import PipelineSource, Scheduler
from metol.options import SearchOptions
from metol.text_table import NOTHING, TextTable, geometric_mean, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CompileTimes"]

_TOTAL: Final = "total_s"
_PEER: Final = "anderson2021"
_GROUPING, _ONE_SHOT, _BEAM = "metol grouping", "metol one shot", "metol beam search"

_COLUMNS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("grouping: search", _GROUPING, SEARCH, "sioutas_search"),
    ("with code", _GROUPING, _TOTAL, "sioutas"),
    ("one shot: search", _ONE_SHOT, SEARCH, "one_shot_search"),
    ("with code", _ONE_SHOT, _TOTAL, "one_shot"),
    ("its beam search", _BEAM, SEARCH, ""),
    (f"Halide's {_PEER}: a beam search", _PEER, SEARCH, ""),
)
"""Header, series, value, and the paper's number: of Sioutas et al. 2020, and of one shot."""


class CompileTimes(AppExperiment):
    """Searches and code generation of each application."""

    title = "Time to a schedule for a GPU (s)"
    measurement = "time to a schedule for a GPU"

    def depends_on(self, setting: Setting) -> str:
        """Nothing is run."""
        return f"for {GPU}, stopped after {setting.options.timeout_seconds:g} s"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search in processes of their own, and make the code of what the first two find."""
        source = source_of(subject, setting)
        ways: Mapping[str, dict[str, Any]] = {
            _GROUPING: {"strategy": "grouping"},
            _ONE_SHOT: {"strategy": "batch"},
            _BEAM: {"strategy": "batch", "searches": 1},
        }
        points = [search_point(series, source, setting, "metol", options) for series, options in ways.items()]
        for place, series in enumerate((_GROUPING, _ONE_SHOT)):
            points[place] = _with_code(points[place], source, setting, ways[series])
        device = find_bench_device(GPU, threads=setting.options.threads)
        assert device is not None, "it has a name"
        told = dict(device.tell(Scheduler(_PEER)).options)
        points.append(search_point(_PEER, source, setting, _PEER, told))
        return tuple(points), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return the paper's table 4, as far as it runs nothing."""
        headers = ("app", *(header for header, *_ in _COLUMNS), f"{_PEER} / its beam search")
        lines = tuple(
            (one.subject, *(_cell(one, *column) for _, *column in _COLUMNS), number_cell(_ratio(one)))
            for one in outcomes
        )
        ratios = [ratio for one in outcomes if (ratio := _ratio(one))]
        means = tuple(_mean(outcomes, *column) for _, *column in _COLUMNS)
        summary = ("geometric mean", *means, number_cell(geometric_mean(ratios) if ratios else None))
        return (TextTable(f"{self.title}, {PAPER}", headers, lines, (summary,)),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the times of searches."""
        axis = figure.add_subplot()
        series = (_GROUPING, _ONE_SHOT, _BEAM, _PEER)
        times = {name: [one.value(name, SEARCH) for one in outcomes] for name in series}
        draw_bars(axis, [one.subject for one in outcomes], times)
        if any(value for values in times.values() for value in values):
            axis.set_yscale("log")
        axis.set(ylabel="search (s)")
        draw_legend(axis)


def _with_code(point: Point, source: PipelineSource, setting: Setting, options: Mapping[str, Any]) -> Point:
    """Add the time of a search together with the code of what is returned."""
    setting.progress(f"{source.label}: {point.series}, with code")
    limit = setting.options.timeout_seconds
    try:
        pipeline = source.build()
        started = time.monotonic()
        result = autoschedule(
            pipeline,
            target="cuda",
            gpu=GPU,
            options=SearchOptions(**options, **AS_PUBLISHED, budget_seconds=limit),
            threads=setting.options.threads,
            verify="kernels",
        )
    except MetolError as error:
        return Point(point.series, point.values, "; ".join(filter(None, (point.note, str(error)))))
    values = {
        _TOTAL: time.monotonic() - started,
        "spill_bytes": float(sum(report.kernel.spill_store_bytes for report in launched_of(result.kernels))),
        "passed_over": float(len(result.fallbacks)),
    }
    return Point(point.series, {**point.values, **values}, point.note)


def _ratio(one: Outcome) -> float | None:
    own, other = one.value(_BEAM, SEARCH), one.value(_PEER, SEARCH)
    return other / own if own and other else None


def _paper(row: CompileSeconds | None, name: str) -> str | None:
    return number_cell(getattr(row, name)) if row is not None and name else None


def _cell(one: Outcome, series: str, value: str, paper: str) -> str:
    own = one.value(series, value)
    return beside(NOTHING if own is None else number_cell(own), _paper(COMPILE_SECONDS.get(one.subject), paper))


def _mean(outcomes: Sequence[Outcome], series: str, value: str, paper: str) -> str:
    times = [seconds for one in outcomes if (seconds := one.value(series, value))]
    theirs = number_cell(geometric_mean([getattr(row, paper) for row in COMPILE_SECONDS.values()])) if paper else None
    return beside(number_cell(geometric_mean(times)) if times else NOTHING, theirs)
