"""What lies around a loop nest: one decision apart, each once, the most promising first."""

from collections import Counter

import pytest
from exact_sides import nest_with_exact_sides
from measured import record_of
from small_pipelines import PIPELINES, SOME_TARGET, chain, product_inside, some_machine

from metol import _core
from metol.candidates import Nest
from metol.errors import MetolError
from metol.options import SearchOptions
from metol.pipeline import Staging
from metol.planner import Planner
from metol.tune.neighbours import Neighbours
from metol.tune.proposals import Proposal, propose_state
from metol.tune.residuals import Residuals
from metol.tune.standings import Standing, Standings

QUICK = SearchOptions(strategy="greedy", budget_seconds=None, weights="analytical")
MODEL = _core.CostModel()


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(chain(), QUICK, threads=2)


@pytest.fixture(scope="module")
def start(planner: Planner) -> Proposal:
    """What the descent starts from."""
    nest = next(iter(planner.search().candidates)).nest()
    return proposal_of(planner, nest)


def proposal_of(planner: Planner, nest: Nest) -> Proposal:
    form, state = planner.state_of(nest)
    cost = float(form.space.cost(state, MODEL)[0])
    proposal = propose_state(planner, form, state, nest, "search", predicted_seconds=cost)
    assert proposal is not None
    return proposal


def around_each_decision(planner: Planner, nest: Nest) -> list[set[int]]:
    """The loop nests that differ in each decision, by their hash."""
    form, state = planner.state_of(nest)
    space = form.space
    around = (space.neighbours(state, position) for position in range(space.decision_count))
    return [{int(value) for value in space.identity_hash(states)} for states in around]


def identity(planner: Planner, nest: Nest) -> int:
    form, state = planner.state_of(nest)
    return int(form.space.identity_hash(state)[0])


def is_flag(proposal: Proposal, start: Proposal) -> bool:
    return proposal.nest.specialize_estimate != start.nest.specialize_estimate


def draw_all(around: Neighbours, tried: set[str]) -> list[list[Proposal]]:
    """Draw until nothing is left, and remember what was drawn."""
    batches = []
    while batch := around.draw(8, tried):
        tried |= {proposal.text for proposal in batch}
        batches.append(batch)
    return batches


def test_all_that_is_drawn_is_new_and_at_last_nothing_is_left(planner: Planner, start: Proposal) -> None:
    around = Neighbours(planner, start.nest, MODEL)
    batches = draw_all(around, {start.text})
    texts = [proposal.text for batch in batches for proposal in batch]
    assert len(texts) == len(set(texts)) > 8
    assert start.text not in texts
    assert all(len(batch) <= 8 for batch in batches)
    assert around.draw(8, ()) == []


def test_what_was_measured_says_which_neighbours_come_first(planner: Planner, start: Proposal) -> None:
    first, *_ = draw_all(Neighbours(planner, start.nest, MODEL), {start.text})
    # Those that the model likes best were slow, each by a factor of its own.
    standings = Standings()
    for number, one in enumerate(first):
        score_ms = 1e3 * one.predicted_seconds * (2 + number % 3)
        standings.add(Standing(one, record_of(one, score_ms), score_ms))
    tried = {start.text, *(one.text for one in first)}
    plain = draw_all(Neighbours(planner, start.nest, MODEL), set(tried))
    corrected = draw_all(Neighbours(planner, start.nest, MODEL, Residuals(planner, standings)), set(tried))
    texts = [[proposal.text for batch in batches for proposal in batch] for batches in (plain, corrected)]
    assert sorted(texts[0]) == sorted(texts[1])
    assert texts[0] != texts[1]


def test_every_neighbour_differs_in_one_decision_or_in_a_flag(planner: Planner, start: Proposal) -> None:
    around = set[int]().union(*around_each_decision(planner, start.nest))
    for batch in draw_all(Neighbours(planner, start.nest, MODEL), {start.text}):
        for proposal in batch:
            assert proposal.origin == "neighbour"
            if is_flag(proposal, start):
                assert proposal.nest.path == start.nest.path
            else:
                assert identity(planner, proposal.nest) in around


def test_a_neighbour_is_what_its_decisions_lead_to(planner: Planner, start: Proposal) -> None:
    for proposal in Neighbours(planner, start.nest, MODEL).draw(8, {start.text}):
        again = proposal_of(planner, proposal.nest)
        assert again.schedule == proposal.schedule
        assert again.predicted_seconds == pytest.approx(proposal.predicted_seconds)


def test_the_other_flag_comes_first_and_once() -> None:
    planner = Planner(product_inside(), QUICK, target=SOME_TARGET, machine=some_machine())
    start = proposal_of(planner, nest_with_exact_sides(planner))
    batches = draw_all(Neighbours(planner, start.nest, MODEL), {start.text})
    flags = [is_flag(proposal, start) for batch in batches for proposal in batch]
    assert flags == [True, *[False] * (len(flags) - 1)]


def test_the_cheapest_come_first_and_the_hopeless_never(planner: Planner, start: Proposal) -> None:
    for batch in draw_all(Neighbours(planner, start.nest, MODEL), {start.text}):
        costs = [proposal.predicted_seconds for proposal in batch if not is_flag(proposal, start)]
        assert costs == sorted(costs)
        assert all(cost <= 2 * start.predicted_seconds for cost in costs)


def test_no_decision_has_a_batch_for_itself(planner: Planner, start: Proposal) -> None:
    around = around_each_decision(planner, start.nest)
    batches = draw_all(Neighbours(planner, start.nest, MODEL), {start.text})
    drawn: Counter[int] = Counter()
    for batch in batches:
        found = [identity(planner, proposal.nest) for proposal in batch if not is_flag(proposal, start)]
        positions = [[place for place, hashes in enumerate(around) if each in hashes] for each in found]
        of_decision = Counter(each[0] for each in positions if len(each) == 1)
        assert max(of_decision.values(), default=0) <= 2
        drawn += of_decision
    assert max(drawn.values()) > 2, "it has a turn in the next batch"


def test_what_was_tried_is_passed_over(planner: Planner, start: Proposal) -> None:
    first = Neighbours(planner, start.nest, MODEL).draw(8, {start.text})
    tried = {start.text, *(proposal.text for proposal in first)}
    assert not tried & {proposal.text for proposal in Neighbours(planner, start.nest, MODEL).draw(8, tried)}


def test_neighbours_stay_in_the_form_of_the_pipeline(planner: Planner) -> None:
    form = planner.form(stagings=(Staging(0, 1),))
    nest = planner.nest_of(form, form.space.rollout(form.space.root(), [3]))
    drawn = Neighbours(planner, nest, MODEL).draw(8, ())
    assert drawn
    assert {proposal.nest.stagings for proposal in drawn} == {((0, 1),)}
    for proposal in drawn:
        assert proposal_of(planner, proposal.nest).schedule == proposal.schedule


def test_a_nest_of_another_pipeline_has_none(start: Proposal) -> None:
    with pytest.raises(MetolError):
        Neighbours(Planner(PIPELINES["blur"](), QUICK, threads=2), start.nest, MODEL)
