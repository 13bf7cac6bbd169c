"""How much memory searches for a GPU take, with memoization and without.

In: applications. Out: points of a beam search, a greedy search and a batch of 80: the most memory that a process of its
own held, what it had imported included. Source: Anderson et al. 2021, table 5.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from metol.experiments.anderson_paper import MEMORY_MB
from metol.experiments.anderson_searches import GPU, MEMORY, PAPER, beside, search_point
from metol.experiments.drawing import draw_bars, draw_legend
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.schedulers import AppExperiment, source_of
from metol.text_table import NOTHING, TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SearchMemory"]

_BATCH: Final[dict[str, Any]] = {"strategy": "batch"}
_SEARCHES: Final[Mapping[str, dict[str, Any]]] = MappingProxyType(
    {
        "beam search": {**_BATCH, "searches": 1},
        "greedy search": {**_BATCH, "searches": 1, "beam_width": 1, "passes": 1},
        "batch": _BATCH,
    }
)
_SERIES: Final[Mapping[str, dict[str, Any]]] = MappingProxyType(
    {
        f"{name}{'' if memoization else ' without memoization'}": {**options, "memoization": memoization}
        for memoization in (True, False)
        for name, options in _SEARCHES.items()
    }
)
"""In the order of the paper's columns."""


class SearchMemory(AppExperiment):
    """Memory of searches."""

    title = "Memory of searches (MB)"
    measurement = "memory of searches for a GPU"

    def depends_on(self, setting: Setting) -> str:
        """Nothing is run."""
        return f"for {GPU}, stopped after {setting.options.timeout_seconds:g} s"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Search in processes of their own."""
        source = source_of(subject, setting)
        return tuple(search_point(name, source, setting, "metol", options) for name, options in _SERIES.items()), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return the paper's table 5; its batch is the sum of 80 processes, ours is one."""
        lines = tuple(
            (one.subject, *(_cell(one, name, place) for place, name in enumerate(_SERIES))) for one in outcomes
        )
        most = tuple(_most(outcomes, name, place) for place, name in enumerate(_SERIES))
        return (TextTable(f"{self.title}, {PAPER}", ("app", *_SERIES), lines, (("most", *most),)),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw the memory of each."""
        axis = figure.add_subplot()
        draw_bars(
            axis,
            [one.subject for one in outcomes],
            {name: [_megabytes(one, name) for one in outcomes] for name in _SERIES},
        )
        axis.set(ylabel="most memory (MB)")
        draw_legend(axis, fontsize="x-small")


def _megabytes(one: Outcome, series: str) -> float | None:
    """The most that a search held, in the paper's unit."""
    mib = one.value(series, MEMORY)
    return None if mib is None else mib * 2**20 / 1e6


def _cell(one: Outcome, series: str, place: int) -> str:
    paper = MEMORY_MB.get(one.subject)
    return beside(_whole(_megabytes(one, series)), None if paper is None else str(paper[place]))


def _most(outcomes: Sequence[Outcome], series: str, place: int) -> str:
    known = [value for one in outcomes if (value := _megabytes(one, series))]
    return beside(_whole(max(known, default=None)), str(max(row[place] for row in MEMORY_MB.values())))


def _whole(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f}"
