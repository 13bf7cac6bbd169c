"""Beam searches for a GPU with sampling, freezing and memoization switched: loop nests costed, and time.

In: applications. Out: points of each of the eight ways: states, seconds and memory of one beam search, in a process of
its own. A search that does not end in the time allowed is stopped, and its numbers are then less than they would be.
Source: Anderson et al. 2021, §6.3, tables 1 to 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from metol.experiments.anderson_paper import SECONDS, STATES
from metol.experiments.drawing import draw_bars, draw_legend
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.schedulers import SEARCH, AppExperiment, source_of
from metol.measure import PipelineSource, Scheduler, measure_search
from metol.targets.gpu import GpuMachine
from metol.text_table import NOTHING, TextTable, geometric_mean, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AS_PUBLISHED", "GPU", "MEMORY", "PAPER", "SearchTimes", "StatesEvaluated", "beside", "search_point"]

GPU: Final = "a100"
"""What is searched for; nothing is run."""
_TARGET: Final = f"host-cuda-{GpuMachine.preset(GPU).halide_feature}"
AS_PUBLISHED: Final[Mapping[str, Any]] = MappingProxyType({"rfactor": False, "staging": False})
"""Fields of `SearchOptions`: what the paper's system lacks is no part of its searches."""
MEMORY: Final = "peak_mib"
"""What the most memory is called among the values of a point, in MiB."""
PAPER: Final = "ours / the paper's"
"""What a cell holds where the paper has a number."""

_STATES: Final = "states"
_STOPPED: Final = "stopped_s"
# Beyond the time allowed: the best state is followed to its end, and Halide lowers what comes of it.
_GRACE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class _Way:
    """What is switched on."""

    memoization: bool
    sampling: bool
    freezing: bool

    @property
    def name(self) -> str:
        """What is on, by name."""
        parts = {"memoization": self.memoization, "sampling": self.sampling, "freezing": self.freezing}
        return " + ".join(name for name, is_on in parts.items() if is_on) or "none"

    @property
    def options(self) -> dict[str, bool]:
        """The fields of `SearchOptions`."""
        return {"memoization": self.memoization, "sampling": self.sampling, "freezing": self.freezing}


_WAYS: Final = tuple(_Way(*switches) for switches in product((True, False), repeat=3))
"""In the order of the paper's columns."""
_REMEMBERING: Final = _WAYS[: len(_WAYS) // 2]


def search_point(
    series: str, source: PipelineSource, setting: Setting, scheduler: str, options: Mapping[str, object] | None = None
) -> Point:
    """Let a scheduler search in a process of its own; where it is Metol, only as long as the setting allows.

    Args:
        series: What the point is called.
        source: The pipeline.
        setting: How long it may take, and with how many threads.
        scheduler: Its name.
        options: Its options.
    """
    setting.progress(f"{source.label}: {series}")
    limit = setting.options.timeout_seconds
    told = dict(options or {})
    if scheduler == "metol":
        told = {"gpu": GPU, "budget_seconds": limit, **AS_PUBLISHED, **told}
    row = measure_search(
        source,
        Scheduler.parse(f"{scheduler}:{'/'.join(f'{name}={value}' for name, value in told.items())}"),
        threads=setting.options.threads,
        timeout_seconds=limit + (_GRACE_SECONDS if scheduler == "metol" else 0.0),
        target=_TARGET,
    )
    if row.seconds is None:
        return Point(series, {}, row.detail)
    seconds = row.costing_seconds or row.seconds
    values = {SEARCH: seconds, **({_STATES: float(row.candidates)} if row.candidates else {})}
    values |= {} if row.peak_mib is None else {MEMORY: row.peak_mib}
    if scheduler == "metol" and seconds >= limit:
        return Point(series, {**values, _STOPPED: limit}, f"stopped after {limit:g} s")
    return Point(series, values)


class _BeamSearches(AppExperiment):
    """All eight ways to search each application."""

    measurement = "beam searches for a GPU"

    def depends_on(self, setting: Setting) -> str:
        """Nothing is run."""
        return f"for {GPU}, stopped after {setting.options.timeout_seconds:g} s"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search in all ways."""
        source = source_of(subject, setting)
        once = {"strategy": "batch", "searches": 1}
        return tuple(search_point(way.name, source, setting, "metol", {**once, **way.options}) for way in _WAYS), ""


class StatesEvaluated(_BeamSearches):
    """How many loop nests a beam search costs with sampling and freezing, and without."""

    title = "Loop nests that a beam search costs, and their share of those with neither filter"

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return the paper's table 1."""
        headers = tuple(_filters(way) for way in _REMEMBERING)
        lines = tuple(
            (one.subject, *(_states_cell(one, place) for place in range(len(_REMEMBERING)))) for one in outcomes
        )
        means = tuple(_mean_share(outcomes, place) for place in range(len(_REMEMBERING)))
        return (TextTable(f"{self.title}, {PAPER}", ("app", *headers), lines, (("geometric mean", *means),)),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the shares."""
        axis = figure.add_subplot()
        shares = {_filters(way): [_share(one, way) for one in outcomes] for way in _REMEMBERING[:-1]}
        draw_bars(axis, [one.subject for one in outcomes], shares)
        axis.set(ylabel="share of the loop nests costed without")
        draw_legend(axis)


class SearchTimes(_BeamSearches):
    """How long a beam search takes with memoization, sampling and freezing, and without."""

    title = "Time of a beam search (s)"

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return the paper's tables 2 and 3."""
        headers = ("app", *(way.name for way in _WAYS))
        times = tuple((one.subject, *(_time_cell(one, place) for place in range(len(_WAYS)))) for one in outcomes)
        gains = tuple((one.subject, *(_gain_cell(one, place) for place in range(len(_WAYS)))) for one in outcomes)
        mean_times = tuple(_mean_time(outcomes, place) for place in range(len(_WAYS)))
        mean_gains = tuple(_mean_gain(outcomes, place) for place in range(len(_WAYS)))
        return (
            TextTable(f"{self.title}, {PAPER}", headers, times, (("geometric mean", *mean_times),)),
            TextTable(
                f"How many times faster than with none, {PAPER}", headers, gains, (("geometric mean", *mean_gains),)
            ),
        )

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the times."""
        axis = figure.add_subplot()
        times = {way.name: [one.value(way.name, SEARCH) for one in outcomes] for way in _WAYS}
        draw_bars(axis, [one.subject for one in outcomes], times)
        if any(value for values in times.values() for value in values):
            axis.set_yscale("log")
        axis.set(ylabel="search (s)")
        draw_legend(axis, fontsize="x-small")


def beside(own: str, paper: str | None) -> str:
    """Return a cell with our number and the paper's, where it has one."""
    return own if paper is None else f"{own} / {paper}"


def _filters(way: _Way) -> str:
    return _Way(False, way.sampling, way.freezing).name


def _is_stopped(one: Outcome, way: _Way) -> bool:
    return one.value(way.name, _STOPPED) is not None


def _share(one: Outcome, way: _Way) -> float | None:
    """Loop nests costed, as a share of those with neither filter; where that was stopped, the share is less."""
    own, whole = one.value(way.name, _STATES), one.value(_REMEMBERING[-1].name, _STATES)
    return own / whole if own and whole else None


def _states_cell(one: Outcome, place: int) -> str:
    way = _REMEMBERING[place]
    states, share = one.value(way.name, _STATES), _share(one, way)
    paper = STATES.get(one.subject)
    theirs = None if paper is None else f"{paper[place]} ({paper[place] / paper[-1]:.1%})"
    if states is None or share is None:
        return beside(NOTHING, theirs)
    more = ">" if _is_stopped(one, way) else ""
    less = "<" if place < len(_REMEMBERING) - 1 and _is_stopped(one, _REMEMBERING[-1]) else ""
    return beside(f"{more}{states:.0f} ({less}{share:.1%})", theirs)


def _mean_share(outcomes: Sequence[Outcome], place: int) -> str:
    way = _REMEMBERING[place]
    shares = [share for one in outcomes if (share := _share(one, way))]
    less = "<" if any(_is_stopped(one, _REMEMBERING[-1]) for one in outcomes) and way != _REMEMBERING[-1] else ""
    paper = geometric_mean([row[place] / row[-1] for row in STATES.values()])
    return beside(f"{less}{geometric_mean(shares):.1%}" if shares else NOTHING, f"{paper:.1%}")


def _time_cell(one: Outcome, place: int) -> str:
    way, paper = _WAYS[place], SECONDS.get(one.subject)
    more = ">" if _is_stopped(one, way) else ""
    own = one.value(way.name, SEARCH)
    theirs = None if paper is None else number_cell(paper[place])
    return beside(NOTHING if own is None else f"{more}{number_cell(own)}", theirs)


def _mean_time(outcomes: Sequence[Outcome], place: int) -> str:
    way = _WAYS[place]
    times = [seconds for one in outcomes if (seconds := one.value(way.name, SEARCH))]
    more = ">" if any(_is_stopped(one, way) for one in outcomes) else ""
    paper = geometric_mean([row[place] for row in SECONDS.values()])
    return beside(f"{more}{number_cell(geometric_mean(times))}" if times else NOTHING, number_cell(paper))


def _gain(one: Outcome, way: _Way) -> float | None:
    own, whole = one.value(way.name, SEARCH), one.value(_WAYS[-1].name, SEARCH)
    return whole / own if own and whole else None


def _gain_cell(one: Outcome, place: int) -> str:
    way, paper = _WAYS[place], SECONDS.get(one.subject)
    gain = _gain(one, way)
    more = ">" if _is_stopped(one, _WAYS[-1]) and not _is_stopped(one, way) else ""
    theirs = None if paper is None else number_cell(paper[-1] / paper[place])
    return beside(NOTHING if gain is None else f"{more}{number_cell(gain)}", theirs)


def _mean_gain(outcomes: Sequence[Outcome], place: int) -> str:
    gains = [gain for one in outcomes if (gain := _gain(one, _WAYS[place]))]
    paper = geometric_mean([row[-1] / row[place] for row in SECONDS.values()])
    return beside(number_cell(geometric_mean(gains)) if gains else NOTHING, number_cell(paper))
