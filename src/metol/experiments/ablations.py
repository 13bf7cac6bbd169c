"""What the parts of the search bring: each left out, with the time that it took given to the rest.

In: applications. Out: points of each variant: the run time of its schedule. Source: Adams et al. 2019, §6.3.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from metol.errors import MetolError
from metol.experiments.drawing import draw_bars, draw_legend_above
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.relative import relative_table, times_table
from metol.experiments.schedulers import RUN, TuningExperiment, race, source_of, tuned
from metol.measure import Scheduler
from metol.text_table import TextTable
from metol.train import FineTuner
from metol.tune import TunerOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Ablations"]

_NOTHING_AFTER = "refine=false/discrepancies=false/restarts=false/anneal=false"
_SEARCHES = {
    "metol": "metol",
    "metol, beam alone": f"metol:{_NOTHING_AFTER}/beam_width=32/passes=5",
    # As wide as makes one pass take as long as five.
    "metol, beam, no coarse-to-fine": f"metol:{_NOTHING_AFTER}/beam_width=160/passes=1",
    "metol, one level of tiling": "metol:nested_tiling=false",
    # As many as the time allows.
    "metol, random": "metol:strategy=random/samples=1000000000/refine=false",
}
"""Variants of the search, by what they are called."""

_TUNINGS = {"metol, tuned": False, "metol, tuned with retraining": True}
"""Variants of tuning, and whether the cost model is fitted to what was measured."""


class Ablations(TuningExperiment):
    """Run times of the variants beside each other."""

    title = "Throughput relative to the best variant"
    measurement = "ablations"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Schedule in all ways, and race what comes of it."""
        source = source_of(subject, setting)
        contestants = [(name, Scheduler.parse(text)) for name, text in _SEARCHES.items()]
        failures = []
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            for number, (name, retrains) in enumerate(_TUNINGS.items()):
                setting.progress(f"{source.label}: {name}")
                try:
                    file = Path(folder) / f"tuned_{number}.json"
                    tuner = TunerOptions(peers=(), retrainer=FineTuner() if retrains else None)
                    contestants.append((name, tuned(source, setting, tuner, file)[0]))
                except MetolError as error:
                    failures.append(Point(name, {}, str(error)))
            points = race(source, contestants, setting)
        return (*points, *failures), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return run times, and throughput relative to the best."""
        return times_table((*_SEARCHES, *_TUNINGS), outcomes), relative_table(self.title, outcomes)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw how many times slower than the whole search each variant is."""
        figure.set_size_inches(14, 5)
        axis = figure.add_subplot()
        names = [name for name in (*_SEARCHES, *_TUNINGS) if name != "metol"]
        heights = {name: [_relative(one, name) for one in outcomes] for name in names}
        draw_bars(axis, [one.subject for one in outcomes], heights)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(ylabel="throughput relative to the default search", yscale="log")
        draw_legend_above(figure, axis, 3)


def _relative(one: Outcome, name: str) -> float | None:
    own, whole = one.value(name, RUN), one.value("metol", RUN)
    return whole / own if own and whole else None
