"""What measurements tell of the cost model: it goes by them where it errs, and by the model where nothing is known."""

from dataclasses import replace

import numpy as np
import pytest
from measured import proposal, record_of
from small_pipelines import SOME_TARGET, pyramid, some_machine

from metol import _core
from metol.options import SearchOptions
from metol.pipeline import Staging
from metol.planner import Planner
from metol.search import Form
from metol.tune.proposals import Proposal
from metol.tune.residuals import Residuals
from metol.tune.standings import Standing, Standings

MODEL = _core.CostModel()


@pytest.fixture(scope="module")
def planner() -> Planner:
    options = SearchOptions(strategy="greedy", budget_seconds=None, weights="analytical")
    return Planner(pyramid(), options, target=SOME_TARGET, machine=some_machine(), threads=2)


def some_states(form: Form, count: int) -> list[_core.States]:
    """Different random loop nests."""
    space = form.space
    drawn = [space.rollout(space.root(), [seed]) for seed in range(count)]
    return list({int(space.identity_hash(state)[0]): state for state in drawn}.values())


def cost_of(form: Form, state: _core.States) -> float:
    return float(form.space.cost(state, MODEL)[0])


def standings_of(planner: Planner, measured: list[tuple[Form, _core.States, float]]) -> Standings:
    """Loop nests that took so many seconds."""
    standings = Standings()
    for form, state, seconds in measured:
        nest = planner.nest_of(form, state)
        schedule = planner.schedule_of(form, state, nest)
        assert schedule is not None
        one = Proposal("sample", schedule, nest)
        standings.add(Standing(one, record_of(one, 1e3 * seconds), 1e3 * seconds))
    return standings


def heaviest_term(form: Form, states: list[_core.States]) -> tuple[int, int]:
    """The Stage and the term that differ most from loop nest to loop nest, as a part of the cost."""
    shares = np.array([terms_of(form, state) / cost_of(form, state) for state in states])
    stage, term = np.unravel_index(np.argmax(shares.std(axis=0)), shares.shape[1:])
    return int(stage), int(term)


def terms_of(form: Form, state: _core.States) -> np.ndarray:
    """Seconds of each term of each Stage, [S, T]."""
    space = form.space
    rows = space.featurize(state)[0]
    return np.array([space.terms(row) * space.analytical_coefficients(stage, row) for stage, row in enumerate(rows)])


def test_what_the_model_misjudges_is_learned(planner: Planner) -> None:
    form = planner.form()
    states = some_states(form, 120)
    stage, term = heaviest_term(form, states)

    def seconds(state: _core.States) -> float:
        """One term of one Stage costs five times as much as the model says."""
        return cost_of(form, state) + 4 * float(terms_of(form, state)[stage, term])

    known, others = states[:40], states[40:]
    residuals = Residuals(planner, standings_of(planner, [(form, state, seconds(state)) for state in known]))
    order = list(residuals.order(form, others, MODEL))
    assert sorted(order) == list(range(len(others)))
    by_cost = sorted(range(len(others)), key=lambda place: cost_of(form, others[place]))
    by_time = np.argsort(np.argsort([seconds(state) for state in others]))

    def agreement(places: list[int]) -> float:
        """The rank correlation of an order with that by time."""
        return float(np.corrcoef(by_time[places], np.arange(len(places)))[0, 1])

    assert agreement(order) > agreement(by_cost) + 0.01


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_a_model_that_misjudges_nothing_or_all_alike_keeps_its_order(planner: Planner, factor: float) -> None:
    form = planner.form()
    states = some_states(form, 120)
    known, others = states[:40], states[40:]
    measured = [(form, state, factor * cost_of(form, state)) for state in known]
    order = list(Residuals(planner, standings_of(planner, measured)).order(form, others, MODEL))
    costs = np.array([cost_of(form, others[place]) for place in order])
    ranks = np.argsort(np.argsort(costs))
    assert np.corrcoef(ranks, np.arange(len(ranks)))[0, 1] > 0.9


def test_what_is_like_the_first_of_a_batch_comes_later(planner: Planner) -> None:
    form = planner.form()
    states = sorted(some_states(form, 120), key=lambda state: cost_of(form, state))
    # One stands there twice, and was as much hoped for the second time but for what the first tells.
    costs = [cost_of(form, state) for state in states]
    first = min(range(len(states) - 4), key=lambda place: costs[place + 4] / costs[place])
    assert costs[first + 4] < 1.6 * costs[first]
    order = list(Residuals(planner, Standings()).order(form, [states[first], *states[first : first + 5]], MODEL))
    assert abs(order.index(0) - order.index(1)) > 1


def test_what_was_measured_is_left_out(planner: Planner) -> None:
    form = planner.form()
    states = some_states(form, 30)
    measured = [(form, state, cost_of(form, state)) for state in states[:5]]
    order = list(Residuals(planner, standings_of(planner, measured)).order(form, states, MODEL))
    assert sorted(order) == list(range(5, len(states)))
    assert list(Residuals(planner, standings_of(planner, measured)).order(form, states[:5], MODEL)) == []
    assert list(Residuals(planner, Standings()).order(form, [], MODEL)) == []


def test_what_says_nothing_of_a_form_changes_nothing(planner: Planner) -> None:
    form, other = planner.form(), planner.form(stagings=(Staging(0, 1),))
    states = some_states(form, 30)
    standings = standings_of(planner, [(other, state, 1.0) for state in some_states(other, 5)])
    foreign = proposal("a")
    stale = replace(proposal("b"), nest=replace(planner.nest_of(form, states[0]), path=((99,),)))
    for one in (foreign, stale):
        standings.add(Standing(one, record_of(one, 1.0), 1.0))
    assert list(Residuals(planner, standings).order(form, states, MODEL)) == list(
        Residuals(planner, Standings()).order(form, states, MODEL)
    )


def test_later_scores_and_other_models_count(planner: Planner) -> None:
    form = planner.form()
    states = some_states(form, 60)
    known, others = states[:20], states[20:]
    standings = standings_of(planner, [(form, state, cost_of(form, state)) for state in known])
    residuals = Residuals(planner, standings)
    before = list(residuals.order(form, others, MODEL))
    for number, standing in enumerate(standings.ranked()):
        standings.rescore(standing.proposal.schedule, standing.score_ms * (0.2 if number % 2 else 5.0))
    assert list(residuals.order(form, others, MODEL)) != before
    other = _core.CostModel()
    assert list(residuals.order(form, others, other)) == list(Residuals(planner, standings).order(form, others, other))
