"""How searches grow: their time and memory against stages of the pipeline, beam width and threads.

In: nothing but how to measure. Out: points of the search with its default options, which has a budget, and of the plain
beam without one, whose growth is that of the algorithm. Source: Adams et al. 2019, §6.4: linear in the number of
decisions and in the width of the beam, where each decision costs no more than the stages that there are.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import halide as hl

from metol.experiments.drawing import COLOURS, draw_legend
from metol.experiments.experiment import Experiment, Outcome, Point, Setting
from metol.measure import PipelineSource, Scheduler, SourceKind, measure_search, save_pipeline
from metol.pipeline import extract
from metol.text_table import NOTHING, TextTable, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Scaling"]

_DEFAULT = "metol"
_PLAIN = "metol:refine=false/restarts=false/discrepancies=false/passes=5/budget_seconds=1e6"
_PLAIN_32 = f"{_PLAIN}/beam_width=32"  # as in Adams et al. 2019
_PLAIN_SERIES = "metol, plain beam"
_SIDE = 2048
_TAPS = 5
# As in `Scaling.subjects`: what varies, and how far.
_CHAINS = (2, 4, 8, 16, 32, 64, 128, 256)
_PYRAMIDS = (2, 3, 4, 5, 6, 7, 8)
_WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)
_THREADS = (1, 2, 4, 8, 16)
_FIXED_CHAIN = 32


@dataclass(frozen=True, slots=True)
class _Case:
    """One search."""

    name: str
    """The subject."""
    size: float
    """What varies."""
    build: Callable[[], Any]
    """Makes the pipeline."""
    schedulers: tuple[str, ...]
    """What searches."""
    threads: int | None = None
    """Threads of the search, and of the schedule; those of the setting if None."""


def _image() -> Any:
    """An input whose edges go on for ever."""
    image = hl.ImageParam(hl.Float(32), 2, "input")
    image.set_estimates([(0, _SIDE), (0, _SIDE)])
    return hl.BoundaryConditions.repeat_edge(image, [(0, _SIDE), (0, _SIDE)])


def stencil_chain(stages: int) -> hl.Pipeline:
    """Return so many stencils of 5x5 points, each of the one before, the first of an input."""
    x, y = hl.vars("x y")
    before = _image()
    taps = [(i, j) for i in range(_TAPS) for j in range(_TAPS)]
    for number in range(stages):
        func = hl.Func(f"stencil_{number}")
        total = sum(before[x + i - _TAPS // 2, y + j - _TAPS // 2] * hl.f32(1 + i + j) for i, j in taps)
        func[x, y] = total / hl.f32(125)
        before = func
    before.set_estimates([(0, _SIDE), (0, _SIDE)])
    return hl.Pipeline(before)


def laplacian_pyramid(levels: int) -> hl.Pipeline:
    """Return what takes an image apart into so many levels of a Laplacian pyramid, and puts them together again."""
    x, y = hl.vars("x y")
    gaussian = [_image()]
    for number in range(1, levels):
        gaussian.append(_smaller(gaussian[-1], f"down_{number}", x, y))
    result: Any = gaussian[-1]
    for number in range(levels - 2, -1, -1):
        detail = hl.Func(f"detail_{number}")
        detail[x, y] = gaussian[number][x, y] - _larger(gaussian[number + 1], f"up_{number}", x, y)[x, y]
        joined = hl.Func(f"joined_{number}")
        joined[x, y] = _larger(result, f"back_{number}", x, y)[x, y] + detail[x, y] * hl.f32(1.5)
        result = joined
    result.set_estimates([(0, _SIDE), (0, _SIDE)])
    return hl.Pipeline(result)


def _smaller(func: Any, name: str, x: Any, y: Any) -> Any:
    """Half the size along both dimensions, after a filter of four points along each."""
    along = hl.Func(f"{name}_x")
    along[x, y] = (
        func[2 * x - 1, y] + hl.f32(3) * (func[2 * x, y] + func[2 * x + 1, y]) + func[2 * x + 2, y]
    ) / hl.f32(8)
    both = hl.Func(name)
    both[x, y] = (
        along[x, 2 * y - 1] + hl.f32(3) * (along[x, 2 * y] + along[x, 2 * y + 1]) + along[x, 2 * y + 2]
    ) / hl.f32(8)
    return both


def _larger(func: Any, name: str, x: Any, y: Any) -> Any:
    """Twice the size along both dimensions, between neighbours."""
    along = hl.Func(f"{name}_x")
    along[x, y] = hl.f32(0.25) * func[x // 2 - 1 + 2 * (x % 2), y] + hl.f32(0.75) * func[x // 2, y]
    both = hl.Func(name)
    both[x, y] = hl.f32(0.25) * along[x, y // 2 - 1 + 2 * (y % 2)] + hl.f32(0.75) * along[x, y // 2]
    return both


def _cases() -> Iterator[_Case]:
    for stages in _CHAINS:
        yield _Case(f"chain of {stages}", stages, partial(stencil_chain, stages), (_DEFAULT, _PLAIN_32))
    for levels in _PYRAMIDS:
        yield _Case(f"pyramid of {levels}", levels, partial(laplacian_pyramid, levels), (_DEFAULT, _PLAIN_32))
    for width in _WIDTHS:
        wide = f"{_PLAIN}/beam_width={width}"
        yield _Case(f"beam of {width}", width, partial(stencil_chain, _FIXED_CHAIN), (wide,))
    for threads in _THREADS:
        yield _Case(f"{threads} threads", threads, partial(stencil_chain, _FIXED_CHAIN), (_PLAIN_32,), threads)


class Scaling(Experiment):
    """Time and memory of searches against stages, width and threads."""

    title = "Time and memory of searches"
    measurement = "growth of searches"

    def subjects(self, setting: Setting) -> Sequence[str]:
        """Chains, pyramids, widths, threads."""
        return tuple(case.name for case in _cases())

    def depends_on(self, setting: Setting) -> str:
        """Nothing is run that could be timed."""
        return f"timeout {setting.options.timeout_seconds:g} s"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search in processes of their own."""
        case = next(case for case in _cases() if case.name == subject)
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            file = Path(folder) / f"{subject.replace(' ', '_')}.hlpipe"
            pipeline = case.build()
            save_pipeline(pipeline, file)
            stages = sum(len(func.stages) for func in extract(pipeline).funcs)
            source = PipelineSource(SourceKind.SERIALIZED, str(file))
            points = []
            for text in case.schedulers:
                setting.progress(f"{subject}: {text}")
                row = measure_search(
                    source,
                    Scheduler.parse(text),
                    threads=case.threads or setting.options.threads,
                    timeout_seconds=setting.options.timeout_seconds,
                )
                series = _DEFAULT if text == _DEFAULT else _PLAIN_SERIES
                values = {"varies": case.size, "stages": float(stages), "candidates": float(row.candidates)}
                measured = {"seconds": row.seconds, "costing_seconds": row.costing_seconds, "peak_mib": row.peak_mib}
                values |= {name: value for name, value in measured.items() if value is not None}
                points.append(Point(series, values, row.detail))
        return tuple(points), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return every search, and how they grow."""
        headers = ("search", "stages", "seconds", "MiB", "plain beam: seconds", "costing", "candidates", "MiB")
        lines = tuple(_line(one) for one in outcomes)
        growth = [(name, _growth(kind, outcomes, by)) for name, kind, by in _GROWTHS]
        told = tuple((name, NOTHING if power is None else f"{power:.2f}") for name, power in growth)
        powers = TextTable(
            "Power of growth over the last factor of four: seconds of costing ~ size^power", ("against", "power"), told
        )
        return TextTable(self.title, headers, lines), powers

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw time and memory against stages, and time against width and threads."""
        axes = figure.subplots(2, 2)
        for row, name, label in ((0, "seconds", "seconds"), (1, "peak_mib", "peak memory (MiB)")):
            axis = axes[row][0]
            for place, (kind, series) in enumerate(
                (kind, series) for kind in ("chain", "pyramid") for series in (_DEFAULT, _PLAIN_SERIES)
            ):
                sizes, values = _curve(kind, series, name, outcomes, "stages")
                axis.loglog(sizes, values, ".-", color=COLOURS[place], label=f"{kind}: {series}")
            axis.set(xlabel="stages", ylabel=label)
        draw_legend(axes[0][0], fontsize="x-small")
        for row, kind, label in ((0, "beam", "width of the beam"), (1, "threads", "threads")):
            sizes, values = _curve(kind, _PLAIN_SERIES, "costing_seconds", outcomes)
            axes[row][1].loglog(sizes, values, ".-", color=COLOURS[1])
            axes[row][1].set(xlabel=label, ylabel="seconds of costing")


_GROWTHS = (
    ("stages of a chain", "chain", "stages"),
    ("stages of a pyramid", "pyramid", "stages"),
    ("width of the beam", "beam", "varies"),
    ("threads", "threads", "varies"),
)


def _curve(
    kind: str, series: str, name: str, outcomes: Sequence[Outcome], by: str = "varies"
) -> tuple[list[float], list[float]]:
    """Sizes, and one value of each of those of a kind that have it."""
    pairs = []
    for one in outcomes:
        size, value = one.value(series, by), one.value(series, name)
        if kind in one.subject and size and value:
            pairs.append((size, value))
    return [size for size, _ in pairs], [value for _, value in pairs]


def _growth(kind: str, outcomes: Sequence[Outcome], by: str) -> float | None:
    """The slope of a straight line through the logarithms of the three largest sizes."""
    sizes, seconds = _curve(kind, _PLAIN_SERIES, "costing_seconds", outcomes, by)
    logs = [(math.log(size), math.log(value)) for size, value in zip(sizes, seconds, strict=True)][-3:]
    if len(logs) < 3:
        return None
    mean_x, mean_y = (math.fsum(values) / len(logs) for values in zip(*logs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def _line(one: Outcome) -> tuple[str, ...]:
    stages = next((point.values.get("stages") for point in one.points), None)
    return (
        one.subject,
        NOTHING if stages is None else f"{stages:.0f}",
        number_cell(one.value(_DEFAULT, "seconds")),
        _whole(one.value(_DEFAULT, "peak_mib")),
        number_cell(one.value(_PLAIN_SERIES, "seconds")),
        number_cell(one.value(_PLAIN_SERIES, "costing_seconds")),
        _whole(one.value(_PLAIN_SERIES, "candidates")),
        _whole(one.value(_PLAIN_SERIES, "peak_mib")),
    )


def _whole(value: float | None) -> str:
    return NOTHING if not value else f"{value:.0f}"
