"""Tuning by trees beside tuning by samples, with the same time for each.

In: applications, and a time. Out: the run time of what each found. Source: ProTuner 2020, §5.4 and figure 9.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from metol.errors import MetolError
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.relative import draw_relative, run_tables
from metol.experiments.schedulers import TuningExperiment, race, source_of, tuned
from metol.search import MonteCarlo
from metol.text_table import TextTable
from metol.tune import TunerOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TreeTuning"]

_TUNERS = {
    "metol, samples": TunerOptions(peers=(), sample_share=1.0),
    "metol, mcts_1s": TunerOptions(peers=(), trees=MonteCarlo(), tree_seconds=1.0),
    "metol, mcts_0.5s": TunerOptions(peers=(), trees=MonteCarlo(), tree_seconds=0.5),
}
"""Ways to tune, by what they are called: all measure what the search finds first, and none asks peers.

Samples alone are what the paper's beam search with measurements does, which runs again and again with another seed
(§5.4), with the dropout of Adams et al. 2019, §4.3; the tuner goes on around the best of them.
"""


class TreeTuning(TuningExperiment):
    """The run time of what each way to tune found."""

    title = "Least run time of all / that of what each way to tune found"
    measurement = "tree tuning"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Tune in all ways, and race what was found."""
        source = source_of(subject, setting)
        contestants, failures = [], []
        with tempfile.TemporaryDirectory(prefix="metol-") as folder:
            for number, (series, tuner) in enumerate(_TUNERS.items()):
                setting.progress(f"{source.label}: {series}")
                file = Path(folder) / f"tuned_{number}.json"
                try:
                    contestants.append((series, tuned(source, setting, tuner, file)))
                except MetolError as error:
                    failures.append(Point(series, {}, str(error)))
            return (*race(source, contestants, setting), *failures), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return run times, and run times relative to the least."""
        return run_tables(self.title, outcomes)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw run times relative to the least."""
        draw_relative(figure, outcomes, "least run time / run time")
