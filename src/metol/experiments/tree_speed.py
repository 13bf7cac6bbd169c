"""How fast trees grow: complete iterations a second, and what it takes to make one random child of a loop nest.

In: applications. Out: points: iterations (selection, expansion, roll-out, cost, backpropagation) of an ensemble a
second, and the time of a child that is drawn without its siblings beside that of one picked from all. Source: ProTuner
2020, §5.3: making children that nobody uses takes 88 % of its time.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from metol import _core
from metol.experiments.drawing import COLOURS, name_groups
from metol.experiments.experiment import Outcome, Point, Setting
from metol.experiments.schedulers import AppExperiment, source_of
from metol.options import SearchOptions
from metol.planner import Planner
from metol.search import Budget
from metol.text_table import TextTable, geometric_mean, number_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TreeSpeed"]

_SECONDS = 3.0
# Loop nests that are one decision further at a time.
_BATCH = 64
_TREES, _DRAWN, _PICKED = "trees", "drawn", "picked"
_RATE, _STEP = "iterations_per_s", "step_us"


class TreeSpeed(AppExperiment):
    """Iterations of trees a second, and the time of a random child."""

    title = "Iterations of trees, and random children"
    measurement = "speed of trees"

    def measure(self, subject: str, setting: Setting) -> tuple[tuple[Point, ...], str]:
        """Let trees grow, and make random loop nests in both ways."""
        options = SearchOptions()
        planner = Planner(source_of(subject, setting).build(), options, threads=setting.options.threads)
        space, model = planner.form().space, planner.model
        trees = options.monte_carlo.plant(space, model)
        before, started = trees.iterations, time.monotonic()
        trees.iterate_until(started + _SECONDS, Budget.start())
        rate = (trees.iterations - before) / (time.monotonic() - started)
        drawn, picked = _step_seconds(space)
        return (
            Point(_TREES, {_RATE: rate}),
            Point(_DRAWN, {_STEP: 1e6 * drawn}),
            Point(_PICKED, {_STEP: 1e6 * picked}),
        ), ""

    def tables(self, outcomes: Sequence[Outcome]) -> tuple[TextTable, ...]:
        """Return rates, and times of a child."""
        headers = ("app", "iterations a second", "a child drawn (µs)", "picked from all (µs)", "picked / drawn")
        lines = []
        for one in outcomes:
            cells = (one.value(_TREES, _RATE), one.value(_DRAWN, _STEP), one.value(_PICKED, _STEP), _saving(one))
            lines.append((one.subject, *map(number_cell, cells)))
        savings = [saving for one in outcomes if (saving := _saving(one))]
        mean = number_cell(geometric_mean(savings) if savings else None)
        return (TextTable(self.title, headers, tuple(lines), (("geometric mean", "", "", "", mean),)),)

    def draw(self, figure: "Figure", outcomes: Sequence[Outcome]) -> None:
        """Draw how many times longer a child takes that is picked from all."""
        axis = figure.add_subplot()
        axis.bar(range(len(outcomes)), [_saving(one) or 0 for one in outcomes], color=COLOURS[0])
        name_groups(axis, [one.subject for one in outcomes])
        axis.set(ylabel="time of a child picked from all / of one drawn")


def _saving(one: Outcome) -> float | None:
    drawn, picked = one.value(_DRAWN, _STEP), one.value(_PICKED, _STEP)
    return picked / drawn if drawn and picked else None


def _step_seconds(space: _core.Space) -> tuple[float, float]:
    """Return the time of a random child that is drawn, and of one that is picked, over whole random loop nests."""
    rng = np.random.default_rng(0)
    states = space.root().take([0] * _BATCH)
    drawn = picked = 0.0
    steps = 0
    for _ in range(space.decision_count):
        started = time.perf_counter()
        children, parents = space.expand(states)
        firsts = np.searchsorted(parents, np.arange(len(states) + 1))
        counts = np.diff(firsts)
        alive = np.flatnonzero(counts)
        places = firsts[alive] + (rng.random(len(alive)) * counts[alive]).astype(int)
        children.take(places.tolist())
        between = time.perf_counter()
        following = space.sample(states, rng.integers(1 << 62, size=len(states)).tolist())
        drawn += time.perf_counter() - between
        picked += between - started
        steps += len(states)
        states = following
        if len(states) == 0:
            break
    return drawn / max(1, steps), picked / max(1, steps)
