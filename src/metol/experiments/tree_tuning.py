"""Tuning by trees beside tuning by a beam and samples, and by a whole search and descent, with the same time for each.

In: applications, and a time. Out: the run time of what each found. Source: ProTuner 2020, §5.4 and figure 9.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from metol.errors import MetolError
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.relative import draw_relative, run_tables
from metol.experiments.schedulers import TuningExperiment, race, source_of, tuned
from metol.measure import Scheduler
from metol.options import SearchOptions
from metol.search import MonteCarlo
from metol.text_table import TextTable
from metol.tune import TunerOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TreeTuning"]

TRIALS = "trials"
"""What the number of schedules measured before the final race is called among the values of a point."""

_WAYS = {
    "metol, beam": (SearchOptions(refine=False), TunerOptions(peers=(), sample_share=1.0)),
    "metol, tuned": (SearchOptions(), TunerOptions(peers=())),
    "metol, mcts_1s": (SearchOptions(), TunerOptions(peers=(), trees=MonteCarlo(), tree_seconds=1.0)),
    "metol, mcts_0.5s": (SearchOptions(), TunerOptions(peers=(), trees=MonteCarlo(), tree_seconds=0.5)),
}
"""Ways to search and to tune, by what they are called: all measure what the search finds first, and none asks peers.

The first is the paper's beam search with measurements, which runs again and again with another seed (§5.4), with the
dropout of Adams et al. 2019, §4.3. The second is `metol tune --strategy beam`: the whole search, some samples, then
descent. The last is `metol tune` by default.
"""


class TreeTuning(TuningExperiment):
    """The run time of what each way to tune found, and how many schedules it measured."""

    title = "Least run time of all / that of what each way to tune found"
    measurement = "tree tuning"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Tune in all ways, and race what was found."""
        source = source_of(subject, setting)
        contestants: list[tuple[str, Scheduler]] = []
        failures: list[Point] = []
        trials: dict[str, int] = {}
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            for number, (series, (options, tuner)) in enumerate(_WAYS.items()):
                setting.progress(f"{source.label}: {series}")
                file = Path(folder) / f"tuned_{number}.json"
                try:
                    scheduler, result = tuned(source, setting, tuner, file, options)
                except MetolError as error:
                    failures.append(Point(series, {}, str(error)))
                    continue
                contestants.append((series, scheduler))
                trials[series] = result.trials
            raced = race(source, contestants, setting)
        counted = (replace(point, values={**point.values, TRIALS: trials[point.series]}) for point in raced)
        return (*counted, *failures), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return run times, and run times relative to the least."""
        return run_tables(self.title, outcomes)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw run times relative to the least."""
        draw_relative(figure, outcomes, "least run time / run time")
