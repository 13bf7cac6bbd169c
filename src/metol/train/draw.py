"""Loop nests to learn from: what a search would visit, what it would pass over, and what nobody would choose.

Enter: a planner and a cost model. Leave: loop nests that differ. Source: Adams et al. 2019, §5 (dropout of one half
around the current model, random weights at first), and random completions, for what is bad must be seen to be known.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metol import _core
from metol.candidates import Nest
from metol.lower import Directive, Schedule
from metol.planner import Found, Planner
from metol.search import BeamSearch, Budget, Form, RandomSearch, SearchResult, draw_place, rare_dropout

__all__ = ["ORIGINS", "DrawPlan", "Drawn", "draw_nests"]

ORIGINS = {
    "search": "the best that a short search found",
    "greedy": "greedily, by the current model",
    "sample": "greedily, now and then passing over the best candidate, as tuning does",
    "dropout": "greedily, passing over half of the candidates (Adams et al. 2019, §5)",
    "distorted": "greedily, by a model whose terms weigh more or less at random",
    "neighbour": "a loop nest drawn before, with one decision changed",
    "rollout": "every decision at random",
}
"""How loop nests are drawn."""

_DROPOUT = 0.5
# Standard deviation of the logarithm of what terms are multiplied by.
_DISTORTION = 1.5
# Of the draws, how many leave the pipeline in the form in which it was given.
_PLAIN_SHARE = 0.6
# Forms of which the greedy result is among the samples.
_GREEDY_FORMS = 4
# Draws in vain, for each that is wanted, after which a program is taken to have no more.
_PATIENCE = 6


@dataclass(frozen=True, slots=True)
class DrawPlan:
    """How many loop nests are drawn, and how."""

    count: int = 32
    """Loop nests of a program."""
    shares: tuple[tuple[str, float], ...] = (
        ("sample", 0.25),
        ("dropout", 0.2),
        ("distorted", 0.25),
        ("neighbour", 0.15),
        ("rollout", 0.15),
    )
    """How the rest is drawn, after what a search finds; the shares add up to 1."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One loop nest."""

    origin: str
    """A key of ORIGINS."""
    nest: Nest
    """Its decisions."""
    schedule: Schedule
    """What they become; nobody has judged it."""


def draw_nests(planner: Planner, found: Found, model: _core.CostModel, plan: DrawPlan, seed: int) -> list[Drawn]:
    """Draw loop nests of a pipeline; fewer where it does not have as many.

    Args:
        planner: The pipeline.
        found: What a search of it found.
        model: What guides the draws.
        plan: How many, and how.
        seed: Decides about all that is random.
    """
    drawing = _Drawing(planner, model, seed)
    if found.form is not None and found.result is not None:
        drawing.use(found.form)
        drawing.add("search", found.form, found.result.state)
    # Also in forms that did not win: whether a copy or an update in two steps pays is to be learned, too.
    for form in planner.forms:
        drawing.use(form)
    for form in drawing.forms[:_GREEDY_FORMS]:
        drawing.add("greedy", form, drawing.greedy(form, model, 0.0).state)
    origins = [name for name, _ in plan.shares]
    shares = np.array([share for _, share in plan.shares])
    misses = 0
    while len(drawing.drawn) < plan.count and misses < _PATIENCE * plan.count:
        origin = origins[int(drawing.rng.choice(len(origins), p=shares / shares.sum()))]
        misses += not drawing.draw(origin)
    return drawing.drawn[: plan.count]


class _Drawing:
    """What was drawn so far."""

    def __init__(self, planner: Planner, model: _core.CostModel, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.drawn: list[Drawn] = []
        self.forms: list[Form] = [planner.form()]
        self._planner = planner
        self._model = model
        self._seen: set[tuple[Directive, ...]] = set()
        self._states: list[tuple[Form, Any]] = []

    def use(self, form: Form) -> None:
        """Draw in this form of the pipeline, too."""
        if form not in self.forms:
            self.forms.append(form)

    def draw(self, origin: str) -> bool:
        """Draw one; False where it is known already, or cannot be written as directives."""
        form = self.forms[draw_place(len(self.forms), _PLAIN_SHARE, self.rng)]
        if origin == "neighbour":
            if not self._states:
                return False
            form, state = self._states[int(self.rng.integers(len(self._states)))]
            around = form.space.neighbours(state, int(self.rng.integers(form.space.decision_count)))
            if not len(around):
                return False
            return self.add(origin, form, around.take([int(self.rng.integers(len(around)))]))
        return self.add(origin, form, self._drawn_state(origin, form))

    def greedy(self, form: Form, model: _core.CostModel, dropout: float) -> SearchResult:
        """Search greedily, with dropout."""
        search = BeamSearch(width=1, dropout=dropout, seed=int(self.rng.integers(1 << 31)))
        return search.search(form.space, model, Budget.start())

    def add(self, origin: str, form: Form, state: _core.States) -> bool:
        """Keep a loop nest, unless its schedule is known already."""
        nest = self._planner.nest_of(form, state)
        schedule = self._planner.schedule_of(form, state, nest)
        if schedule is None or schedule.directives in self._seen:
            return False
        self._seen.add(schedule.directives)
        self._states.append((form, state))
        self.drawn.append(Drawn(origin, nest, schedule))
        return True

    def _drawn_state(self, origin: str, form: Form) -> _core.States:
        if origin == "rollout":
            search = RandomSearch(1, int(self.rng.integers(1 << 31)))
            return search.search(form.space, self._model, Budget.start()).state
        if origin == "distorted":
            return self.greedy(form, self._distorted(form), 0.0).state
        dropout = rare_dropout(form.space.decision_count) if origin == "sample" else _DROPOUT
        return self.greedy(form, self._model, dropout).state

    def _distorted(self, form: Form) -> _core.CostModel:
        count = len(form.space.term_table())
        factors = np.exp(self.rng.normal(0.0, _DISTORTION, count))
        # Ids tell models apart in the memo; 0 is the analytical one.
        return _core.CostModel(int(self.rng.integers(1 << 32, 1 << 62)), factors=factors.tolist())
